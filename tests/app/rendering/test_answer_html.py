"""The HTML of answers: hostile texts, ranks in other columns, two stages, marks, groups; the chart."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkseek.app.answers import Answer, AnswerHit, First, Place, Reason
from linkseek.app.context.article import is_cut_before
from linkseek.app.context.evidence import LinkEvidence
from linkseek.app.context.titles import ArticleName
from linkseek.app.rendering import views
from linkseek.app.rendering.addresses import SearchView
from linkseek.app.rendering.html_templates import passage_text
from linkseek.indexer.program.text import harmless
from linkseek.retriever.search.explanation import Explanation, Part
from linkseek.retriever.search.query_words import matched_spans
from tests.support.golden import assert_golden, pretty
from tests.support.reading import Reader
from tests.support.tiny.index import HOSTILE_TEXT, HOSTILE_TITLE

GOLDEN = Path(__file__).with_name("answers")


def hit(title="A title", text="A text.", url="", question="", document_id="d", **more):
    marks = tuple(matched_spans(question, text))
    return AnswerHit(
        more.pop("rank", 1), 0.5, more.pop("id", "d#0"), document_id, title, text, url, marks, **more
    )


def answer(name, rows, question="q", **more):
    """Passages by row, each of a document of its own."""
    hits = tuple(
        hit(f"T{row}", rank=rank, id=f"d{row}#0", document_id=f"d{row}", row=row)
        for rank, row in enumerate(rows, start=1)
    )
    places = {row: Place(rank, 1 / rank) for rank, row in enumerate(rows, start=1)}
    return Answer(question, name, hits, 0.0123, places=places, **more)


def answer_html(answer, description="", view=None, index="", others=(), status=""):
    view = view or SearchView(answer.question, (answer.pipeline,))
    return views.answer_html(answer, description, view, index, others, status)


def test_a_hostile_passage():
    found = hit(HOSTILE_TITLE, HOSTILE_TEXT, "javascript:x", "volcano")
    html = answer_html(Answer("volcano", "<b>x", (found,), 0, {"<i>": 1.0}), "<i>", index="<u>")
    read = Reader(html)
    assert all(href.startswith(("article?", "./?")) for href in read.hrefs)
    assert read.marks == ["volcano", "volcano"]
    assert HOSTILE_TITLE in read.text
    assert "onerror" in read.text and "<mark>lava</mark>" in read.text and "$\\frac{1}{2}$" in read.text
    assert "\u202e" not in html and "<script" not in html and "<img" not in html


@given(st.text(), st.text(), st.text(), st.text(), st.text())
def test_any_text_is_only_text(pipeline, title, text, url, question):
    found = hit(title, text, url, question, document_id=title, id=text, row=1)
    other = replace(answer("other", [1]), pipeline=question)
    mine = Answer(question, pipeline, (found,), 1, {question: 1.0}, {1: Place(1, 1.0)})
    for view in (SearchView(question, (pipeline,)), SearchView(question, (pipeline,), grouped=True)):
        read = Reader(answer_html(mine, question, view, title, [mine, other]))
        assert len(read.marks) == len(found.marks)
        assert read.tags.count("h3") == read.tags.count("h2") == 1
        assert all(href.startswith(("http://", "https://", "./?", "article?")) for href in read.hrefs)


@pytest.mark.parametrize(("limit", "cut", "shown"), [
    (1_000, (False, False), "A lake. A needle. An end."),
    (1_000, (True, False), "… A lake. A needle. An end."),
    (1_000, (True, True), "… A lake. A needle. An end. …"),
    (12, (True, True), "… A needle. …"),
])  # fmt: skip
def test_a_passage_that_begins_or_ends_within_a_sentence(limit, cut, shown):
    found = replace(hit(text="A lake. A needle. An end.", question="needle"), cut=cut)
    text, _ = passage_text(found, limit)
    read = Reader(f"<p>{text}</p>")
    for node in read.tree.css(".ls-folded"):
        node.decompose()
    assert " ".join(read.tree.text().split()) == shown
    whole = Reader(f"<p>{text}</p>")
    for node in whole.tree.css(".ls-dots"):
        node.decompose()
    start, end = ("… " if cut[0] else ""), (" …" if cut[1] else "")
    assert " ".join(whole.tree.text().split()) == f"{start}A lake. A needle. An end.{end}"


def test_which_passages_are_cut():
    texts = [
        ("a", "One. Two"),
        ("a", "goes on.)"),
        ("a", "Three."),
        ("b", "Four"),
        ("b", "is. "),
        ("b", "五。"),
    ]
    index = SimpleNamespace(passages=[SimpleNamespace(document_id=of, text=text) for of, text in texts])
    assert [is_cut_before(index, row) for row in range(8)] == [False, True, *[False] * 2, True, *[False] * 3]


# --- whole answers --------------------------------------------------------------------------------


def others(first, second, **more):
    """A column next to another one."""
    return answer_html(first, "", SearchView("q", ("a", "b"), **more), "i", [first, second])


def relevant():
    """Two passages, of which the second contains an answer; thirty are ranked."""
    hits = (
        replace(hit("No"), relevance={"answers": False}),
        replace(hit("Yes", "the cancer ward", rank=2), relevance={"answers": True}, answers=((4, 10),)),
    )
    places = {number: Place(number, 1.0) for number in range(1, 31)}
    return Answer("q", "p", hits, 0, places=places, firsts={"answers": First(2)})


def both_grounds(**firsts):
    both = hit("Article", relevance={"judgements": True, "answers": False})
    return replace(relevant(), hits=(both,) * 3, firsts=firsts)


def judged():
    """Two passages with judgements and without answers."""
    no, yes = {"judgements": False}, {"judgements": True}
    hits = (hit("No", row=1, relevance=no), hit("Yes", rank=2, row=2, relevance=yes))
    places = {1: Place(1, 1.0), 2: Place(2, 1.0)}
    return Answer("q", "p", hits, 0, places=places, firsts={"judgements": First(2)})


def by_article():
    hits = tuple(
        hit(f"T{document}", f"text {rank}", rank=rank, document_id=document, id=f"{document}#{rank}")
        for rank, document in enumerate("abacb", start=1)
    )
    return answer_html(Answer("q", "p", hits, 0), "", SearchView("q", ("p",), grouped=True), "i")


def merged(answers, reason=None, **view):
    view = SearchView("q", tuple(of.pipeline for of in answers), merged=True, **view)
    return views.merged_html(answers, dict.fromkeys(view.pipelines, "D"), view, "i", (), reason)


def why(answers):
    """The list with the sums of one passage open: the other pipeline has no score for it."""
    links = LinkEvidence(ArticleName(0, "d7", "T7"), (), (), (), ())
    score = Explanation(1, 1.0, (Part("w", 1.0),))
    return merged(answers, Reason(answers[0].hits[0], links, {"a": score, "b": None}), why="d7#0")


ONE, TWO = answer("a", [7, 8, 9]), answer("b", [9, 8])
MANY = replace(answer("b", list(range(20))), hits=answer("b", list(range(5))).hits)
BEYOND = [answer("a", [7, 8]), replace(answer("b", [9, 8, 5, 7]), hits=TWO.hits)]
STAGES = {"encode question": 0.0042, "search": 0.0961, "rerank": 1.23}
TURNED = answer("ce", [7], first_stage="bm25", before={7: Place(4, 8.25)})
LINKED = hit(url="https://a.example.org/x", document_id="A b", id="A b#2")
PART = replace(hit(url="https://a.org/x#later-life"), section="Life › Later <life>")
OWN = [judged(), replace(judged(), pipeline="b")]
VIEW = SearchView("q", ("p", "b"))
VERDICT = Reason(judged().hits[1], LinkEvidence(ArticleName(0, "d", "D"), (), (), (), ()))
WHOLE = {
    "one": lambda: answer_html(Answer("x", "bm25", (hit(),), 0.0123), "Lucene"),
    "links": lambda: answer_html(
        Answer("who?", "bm25", (LINKED,), 0), "", SearchView("who?", ("bm25", "ql"), 5), "sample"
    ),
    "stages": lambda: answer_html(Answer("x", "p", (), 1.33, STAGES)),
    "ranks": lambda: others(ONE, TWO),
    "ranks-of-the-other": lambda: others(TWO, ONE),
    "ranks-below": lambda: others(answer("a", [7]), MANY),
    "two-stages": lambda: answer_html(TURNED),
    "waiting": lambda: answer_html(replace(TURNED, waiting=True), status="Order of bm25; re-ranking…"),
    "relevant": lambda: answer_html(relevant()),
    "none-relevant": lambda: answer_html(replace(relevant(), firsts={"answers": None})),
    "relevant-below": lambda: answer_html(replace(relevant(), firsts={"answers": First(14)})),
    "grounds": lambda: answer_html(both_grounds(judgements=First(3, 2), answers=None)),
    "same-grounds": lambda: answer_html(both_grounds(answers=First(3), judgements=First(3, 3))),
    "judged": lambda: answer_html(judged()),
    "judged-list": lambda: views.merged_html(OWN, {"p": "", "b": ""}, VIEW, "i"),
    "judged-why": lambda: views.why_html(VERDICT, OWN, "i"),
    "by-article": by_article,
    "section": lambda: answer_html(Answer("q", "p", (PART,), 0)),
    "list": lambda: merged(BEYOND),
    "list-of-one": lambda: merged([answer("a", [7])]),
    "list-why": lambda: why([answer("a", [7]), answer("b", [8])]),
    "agreement": lambda: views.comparison_html(
        [answer("a", [1, 2]), answer("b", [2, 1])], "b", with_tabs=True
    ),  # .1 / .9 x (0 + .81) + .81
}
"""Whole parts of the page by the names of their files."""


@pytest.mark.parametrize("name", WHOLE)
def test_a_part_of_the_page_is_that_of_its_file(name):
    html = WHOLE[name]()
    Reader(html)  # all tags are closed, and known
    assert_golden(GOLDEN / f"{name}.html", pretty(html))


# --- passages -------------------------------------------------------------------------------------


LONG = "It began before. One is short. The needle is here. " + "More follows. " * 10 + "The end"


@pytest.mark.parametrize(
    ("question", "limit", "shown"),
    [
        ("needle", 30, "The needle is here."),
        ("needle", 60, "It began before. One is short. The needle is here."),
        ("end", 40, "More follows. More follows. The end"),
        ("zzz", 35, "It began before. One is short."),
        ("zzz", 13, "It began"),  # no sentence is as short
    ],
)
def test_whole_sentences_are_shown_and_the_rest_is_folded(question, limit, shown):
    text, is_cut = passage_text(hit(text=LONG, question=question), limit)
    read = Reader(f"<p>{text}</p>")
    folded = read.all(".ls-folded")
    assert is_cut and folded and read.words.replace("… ", "").replace(" …", "") == " ".join(LONG.split())
    for node in read.tree.css(".ls-folded, .ls-dots"):
        node.decompose()
    assert " ".join(read.tree.css_first("p").text().split()) == shown
    assert not passage_text(hit(text=LONG), 1_000)[1]


def test_the_nearest_sentence_is_marked_where_no_word_is():
    span = (LONG.index("The needle"), LONG.index(" More"))
    for limit in (30, 1_000):
        text, _ = passage_text(replace(hit(text=LONG), nearest=span), limit)
        assert Reader(f"<p>{text}</p>").all(".ls-nearest") == ["The needle is here."]
    found = replace(hit(text=LONG, question="short"), nearest=span)
    assert "ls-nearest" not in passage_text(found, 1_000)[0]


@given(st.text(), st.text(max_size=3), st.integers(0, 40), st.integers(0, 40), st.integers(1, 60))
def test_no_character_of_a_passage_is_lost(text, question, start, length, limit):
    found = replace(hit(text=text, question=question), nearest=(start, start + length))
    shown, _ = passage_text(found, limit)
    read = Reader(f"<p>{shown}</p>")
    for node in read.tree.css(".ls-dots"):
        node.decompose()
    assert "".join(read.tree.css_first("p").text().split()) == "".join(harmless(text).split())
