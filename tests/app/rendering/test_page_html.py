"""The HTML of articles, indexes and jobs: foreign text is text, tags are closed, figures are correct."""

from pathlib import Path

import pytest

from linkseek.app.background.jobs import Job, Jobs, JobStage, Order
from linkseek.app.context.article import read_article
from linkseek.app.context.titles import ArticleName, find_articles
from linkseek.app.rendering import index_description
from linkseek.app.rendering.addresses import ArticleView
from linkseek.app.rendering.html_templates import render
from linkseek.app.rendering.index_description import describe, listed, outcome
from linkseek.app.rendering.views import article_html
from linkseek.indexer.program.text import byte_size
from tests.support.reading import Reader
from tests.support.tiny.index import HOSTILE_TEXT, HOSTILE_TITLE
from tests.support.tiny.linked import build_linked, page, topology_of
from tests.support.tiny.manifests import index_manifest


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    hostile = page(
        "<i>id</i>#?&", f"{HOSTILE_TEXT} [[B|an <b>anchor</b>]].", HOSTILE_TITLE, "javascript:alert(4)"
    )
    hostile["sections"] = [{"start": 20, "heading": "<h1>Heading</h1>", "level": 2}]
    return build_linked(
        tmp_path_factory.mktemp("view") / "index",
        [hostile, page("B", "One sentence. Back to [[<i>id</i>#?&|<u>it</u>]]. Another."), page("C", "")],
        words=30,
    )


def read(html):
    """The HTML as a browser reads it; none of the hostile text is a tag."""
    reader = Reader(html)
    assert not {"script", "img", "h1", "u"} & set(reader.tags)
    assert "\u202e" not in reader.text
    assert not [href for href in reader.hrefs if href and href.startswith("javascript")]
    return reader


def test_an_article_of_hostile_texts(index):
    article = read_article(index, topology_of(index), 0)
    heading = read(render("article_heading.html", article=article))
    assert HOSTILE_TITLE in heading.text and "linked with 1 article" in heading.text
    html = read(
        article_html(article, ArticleView(id=article.id, passage=article.passages[0].id), "an <index>")
    )
    assert "<h1>Heading</h1>" in html.text and "<mark>lava</mark>" in html.text
    assert "article?id=B&index=an+%3Cindex%3E" in html.hrefs
    assert any(href.startswith("article?id=B&passage=B%230") for href in html.hrefs)
    assert html.all('li[aria-current="true"]', "id") == ["passage-1"]


def test_the_text_is_whole_and_links_are_where_anchors_are(index):
    article = read_article(index, topology_of(index), 1)
    html = read(article_html(article, ArticleView(id="B"), "x"))
    assert "One sentence. Back to <u>it</u>. Another." in html.text
    assert "article?id=%3Ci%3Eid%3C%2Fi%3E%23%3F%26&index=x" in html.hrefs
    empty = read_article(index, topology_of(index), 2)
    assert "This article has no text." in read(article_html(empty, ArticleView(), "x")).text


def test_pages_of_a_long_article(tmp_path, monkeypatch):
    monkeypatch.setattr("linkseek.app.context.article.PAGE", 2)
    monkeypatch.setattr("linkseek.app.rendering.views.PAGE", 2)
    long = build_linked(tmp_path / "index", [page("A", "word " * 50)], words=10)
    topology = topology_of(long)
    middle = read(article_html(read_article(long, topology, 0, 3), ArticleView(id="A", first=3), "x"))
    assert middle.text.count("Passages 3 to 4 of 5") == 2
    assert middle.hrefs[:2] == ["article?id=A&index=x", "article?id=A&first=5&index=x"]
    last = read(article_html(read_article(long, topology, 0, 5), ArticleView(id="A", first=5), "x"))
    assert "Passages 5 to 5 of 5" in last.text and "Later" not in last.text


def test_found_articles(index):
    def found_html(text, articles, total):
        return render("found_articles.html", text=text, articles=articles, total=total, index="x")

    assert HOSTILE_TITLE in read(found_html("<script>", *find_articles(index, "<script>"))).text
    assert "No title contains “<b>zz”" in read(found_html("<b>zz\u202e", [], 0)).text
    assert "The first 1 of 1,234" in read(found_html("a", [ArticleName(0, "a", "A")], 1234)).text
    start = render("start_articles.html", articles=[ArticleName(0, "a", "A")], index="x")
    assert read(start).hrefs == ["article?id=a&index=x"]


# --- indexes --------------------------------------------------------------------------------------


def test_an_index_is_described(index):
    described = describe(index)
    assert described["parts"].keys() == {"documents", "passages", "links"}
    html = read(render("index.html", **described))
    assert html.all(".ls-numbers div")[:3] == ["documents3", "passages2", "links in passages2"]
    assert "built without vectors" in html.text and "Nothing was skipped" in html.text
    assert "index.jsonl" in html.text and byte_size(index.bytes) in html.all("tfoot td")


