"""Questions that an index asks of itself: what is asked, what is dropped, and which pages are not found."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import linkseek
from linkseek.app import evaluate
from linkseek.app.evaluation.by_question import missed_pages
from linkseek.app.report import to_html
from linkseek.app.testsets.known_items import KINDS, draw, own_test_set, suggested_items, without_copies
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import read_qrels
from tests.support.tiny.index import built
from tests.support.tiny.linked import build_linked
from tests.support.tiny.linked import page as linked

SUN = "Long before dawn the sky is lit by [[Sun|our nearest star]] in the east."
HEADINGS = {
    "Moon": ["See also", "1. Phases of light", "2024", "Moon", "Phases of light"],
    "Earth": ["See also", "How to leave the planet", "Notes"],
    "Sun": ["See also", "Spots and flares", "The Sun"],
}


@pytest.fixture(scope="module")
def wiki(tmp_path_factory):
    pages = [
        linked(
            "Moon", f"The Moon goes around the [[Earth|blue planet]], as all of us can see. {SUN} [[Sun]]"
        ),
        linked(
            "Earth",
            "At night it has one [[Moon|grey satellite]] which is also known as [[Moon|x]]. See [[Sun]].",
        ),
        linked(
            "Sun", "A star, which the [[Earth|blue planet]] goes around. Long before dawn the sky is dark."
        ),
        linked("Copy", "Long before dawn the sky is lit by our nearest star in the east. Nothing else."),
    ]
    for row in pages:
        row["id"] = f"sky/{row['id']}" if row["id"] != "Copy" else "Copy"
        row["links"] = [each | {"target": f"sky/{each['target']}"} for each in row["links"]]
        row["sections"] = [{"start": 0, "heading": each} for each in HEADINGS.get(row["title"], [])]
    return build_linked(tmp_path_factory.mktemp("wiki") / "wiki", pages, words=60)


def words_of(index, kind, **how):
    dropped = Counter()
    return {item.words for item in draw(index, kind, 99, dropped=dropped, **how)}, dropped


def test_headings_that_can_ask_for_one_page(wiki):
    words, dropped = words_of(wiki, "headings")
    assert words == {"Phases of light", "How to leave the planet", "Spots and flares"}
    assert dropped == {
        "without a word": 1,  # 2024
        "with too few or too many words": 3,  # Notes; Moon and The Sun, which are titles too
        "shared by several pages": 3,
        "that occur twice": 1,  # numbered or not
    }


def test_links_with_their_sentences(wiki):
    items = {item.words: item for item in draw(wiki, "anchors", 99)}
    assert {*items} == {"blue planet", "grey satellite", "x", "our nearest star"}
    sentence = "Long before dawn the sky is lit by our nearest star in the east."
    assert items["our nearest star"].text == f"our nearest star: {sentence}"
    assert items["our nearest star"].copy in sentence and "Long" not in items["our nearest star"].copy
    assert wiki.documents.table.value("id", items["our nearest star"].document) == "sky/Sun"
    dropped = words_of(wiki, "anchors")[1]
    assert dropped == {"that are the page's title": 2, "that occur twice": 1}


def test_a_sentence_on_the_page_itself_is_no_question(tmp_path):
    pages = [linked("A", SUN), linked("Sun", SUN.replace("[[Sun|our nearest star]]", "our nearest star"))]
    index = build_linked(tmp_path / "index", pages)
    assert words_of(index, "anchors") == (set(), {"whose sentence is on the page that they lead to": 1})
    with pytest.raises(InputError, match=r"no anchors for questions \(1 whose sentence"):
        own_test_set(index, "anchors")


def test_passages_with_the_link_are_no_results(wiki):
    test_set = own_test_set(wiki, "anchors")
    [query] = [query for query in test_set.queries if query.text.startswith("our nearest")]
    rows = np.arange(len(wiki.passages))[None]
    ranking = Ranking.of([query.id], rows, -rows.astype(np.float32))
    left = without_copies(ranking, wiki.passages, test_set.copies, 3)
    kept = [wiki.passages[row].document_id for row, _ in left.results(0)]
    assert kept == ["sky/Earth", "sky/Sun"]  # the Moon holds the link, and Copy its sentence
    assert without_copies(ranking, wiki.passages, {}, 3).results(0) == ranking.results(0)[:3]


def test_titles_of_several_pages_are_dropped(tmp_path):
    pages = [linked("Mars", "Red."), linked("Windows 7", "a"), linked("Windows 8", "b"), linked("1984", "c")]
    pages += [linked("Mars", "A god.") | {"id": "Mars_(god)"}, linked("Empty", "")]
    words, dropped = words_of(build_linked(tmp_path / "index", pages), "titles")
    assert words == {"Windows 7", "Windows 8", "1984"}
    assert dropped == {"shared by several pages": 2, "of pages without text": 1}


def test_words_of_many_headings_say_little(tmp_path):
    pages = [linked(f"Tool {n}", f"Text {n}.") for n in range(30)]
    for n, row in enumerate(pages):
        names = ["Install from source", "Setting options", f"Speed of gear {n}", "Source options"]
        row["sections"] = [{"start": 0, "heading": name} for name in names[: 3 + (n == 0)]]
    words, dropped = words_of(build_linked(tmp_path / "index", pages), "headings")
    assert words == {f"Speed of gear {n}" for n in range(30)}
    assert dropped == {"shared by several pages": 60, "with words of many pages' headings": 1}


def test_words_without_blanks_between_them(tmp_path):
    pages = [
        linked("月", "月は地球の衛星で、[[地球|青い惑星]]の周りを回る。[[太陽]]の光を受ける。"),
        linked("地球", "地球には[[月|唯一の衛星]]がある、とても大きい。"),
        linked("太陽", "太陽は恒星である。"),
    ]
    pages[2]["sections"] = [
        {"start": 0, "heading": each} for each in ("太陽の黒点はなぜ現れるのか", "１", "脚注")
    ]
    index = built(tmp_path / "index", pages, bm25=False, language="ja")
    assert words_of(index, "headings")[0] == {"太陽の黒点はなぜ現れるのか"}
    assert words_of(index, "anchors")[0] == {"青い惑星", "唯一の衛星"}


def test_a_draw_is_repeatable_and_asks_every_page_first(wiki):
    first = own_test_set(wiki, "headings", 2, seed=7)
    assert first == own_test_set(wiki, "headings", 2, seed=7)
    whole = own_test_set(wiki, "headings", 9, seed=7)
    assert whole.queries[:2] == first.queries and len(whole.queries) == 3
    assert len({next(iter(whole.qrels[query.id])) for query in whole.queries}) == 3
    seeds = {tuple(query.id for query in own_test_set(wiki, "headings", 9, seed=n).queries) for n in range(9)}
    assert len(seeds) > 1 and {*map(frozenset, seeds)} == {frozenset(next(iter(seeds)))}


def test_suggestions_know_their_pages(wiki, built_index):
    queries, judged = suggested_items(wiki, 10)
    texts = {query.text: judged[query.id] for query in queries}
    assert texts["How to leave the planet"] == {"sky/Earth": 1} and texts["grey satellite"] == {"sky/Moon": 1}
    assert len(suggested_items(wiki, 2)[0]) == 2
    titles, _ = suggested_items(OpenIndex.open(built_index), 99)  # which has nothing else
    assert {query.text for query in titles} >= {"Paris"}


def first_pages(queries, k):
    """Every question's results are the passages in their order."""
    rows = np.tile(np.arange(k), (len(queries), 1))
    return Ranking.of([query.id for query in queries], rows, -rows.astype(np.float32))


