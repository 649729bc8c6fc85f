"""Packings from miniature originals in their publishers' formats, and back to those formats."""

import gzip
from dataclasses import replace

import orjson
import pytest
import zstandard

from experiments.packing.collections import MAKERS
from experiments.packing.held_out import held_out, is_held_out, with_sections
from experiments.packing.originals import Originals
from experiments.packing.pack import all_packings, documents_sha256, main, write_files
from experiments.packing.two_steps import MIN_WORDS, two_steps
from experiments.packing.wikispeedia import article_text, place_links
from linkseek.indexer.documents import Document, Link, Section
from linkseek.indexer.program.errors import InputError, UsageError
from tests.support.archives import tar, zipped


@pytest.fixture
def originals(tmp_path):
    """Write files, given by name, and return the places to look for them."""

    def write(files):
        for name, content in files.items():
            path = tmp_path / "originals" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not isinstance(content, bytes):
                content = content.encode() if isinstance(content, str) else orjson.dumps(content)
            path.write_bytes(gzip.compress(content) if name.endswith((".tsv.gz", ".jsonl.gz")) else content)
        return [tmp_path / "originals"]

    return write


def make(name, places):
    return MAKERS[name](Originals(places, all_packings()[name].originals))


def ids(rows):
    return [row["id"] for row in rows]


def squad_article(title, *paragraphs):
    return {
        "title": title,
        "paragraphs": [
            {
                "context": text,
                "qas": [
                    {
                        "id": id_,
                        "question": question,
                        "answers": [{"text": a, "answer_start": 0} for a in answers],
                    }
                    for id_, question, answers in questions
                ],
            }
            for text, questions in paragraphs
        ],
    }


DEV = {
    "data": [
        squad_article("Warsaw", ("Warsaw is big. ", [("5f", " How big?", ["big", "very", "big"])])),
        squad_article("Black_Death", ("It came.", []), ("It went.", [("5a", "When?", ["1353"])])),
    ]
}
TRAIN = {
    "data": [
        squad_article("Zinc", ("Zinc is a metal.", [("57", "What is zinc?", ["a metal"])])),
        squad_article("Beyoncé", ("A singer.", [("56", "Who?", ["singer"])])),
        squad_article("ASCII", ("A code.", [("58", "A what?", ["code"]), ("59", "What?", ["A code"])])),
    ]
}


def test_squad(originals):
    files = make("squad", originals({"dev-v1.1.json": DEV, "train-v1.1.json": TRAIN}))
    assert ids(files["squad/docs.jsonl.zst"]) == [
        *("dev:Black_Death:0", "dev:Black_Death:1", "dev:Warsaw:0", "train:ASCII:0", "train:Zinc:0"),
    ]
    assert files["squad/docs.jsonl.zst"][1]["title"] == "Black Death"
    assert files["squad/queries.dev.jsonl.gz"] == [
        {"id": "5a", "text": "When?", "answers": ["1353"]},
        {"id": "5f", "text": "How big?", "answers": ["big", "very"]},
    ]
    assert files["squad/qrels.dev.txt"] == ["5a 0 dev:Black_Death:1 1", "5f 0 dev:Warsaw:0 1"]
    assert ids(files["squad/queries.train.jsonl.gz"]) == [
        "train:ASCII:0:q0",
        "train:ASCII:0:q1",
        "train:Zinc:0:q2",
    ]


def test_cranfield_and_cacm_in_smarts_format(originals):
    cranfield = {
        "cran.all.1400": ".I 1\n.T\na wing in\na stream .\n.W\na wing in\na stream .\n  it\n.A\nlifts .\n",
        "cran.qry": ".I 001\n.W\nwhat lifts\n.I 004\n.W\nwhat drags\n",
        "cranqrel": "1 1 2\n2 1 -1\n",
    }
    files = make("cranfield", originals(cranfield))
    document = {"id": "1", "title": "a wing in a stream .", "text": "it .A lifts .", "links": []}
    assert files["cranfield/docs.jsonl.zst"] == [document]
    assert ids(files["cranfield/queries.test.jsonl.gz"]) == ["1", "2"]
    assert files["cranfield/qrels.test.txt"] == ["1 0 1 1", "2 0 1 0"]
    cacm = {
        "cacm.all": ".I 1\n.T\nAlgebraic\nLanguage\n.A\nx\n.I 20\n.T\nSort\n.W\nWe sort.\n.N\nx\n",
        "query.text": ".I 1\n.W\n Which sort?\n.A\nHoare\n.N\n 1. someone\n",
        "qrels.text": "01 0020  0 0\n",
    }
    files = make("cacm", originals(cacm))
    assert [(row["id"], row["text"]) for row in files["cacm/docs.jsonl.zst"]] == [
        *(("CACM-0001", "Algebraic Language"), ("CACM-0020", "We sort.")),
    ]
    assert files["cacm/queries.test.jsonl.gz"] == [{"id": "1", "text": "Which sort?", "answers": []}]
    assert files["cacm/qrels.test.txt"] == ["1 0 CACM-0020 1"]


