"""The HTML of answers: hostile texts, ranks in other columns, two stages, marks, groups; the chart."""

import re
from dataclasses import replace
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
from tests.support.reading import Reader
from tests.support.small_index import HOSTILE_TEXT, HOSTILE_TITLE


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


def test_what_a_screen_reader_hears():
    read = Reader(answer_html(Answer("x", "bm25", (hit(),), 0.0123), "Lucene"))
    assert read.all("section", "aria-label") == ["Results of bm25"]
    assert "Rank 1" in read.text and "Score 0.5000" in read.text and "1 passage in 12 ms" in read.text
    assert read.all(".ls-why", "aria-label") == ["Why A title, rank 1 of bm25"]


def test_links_of_a_passage():
    found = hit(url="https://a.example.org/x", document_id="A b", id="A b#2")
    view = SearchView("who?", ("bm25", "ql"), 5)
    read = Reader(answer_html(Answer("who?", "bm25", (found,), 0), "", view, "sample"))
    assert read.hrefs == [
        "article?id=A+b&index=sample",
        "./?pipelines=bm25&pipelines=ql&k=5&q=who%3F&why=A+b%232&index=sample",
        "https://a.example.org/x",
    ]


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


def test_times_of_stages():
    stages = {"encode question": 0.0042, "search": 0.0961, "rerank": 1.23}
    read = Reader(answer_html(Answer("x", "p", (), 1.33, stages), ""))
    assert read.all(".ls-stages dt") == list(stages)
    assert read.all(".ls-stages dd") == ["4.2 ms", "96 ms", "1.2 s"]
    assert "0 passages in 1.3 s" in read.text


# --- ranks in other columns -------------------------------------------------------------------------


def others(html):
    return Reader(html).all(".ls-other", "title")


def test_ranks_in_the_other_columns():
    first, second = answer("a", [7, 8, 9]), answer("b", [9, 8])
    html = answer_html(first, "", SearchView("q", ("a", "b")), "i", [first, second])
    assert others(html) == ["Not among the first 2 of b", "Rank 2 in b, the same", "Rank 1 in b, 2 higher"]
    html = answer_html(second, "", SearchView("q", ("a", "b")), "i", [first, second])
    assert others(html) == ["Rank 3 in a, 2 lower", "Rank 2 in a, the same"]
    assert others(answer_html(first, "", SearchView("q", ("a",)), "i", [first])) == []


def test_a_rank_below_those_that_are_shown():
    first, second = answer("a", [7]), answer("b", list(range(20)))
    second = replace(second, hits=second.hits[:5])
    assert others(answer_html(first, "", SearchView("q", ("a", "b")), "i", [second])) == [
        "Rank 8 in b, 7 lower"
    ]


def test_two_stages_say_where_a_passage_stood():
    found = answer("ce", [7], first_stage="bm25", before={7: Place(4, 8.25)})
    read = Reader(answer_html(found))
    assert not read.all(".ls-score s")  # two scales next to each other would look like a discount
    assert read.all(".ls-score .ls-up") == ["▲3"]
    assert "Score 0.5000, 3 higher. Rank 4 and score 8.2500 before re-ranking" in read.words


def test_the_first_stage_says_that_more_follows():
    status = "Order of bm25; re-ranking…"
    read = Reader(answer_html(replace(answer("ce", [7]), first_stage="bm25", waiting=True), status=status))
    assert read.all('[role="status"]') == [status] and read.all("progress", "aria-label") == [status]
    assert "status" not in answer_html(answer("ce", [7]))


# --- relevant or not ------------------------------------------------------------------------------


def test_relevant_or_not():
    hits = (
        replace(hit("No"), relevance={"answers": False}),
        replace(hit("Yes", "the cancer ward", rank=2), relevance={"answers": True}, answers=((4, 10),)),
    )
    places = {number: Place(number, 1.0) for number in range(1, 31)}
    asked = Answer("q", "p", hits, 0, places=places, firsts={"answers": First(2)})
    read = Reader(answer_html(asked, ""))
    assert "✓ first answer at rank 2" in read.words and "not shown" not in read.words
    assert read.all(".ls-rank") == ["Rank 1✗, not relevant", "Rank 2✓, relevant"]
    assert (read.marks, read.classes) == (["cancer"], ["ls-said"])
    assert [*filter(None, read.all(".ls-rank b", "title"))] == ["Contains no answer", "Contains an answer"]
    none = replace(asked, hits=hits[:1], firsts={"answers": None})
    assert "✗ none of 30 contains an answer" in Reader(answer_html(none, "")).words
    assert "✗ first answer at rank 14, not shown" in answer_html(
        replace(none, firsts={"answers": First(14)}), ""
    ).replace('<b class="ls-irrelevant">✗</b>', "✗")
    assert "answer" not in Reader(answer_html(answer("p", [1]), "")).text