def test_pages_that_are_not_found(tmp_path):
    pages = [linked(f"Lake {n}", "Water.") | {"id": f"{'ab'[n % 2]}/Lake {n}"} for n in range(14)]
    index = linkseek.open(build_linked(tmp_path / "index", pages).path)
    results = index.evaluate("titles", pipelines=[first_pages])
    missed = missed_pages(results)
    assert [each.folder for each in missed] == [*"aabb"]
    assert {each.text: each.pages for each in missed} == {
        f"Lake {n}": [f"{'ab'[n % 2]}/Lake {n}"] for n in range(10, 14)
    }
    assert {each.pipelines[0] for each in missed} == {"first_pages"}
    assert results.scores("Success@10")["first_pages"].mean == pytest.approx(10 / 14)
    assert results.scores("MRR@10")["first_pages"].mean == pytest.approx(
        sum(1 / n for n in range(1, 11)) / 14
    )
    text = to_html(results)
    assert "4 pages of 14 questions" in text and "a/Lake 10" in text and "a/Lake 8" not in text
    one = index.evaluate("titles", pipelines=[first_pages], only=["folder:a"], limit=5, seed=3)
    assert len(one.questions) == 5 and {question.relevant[0][0] for question in one.questions} == {"a"}
    assert missed_pages(index.evaluate([Query("1", "Water")], {"1": {"a/Lake 0": 1}}, [first_pages])) is None


def test_a_test_set_is_written_and_read_again(wiki, tmp_path):
    words = ["--index", str(wiki.path), "--write-test-set", "--output", str(tmp_path / "set")]
    for kind in KINDS:
        evaluate.main([*words, "--test-set", kind, "--limit", "2", "--seed", "5"])
        expected = own_test_set(wiki, kind, 2, seed=5)
        assert read_queries(tmp_path / "set" / "queries.jsonl") == expected.queries
        assert read_qrels(tmp_path / "set" / "qrels.txt") == expected.qrels


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--test-set", "headings", "--only", "folder:none"], "no document has folder:none"),
        (["--test-set", "headings", "--only", "x"], "not NAME:VALUE"),
        (["--test-set", "headings", "--group", "type"], "--group belongs to --queries"),
        (["--test-set", "sample", "--only", "folder:sky"], "--only belongs to --test-set headings"),
        (["--test-set", "heading"], "no such test set"),
    ],
)
def test_what_cannot_be_asked(wiki, tmp_path, words, problem):
    with pytest.raises(LinkseekError, match=problem):
        evaluate.main([*words, "--index", str(wiki.path), "--output", str(tmp_path / "out"), "--run", "x"])
    with pytest.raises(UsageError, match="needs an index"):
        evaluate.main(["--test-set", "titles", "--write-test-set", "--output", str(tmp_path / "out")])