ARTICLE = """   #copyright

Acid rain

2007 Schools Wikipedia Selection. Related subjects: Environment; General
Geography

   Acid rain harms ( British) forests and
   the cities of Europeans.

History

   It began:
     * in the United
       Kingdom
     * in Europe

   Retrieved from " http://en.wikipedia.org/wiki/Acid_rain"
"""


def test_the_text_of_an_article():
    assert article_text(ARTICLE) == (
        "Acid rain harms (British) forests and the cities of Europeans.\n\n== History ==\n\n"
        "It began:\n* in the United Kingdom\n* in Europe"
    )


def test_links_are_placed_at_first_mentions_that_do_not_overlap():
    text = article_text(ARTICLE)
    variants = {"United Kingdom": ["British"], "Europe": ["European"]}
    targets = {"Rain", "Acid_rain", "Forest", "City", "United_Kingdom", "Europe", "Art", "England"}
    links = place_links(text, targets, variants)
    placed = {link["target"]: text[link["start"] : link["end"]] for link in links}
    expected = {"Acid_rain": "Acid rain", "Forest": "forests", "City": "cities", "Europe": "Europe"}
    assert placed == expected | {"United_Kingdom": "United Kingdom"}
    assert [link["start"] for link in links] == sorted(link["start"] for link in links)
    assert place_links("The British and Europeans.", {"United_Kingdom", "Europe"}, variants) == [
        {"start": 4, "end": 11, "target": "United_Kingdom"},
        {"start": 16, "end": 25, "target": "Europe"},
    ]


def test_wikispeedia_and_the_questions_on_it(originals, tmp_path):
    zinc = "   #copyright\n\nZinc\n\n   Zinc is a metal.\n"
    places = originals(
        {
            "wikispeedia_articles_plaintext.tar.gz": tar(
                {"plaintext_articles/Zinc.txt": zinc, "plaintext_articles/%C3%89tude.txt": zinc}
            ),
            "wikispeedia_paths-and-graph.tar.gz": tar(
                {"w/links.tsv": "# a\n\nZinc\tZinc\n%C3%89tude\tZinc\n"}
            ),
            "dev-v1.1.json": DEV,
            "train-v1.1.json": TRAIN,
            "nq-open-oracle.jsonl.gz": b"",
        }
    )
    data = tmp_path / "data"
    for name in ("wikispeedia", "squad", "nq-gold"):
        write_files(make(name, places), data)
    documents = list(
        Originals([data], {"wikispeedia/docs.jsonl.zst": ""}).json_lines("wikispeedia/docs.jsonl.zst")
    )
    assert [(row["id"], row["title"], row["links"]) for row in documents] == [
        ("Zinc", "Zinc", []),
        ("Étude", "Étude", [{"start": 0, "end": 4, "target": "Zinc"}]),
    ]
    files = make("questions-on-wikispeedia", [data])
    assert files["qa/squad-dev-on-wikispeedia.jsonl.gz"] == []
    assert files["qa/squad-train-on-wikispeedia.jsonl.gz"] == [
        {"id": "train:Zinc:0:q2", "text": "What is zinc?", "answers": ["a metal"], "article": "Zinc"}
    ]


