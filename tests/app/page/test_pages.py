"""The pages of articles, evaluations and indexes, run without a browser."""

import io
import shutil
from pathlib import Path

import pytest

from linkseek.app.background import jobs as jobs_module
from linkseek.app.background.jobs import Jobs
from tests.app.report.test_reports import HOSTILE, results, write
from tests.support.pages import address, bodies, button, notices, run
from tests.support.tiny.index import HOSTILE_TITLE, build
from tests.support.tiny.linked import build_linked
from tests.support.tiny.linked import page as linked

# --- articles -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wiki(tmp_path_factory):
    pages = [
        linked("Moon", "The Moon goes around the [[Earth]]. It is grey.", "The Moon"),
        linked("Earth", "A planet with one [[Moon|moon]]. It is blue. See [[Sun]]."),
        linked("Sun", "A star. It is hot."),
    ]
    return build_linked(tmp_path_factory.mktemp("wiki") / "wiki", pages).path


def options_of(order):
    """The options of a job's command, as its file has them."""
    return Path(order.command[-1]).read_text("utf-8")


def test_articles_to_start_with_and_finding(open_page, wiki):
    test = open_page("article", wiki)
    assert "Read an article" in bodies(test) and bodies(test).count("<li><a") == 3
    test.text_input(key="find").set_value("moo")
    run(test)
    assert address(test) == {"find": ["moo"], "index": ["wiki"]}
    assert 'href="article?id=Moon&amp;index=wiki"' in bodies(test) and "Read an article" not in bodies(test)
    test.text_input(key="find").set_value("<b>none")
    assert "No title contains" in bodies(run(test)) and "<b>none" not in bodies(test)


def test_an_article_is_read(open_page, wiki):
    test = open_page("article", wiki, id="Earth")
    assert "1 passage · 2 links · linked with 2 articles" in bodies(test)
    assert "has dual links with" in bodies(test) and "Linked both ways" in bodies(test)


def test_a_link_to_a_passage_points_it_out(open_page, wiki):
    test = open_page("article", wiki, id="Moon", passage="Moon#0")
    assert 'class="ls-here"' in bodies(test)
    assert 'class="ls-here"' not in bodies(open_page("article", wiki, id="Moon", passage="Sun#0"))


@pytest.mark.parametrize("id_", ["none", "../../etc/passwd", "<script>alert(1)</script>", "x" * 5000])
def test_an_article_that_is_not_there(open_page, wiki, id_):
    test = open_page("article", wiki, id=id_)
    [notice] = notices(test)
    assert "There is no article" in notice and "<script>" not in notice and len(notice) < 1000


@pytest.mark.parametrize(
    "params",
    [
        {"id": "Moon", "first": "999999999999", "show": "<b>"},
        {"id": "Moon", "first": "-1"},
        {"id": "Moon", "first": "٣", "passage": "../x"},
        {"find": "x" * 10_000},
    ],
)
def test_odd_addresses_of_articles(open_page, wiki, params):
    test = open_page("article", wiki, **params)
    assert not notices(test)


def test_pages_without_an_index(open_page, tmp_path):
    for name in ("article", "evaluation"):
        test = open_page(name, tmp_path / "index" / "none")
        assert not notices(test) and "There is no index yet" in bodies(test)


# --- evaluations ----------------------------------------------------------------------------------


def test_nothing_evaluated_yet_and_a_first_evaluation(open_page, started, own_index, tmp_path):
    test = open_page("evaluation", own_index)
    assert "Nothing has been evaluated yet" in bodies(test)
    chosen = {row.key: row.value for row in test.pills if row.value}
    assert chosen == {
        "evaluated: BM25": ["bm25"],
        "evaluated: Zero-shot": ["dense"],
        "evaluated: Fused": ["hybrid-weighted"],
    }
    assert test.selectbox(key="test_set").value == "titles"  # it has no headings, and no links in sentences
    test.selectbox(key="test_set").set_value("sample")
    test.number_input(key="depth").set_value(5)
    for group in ("BM25", "Fused"):
        test.pills(key=f"evaluated: {group}").set_value([])
    assert "baseline is dense" in run(test).caption[0].value
    test.pills(key="evaluated: BM25").set_value(["bm25"])
    button(test, "Evaluate").click()
    run(test)
    [order] = started
    assert order.title == "sample on own: dense, bm25, depth 5" and "depth = 5" in options_of(order)
    assert "sample on own: dense, bm25" in bodies(test)
    assert f'href="evaluation?report={order.subject}&amp;index=own"' in bodies(test)
    write(tmp_path / "results", order.subject)  # once it is in the list of reports, its job is not shown too
    assert "sample on own" not in bodies(run(test)) and order.subject in bodies(test)


def test_what_is_missing_is_said(open_page, own_index, started):
    test = open_page("evaluation", own_index)
    for row in test.pills:
        row.set_value([])
    button(test, "Evaluate").click()
    assert "No pipeline is selected" in notices(run(test))[0]
    test.pills(key="evaluated: BM25").set_value(["bm25"])
    test.selectbox(key="test_set").set_value("questions of your own")
    run(test)
    button(test, "Evaluate").click()
    assert "No questions are chosen" in notices(run(test))[0] and not started