def test_vectors_are_described(built_index):
    from linkseek.indexer.index import OpenIndex

    described = describe(OpenIndex.open(built_index))
    facts = dict(described["encoders"][described["default"]])
    assert facts["vectors"] == "6 of 64 dimensions"
    assert facts["similarity"] == "inner product" and facts["FAISS"] == "Flat"
    assert "recall of its searches" not in facts


def test_skipped_records_are_listed_with_their_places(index):
    skipped = {"not <b>wiki</b>": (1234, ["a/<script>.md", "line 7"]), "empty page": (2, [])}
    html = read(render("index.html", **describe(index) | {"skipped": skipped}))
    assert html.all("summary") == ["1,234 not <b>wiki</b>"] and html.all("p.ls-skipped") == ["2 empty page"]
    assert html.all("li") == ["a/<script>.md", "line 7", "and 1,232 more"]


def test_a_list_of_indexes_with_a_damaged_one(index, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "manifest.json").write_text("{")
    good, bad, gone = (
        listed("a<b>", index.path),
        listed("bad", tmp_path / "bad"),
        listed("gone", tmp_path / "gone"),
    )
    assert "not JSON" in bad.problem and "no index here" in gone.problem
    html = read(render("indexes.html", indexes=[good, bad, gone], current="a<b>"))
    assert html.text.count("damaged:") == 2
    assert outcome(index.path) == "3 documents, 2 passages" and outcome(tmp_path / "bad") == ""
    assert html.hrefs == ["index?index=a%3Cb%3E", "index?index=bad", "index?index=gone"]
    assert read(render("no_index.html", index="x y")).hrefs == ["index?index=x+y"]


# --- jobs -----------------------------------------------------------------------------------------


def job(state, **more):
    return Job("id", Order("build", "key", "Build <b>x</b>", "x", ("c",)), state, **more)


def job_html(of, now, link=None):
    return read(render("job.html", job=of, now=now, link=link))


def test_a_job_that_runs():
    stages = (
        JobStage("reading <i>a</i>", "bytes", 2000, 0, 2000, began=100.0, ended=102.5),
        JobStage("encoding", "passages", 100, 0, 25, began=102.5, ended=None),
        JobStage("writing", "bytes", 4000, 0, 0, began=102.5, ended=None),
        JobStage("opening", "", None, 0, 0, began=102.5, ended=None),
        JobStage("all", "%", 100, 0, 50, began=102.5, ended=None),
    )
    html = job_html(job("running", began=100.0, stages=stages), now=112.5)
    assert html.all("header") == ["Build <b>x</b>running12 s"]
    assert html.all("li bdi") == ["reading <i>a</i>", "encoding", "writing", "opening", "all"]
    times = ["✓ 2.5 s", "25 of 100 passages, 30 s left", "0 bytes of 4.0 kB", "", "50 %, 10 s left"]
    assert html.all("li > .ls-time") == times
    bars = [bar.attributes for bar in html.tree.css("progress")]
    assert [(bar["aria-label"], bar.get("value")) for bar in bars] == [
        ("encoding", "0.2500"), ("writing", "0.0000"), ("opening", None), ("all", "0.5000"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "of, expected",
    [
        (job("waiting"), "starts when one of the running jobs"),
        (job("running", began=1.0), "Starting…"),
        (
            job("failed", began=1.0, ended=3.0, message="a <b>bad</b> file", hint="Fix <it>."),
            "A <b>bad</b> fileFix <it>.",
        ),
        (job("cancelled", began=1.0, ended=70.0), "1 min 09 s"),
    ],
)
def test_jobs_that_do_not_run(of, expected):
    assert expected in job_html(of, now=5.0).text


def test_the_result_of_a_job_is_linked_when_it_is_done():
    done = job_html(job("done", began=1.0, ended=3.0), 5.0, ("index?index=a&b", "Look <at> it"))
    assert done.hrefs == ["index?index=a&b"] and "Look <at> it" in done.text
    assert job_html(job("failed", began=1.0, ended=3.0), 5.0, ("x", "y")).hrefs == []


def test_the_command_of_an_uploaded_index_is_not_shown():
    """It names files that are gone; that of any other can be repeated."""
    folder = "/x/.jobs/20261122-101112/upload/files"
    as_sent = Jobs(Path("/x/.jobs")).as_sent
    for command, shown in (
        (f"linkseek build --corpus {folder}/a.jsonl", ""),
        ("linkseek build", "linkseek build"),
    ):
        manifest = index_manifest(command=command, text={"min_words": 20})
        facts = dict(index_description._origin(manifest, as_sent))
        assert facts["command"] == shown