def test_questions_about_pages_held_out_are_in_nothing_that_teaches():
    names = [f"page {n}" for n in range(60)]
    apart = next(name for name in names if is_held_out(name))
    kept, other = [name for name in names if not is_held_out(name)][:2]

    def page(id_, text, *anchors, sections=()):
        links = tuple(Link(text.index(a), text.index(a) + len(a), target) for a, target in anchors)
        return Document(id_, id_.title(), text, links, sections)

    long = " word" * 20
    pages = [
        page(kept, f"A brook, a {apart} and a pond.", ("brook", apart), (apart, apart), ("pond", other)),
        page(apart, f"Lead. Mud{long}", ("Lead", kept), sections=(Section(6, "Mud of brooks:", 2),)),
        page(other, f"Sand{long}", sections=(Section(0, "Sand of ponds", 2),)),
    ]
    files = held_out("x", pages)
    assert [row["text"] for row in files["x/queries.anchors.jsonl.gz"]] == ["brook"]  # a title is no question
    assert files["x/qrels.anchors.txt"] == [f"anchors-0 0 {apart.replace(' ', '%20')} 1"]
    assert [row["text"] for row in files["x/queries.sections.jsonl.gz"]] == ["Mud of brooks"]
    assert [row["text"] for row in files["x/queries.train.jsonl.gz"]] == ["pond"]
    taught = files["x/train.jsonl.zst"]
    assert ids(taught) == [kept, other] and [link["target"] for link in taught[0]["links"]] == [other]
    searched = files["x/docs.jsonl.zst"]
    assert ids(searched) == [kept, apart, other]
    assert not any(row["links"] or row.get("sections") for row in searched)


def test_headings_in_a_text_become_sections_and_links_move(originals):
    text = "A pond.\n\n== Mud and sand ==\n\nA brook."
    link = {"start": text.index("brook"), "end": text.index("brook") + 5, "target": "x"}
    row = {"id": "p", "title": "P", "text": text, "links": [link]}
    lines = zstandard.ZstdCompressor().compress(orjson.dumps(row) + b"\n")
    files = make("archwiki-held-out", originals({"archwiki/docs.jsonl.zst": lines}))
    [searched] = files["archwiki-held-out/docs.jsonl.zst"]
    assert searched["text"] == "A pond.\n\nA brook."
    page = with_sections(row)
    assert page.text[page.links[0].start : page.links[0].end] == "brook"
    assert [(s.heading, page.text[s.start :]) for s in page.sections] == [("Mud and sand", "A brook.")]


def linking(id_, text, *anchors, heading="", target="b"):
    """A page with one section after its lead. anchors: of links to the target."""
    links = tuple(Link(text.index(a), text.index(a) + len(a), target) for a in anchors)
    return Document(id_, id_.title(), text, links, (Section(0, heading, 2),) if heading else ())


LONG = "one two three four five six seven with the brook below."


@pytest.mark.parametrize(
    ("text", "heading", "answering", "asked"),
    [
        (f"Lead. {LONG} End.", "Mud", "Sand", 1),
        ("Too short with the brook below.", "Mud", "Sand", 0),
        (LONG.replace("with", "b and"), "Mud", "Sand", 0),  # the title of the page that answers
        (LONG, "Mud", "Brooks", 0),  # a word of the anchor
        (LONG, "Sands", "Sand", 0),  # a word of the section that asks
        (LONG.replace("with", "a pool with"), "Mud", "Sand", 0),  # two links
        (LONG, "", "Sand", 0),  # the lead asks nothing
        (LONG, "Mud", "", 0),  # no section answers
    ],
)
def test_questions_of_two_steps_are_a_sentence_and_a_heading(text, heading, answering, asked):
    anchors = ["brook"] + ["pool"] * ("pool" in text)
    pages = [
        linking("a", text, *anchors, heading=heading),
        linking("b", "word " * MIN_WORDS, heading=answering),
        linking("c", "Short.", heading="Sand"),
    ]
    files = two_steps("x", pages)
    rows = files["x/queries.test.jsonl.gz"]
    assert len(rows) == asked and files["x/qrels.test.txt"] == ["two-01 0 a 1", "two-01 0 b 1"] * asked
    for row in rows:
        sentence = "one two three four five six seven with the … below"
        assert row["text"] == f'"{sentence}": what does the page on "…" say about Sand?'
        assert (row["path"], row["anchor"], row["answers"]) == (["a", "b"], "brook", ["B"])
    assert ids(files["x/docs.jsonl.zst"]) == ["a", "b", "c"]