def test_reports_are_listed_and_read(open_page, own_index, tmp_path):
    write(tmp_path / "results", "one")
    write(tmp_path / "results", "bad <b>", b"{")
    test = open_page("evaluation", own_index)
    assert "cannot be shown" in bodies(test) and "bad &lt;b&gt;" in bodies(test)
    test = open_page("evaluation", own_index, report="one")
    assert "bm25, dense on sample" in bodies(test) and "75.0" in bodies(test)
    test.segmented_control(key="part").set_value("questions")
    run(test)
    assert "The index of this report is missing; links lead to own." in bodies(test)
    assert HOSTILE not in bodies(test) and "pipelines=bm25&amp;pipelines=dense" in bodies(test)
    assert address(test) == {
        "report": ["one"],
        "part": ["questions"],
        "measure": ["accuracy@20"],
        "shown": ["all"],
        "pair": ["bm25", "dense"],
        "index": ["own"],
    }
    test.selectbox(key="pair_b").set_value("bm25")
    test.selectbox(key="pair_a").set_value("dense")
    test.segmented_control(key="shown").set_value("better")
    assert "1 better, 2 worse" in bodies(run(test)) and bodies(test).count('<th scope="row"') == 1
    test.segmented_control(key="part").set_value("provenance")
    assert "Provenance" in bodies(run(test))
    test.segmented_control(key="part").set_value("charts")
    run(test)
    shared = open_page("evaluation", own_index, report="one", part="questions", pair=["dense", "bm25"])
    assert "1 better, 2 worse" in bodies(shared) and shared.selectbox(key="pair_b").value == "bm25"


@pytest.mark.parametrize("name", ["none", "../own", "/etc", "bad", "<script>alert(1)"])
def test_reports_that_cannot_be_shown(open_page, own_index, tmp_path, name):
    write(tmp_path / "results", "bad", b"{")
    test = open_page("evaluation", own_index, report=name)
    assert len(notices(test)) == 1 and "<script>alert" not in bodies(test)
    assert "All evaluations" in bodies(test)


def test_a_report_without_curves(open_page, own_index, tmp_path):
    curves = {"measure": "accuracy", "ks": [], "pipelines": {}}
    write(tmp_path / "results", "one", results(curves=curves))
    test = open_page("evaluation", own_index, report="one", part="charts")
    assert not notices(test)


# --- indexes --------------------------------------------------------------------------------------


def test_an_index_is_told(open_page, own_index):
    build(own_index.with_name("another <b>"), encoders=())
    test = open_page("index", own_index)
    assert "Parts and sizes" in bodies(test) and "all of" not in bodies(test)
    assert "another &lt;b&gt;" in bodies(test) and "All indexes" in bodies(test)


def test_without_an_index_the_sample_is_offered(open_page, tmp_path, started):
    test = open_page("index", tmp_path / "index" / "sample")
    assert "There is no index yet" in bodies(test)
    button(test, "Build the sample").click()
    run(test)
    assert started[0].title == "Build the sample" and "Build the sample" in bodies(test)


def test_a_damaged_index_is_told_and_others_can_be_built(open_page, own_index):
    (own_index / "passages" / "offsets.npy").write_bytes(b"x")
    test = open_page("index", own_index)
    assert "offsets.npy" in notices(test)[0]
    assert [each.label for each in test.expander] == ["Build an index from your own files"]
    assert "There is no index yet" not in bodies(test)


def test_building_without_a_name_or_a_file(open_page, own_index, started):
    test = open_page("index", own_index)
    button(test, "Build").click()
    assert "The new index has no name" in notices(run(test))[0]
    test.text_input(key="name").set_value("notes")
    button(test, "Build").click()
    assert "There is no file to read" in notices(run(test))[0]
    assert not started and not [*own_index.parent.glob(".jobs/2*")]


def test_all_jobs_are_listed(open_page, own_index, started):
    jobs = Jobs.next_to(own_index)
    for number in range(9):
        jobs.start(jobs_module.Order("build", f"k{number}", f"Build number {number}", "x", ["c"]))
    test = open_page("index", own_index)
    assert all(f"Build number {number}" in bodies(test) for number in range(9))
    assert "3 earlier jobs" in [each.label for each in test.expander]


def test_building_from_an_upload(open_page, own_index, started, monkeypatch):
    content = io.BytesIO(b'{"id": "a", "title": "A", "text": "Words.", "links": []}\n')
    content.name = "a/. ../. ../notes.jsonl"
    monkeypatch.setattr("linkseek.app.page.index_page.st.file_uploader", lambda *_, **__: [content])
    test = open_page("index", own_index)
    test.text_input(key="name").set_value("notes")
    button(test, "Build").click()
    assert "cannot name a file" in notices(run(test))[0] and not started
    content.name = "a/notes.jsonl"
    button(test, "Build").click()
    run(test)
    assert "Build notes" in bodies(test) and not notices(test)
    assert "upload/files/a" in options_of(started[0])


def test_the_title_of_a_job_is_only_text_and_a_job_can_be_gone(open_page, own_index, started):
    jobs = Jobs.next_to(own_index)
    jobs.start(jobs_module.Order("build", "k", HOSTILE_TITLE, "x", ["c"]))
    test = open_page("index", own_index)
    assert "&lt;script&gt;alert(1)" in bodies(test) and "<script>alert" not in bodies(test)
    shutil.rmtree(jobs.folder)
    button(test, "Dismiss").click()  # somebody else was faster
    assert "alert(1)" not in bodies(run(test)) and not notices(test)