def test_both_grounds_are_shown_where_they_differ():
    both = hit("Article", relevance={"judgements": True, "answers": False})
    places = {number: Place(number, 1.0) for number in range(1, 31)}
    firsts = {"judgements": First(3, 2), "answers": None}
    read = Reader(answer_html(Answer("q", "p", (both,) * 3, 0, places=places, firsts=firsts), ""))
    assert "✓ first relevant article at rank 3 (article 2); ✗ none of 30 contains an answer" in read.words
    assert "Relevant by the judgements; contains no answer" in read.words
    same = {"answers": First(3), "judgements": First(3, 3)}
    read = Reader(answer_html(Answer("q", "p", (both,) * 3, 0, places=places, firsts=same), ""))
    assert "✓ first answer at rank 3" in read.words and "relevant article" not in read.words


def test_judgements_without_answers_say_so():
    no, yes = {"judgements": False}, {"judgements": True}
    hits = (hit("No", row=1, relevance=no), hit("Yes", rank=2, row=2, relevance=yes))
    judged = Answer(
        "q", "p", hits, 0, places={1: Place(1, 1.0), 2: Place(2, 1.0)}, firsts={"judgements": First(2)}
    )
    read = Reader(answer_html(judged, ""))
    assert "✓ first relevant passage at rank 2" in read.words
    assert read.all(".ls-rank b", "title") == ["Not relevant by the judgements", "Relevant by the judgements"]
    none = replace(judged, hits=hits[:1], firsts={"judgements": None})
    assert "✗ none of 2 is relevant by the judgements" in Reader(answer_html(none, "")).words
    view, two = SearchView("q", ("p", "b")), [judged, replace(judged, pipeline="b")]
    merged = Reader(views.merged_html(two, {"p": "", "b": ""}, view, "i"))
    assert merged.all(".ls-filters button") == ["all", "only in p", "only in b", "relevant"]
    why = views.why_html(Reason(hits[1], LinkEvidence(ArticleName(0, "d", "D"), (), (), (), ())), two, "i")
    assert Reader(why).all(".ls-verdict") == ["✓ relevant by the judgements"]


# --- by article -----------------------------------------------------------------------------------


def test_grouped_by_article():
    hits = tuple(
        hit(f"T{document}", f"text {rank}", rank=rank, document_id=document, id=f"{document}#{rank}")
        for rank, document in enumerate("abacb", start=1)
    )
    read = Reader(answer_html(Answer("q", "p", hits, 0), "", SearchView("q", ("p",), grouped=True), "i"))
    assert read.tags.count("h3") == 3
    assert re.findall(r"Article (\d)|text (\d)", read.text) == [
        ("1", ""), ("", "1"), ("", "3"), ("2", ""), ("", "2"), ("", "5"), ("3", ""), ("", "4"),
    ]  # fmt: skip
    assert "2 passages" in read.text and "1 passage" in read.text


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


def test_the_section_and_the_anchor_of_the_source():
    found = replace(hit(url="https://a.org/x#later-life"), section="Life › Later <life>")
    read = Reader(answer_html(Answer("q", "p", (found,), 0)))
    assert read.all("h3") == ["A title › Life › Later <life>"]
    assert read.all(".ls-source") == ["source#later-life ↗"]


# --- one list -------------------------------------------------------------------------------------


def merged(answers, reason=None, **view):
    view = SearchView("q", tuple(of.pipeline for of in answers), merged=True, **view)
    return Reader(views.merged_html(answers, dict.fromkeys(view.pipelines, "D"), view, "i", (), reason))


def test_each_passage_once_with_a_cell_for_each_pipeline():
    second = replace(answer("b", [9, 8, 5, 7]), hits=answer("b", [9, 8]).hits)
    read = merged([answer("a", [7, 8]), second])
    cells = [[cell.text() for cell in row.css(".ls-cell")] for row in read.tree.css(".ls-merged > li")]
    assert read.all(".ls-merged h3") == ["T7", "T9", "T8"]
    assert cells == [["a 1", "b 4"], ["a –", "b 1"], ["a 2", "b 2"]]
    beyond = [[cell.text() for cell in row.css(".ls-beyond")] for row in read.tree.css(".ls-merged > li")]
    assert beyond == [["b 4"], ["a –"], []]
    assert read.all(".ls-cell", "title")[1] == "b: rank 4, score 0.2500"
    assert read.all(".ls-sorts button") == ["a", "b", "best rank", "moved most"]
    assert read.all(".ls-filters button") == ["all", "only in a", "only in b"]
    assert merged([answer("a", [7])]).all(".ls-sorts button") == ["a", "best rank"]


def test_why_in_the_list_has_all_sums():
    links = LinkEvidence(ArticleName(0, "d7", "T7"), (), (), (), ())
    one = answer("a", [7])
    score = Explanation(1, 1.0, (Part("w", 1.0),))
    read = merged([one, answer("b", [8])], Reason(one.hits[0], links, {"a": score, "b": None}), why="d7#0")
    assert read.all(".ls-opened .ls-why-score > p") == [
        "a rank 1, score 1.0000 =",
        "b not among the first 1",
    ]
    assert read.all(".ls-why", "aria-expanded") == ["true", "false"]


def test_what_pipelines_agree_on():
    html = views.comparison_html([answer("a", [1, 2]), answer("b", [2, 1])], with_tabs=True)
    read = Reader(html)
    assert read.all(".ls-agreement dt") == ["a and b"] and read.all(".ls-tabs button") == ["a", "b"]
    assert read.all(".ls-agreement dd") == ["100 %, RBO 0.90"]  # .1 / .9 x (0 + .81) + .81