def test_each_page_is_in_one_question_of_two_steps():
    text = LONG + " word" * 2 * MIN_WORDS
    pages = []
    for n in range(200):
        page = linking(f"page {n}", text, "brook", heading="Mud", target=f"page {n + 1}")
        answering = Section(len(LONG), f"Sand{n}", 2)
        pages.append(replace(page, title="", sections=(*page.sections, answering)))
    rows = two_steps("x", pages)["x/queries.test.jsonl.gz"]
    used = [page for row in rows for page in row["path"]]
    assert len(rows) == 40 and len(used) == len(set(used))
    assert rows == two_steps("x", pages)["x/queries.test.jsonl.gz"]


def test_a_package_that_is_none_is_named(originals, tmp_path):
    name = "libreoffice-help-en-us_7.4.7-1+deb12u14_all.deb"
    [folder] = originals({name: b"no package"})
    with pytest.raises(InputError, match="no Debian package"):
        main(["libreoffice-held-out", "--from", str(folder), "--output", str(tmp_path / "data")])


def test_the_same_rows_are_the_same_bytes(tmp_path):
    files = {
        "x/docs.jsonl.zst": [{"id": "1", "text": "é\u2028"}],
        "x/run.txt.gz": ["a b"],
        "x/qrels.txt": ["c d"],
    }
    for folder in ("a", "b"):
        write_files(files, tmp_path / folder)
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    data = zstandard.ZstdDecompressor().decompress((tmp_path / "a/x/docs.jsonl.zst").read_bytes(), 1 << 20)
    assert orjson.loads(data) == {"id": "1", "text": "é\u2028"}


def test_the_command_checks_what_it_wrote(originals, tmp_path):
    [folder] = originals({"dev-v1.1.json": DEV, "train-v1.1.json": TRAIN})
    with pytest.raises(InputError, match=r"docs\.jsonl\.zst: not the known documents"):
        main(["squad", "--from", str(folder), "--output", str(tmp_path / "data")])
    questions = tmp_path / "data/squad/queries.dev.jsonl.gz"
    assert questions.is_file()
    with pytest.raises(UsageError, match="no such packing") as caught:
        main(["sqaud", "--from", str(folder), "--output", str(tmp_path)])
    assert "Did you mean squad?" in caught.value.hint
    questions.write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"queries\.dev\.jsonl\.gz: exists already"):
        main(["squad", "--from", str(folder), "--output", str(tmp_path / "data")])
    assert questions.read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "a query", "an archive"])
def test_an_original_that_lacks_something_is_named_with_its_address(originals, tmp_path, name):
    qrels = b"query-id\tcorpus-id\tscore\n1\t7\t1\n"
    parts = {
        "corpus.jsonl": orjson.dumps({"_id": "7", "title": "T", "text": "x"}),
        "queries.jsonl": orjson.dumps({"_id": "2" if name == "a query" else "1", "text": "claim"}),
        "qrels/test.tsv": qrels,
        "qrels/train.tsv": qrels,
    }
    packed = zipped({f"scifact/{part}": content for part, content in parts.items() if part != name})
    archive = b"PK" if name == "an archive" else packed
    [folder] = originals({"scifact.zip": archive})
    with pytest.raises(InputError, match="scifact: an original lacks what is packed") as caught:
        main(["scifact", "--from", str(folder), "--output", str(tmp_path / "data")])
    assert "scifact.zip" in caught.value.hint
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


def test_a_package_keeps_the_name_that_apt_gives_it(tmp_path):
    path = tmp_path / "help_4%3a7.4.7-1+deb12u14_all.deb"
    path.touch()
    for place in (path, tmp_path):
        assert (
            Originals([place], {"help_7.4.7-1+deb12u14_all.deb": "address"}).path(
                "help_7.4.7-1+deb12u14_all.deb"
            )
            == path
        )
    with pytest.raises(InputError, match="not among the files"):
        Originals([tmp_path], {"help_7.4.8_all.deb": "address"})


def test_a_missing_original_is_named_with_its_address(tmp_path):
    with pytest.raises(InputError, match=r"dev-v1.1.json: not among") as caught:
        make("squad", [tmp_path])
    assert "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json" in caught.value.hint


@pytest.mark.realdata
@pytest.mark.parametrize("name", [n for n, p in all_packings().items() if p.sha256 and n != "wikispeedia"])
def test_the_pinned_hash_is_that_of_the_documents_that_figures_rest_on(name, shared_data):
    file = f"{name}/docs.jsonl.zst"
    assert (
        documents_sha256(Originals([shared_data], {file: ""}).json_lines(file)) == all_packings()[name].sha256
    )
