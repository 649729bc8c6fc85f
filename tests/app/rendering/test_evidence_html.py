"""The HTML and the drawing of evidence: every link, hostile texts, places of nodes."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.app.answers import Answer, AnswerHit, Place, Reason
from linkseek.app.context.article import Anchor
from linkseek.app.context.evidence import CoMentionEvidence, DualLinkEvidence, Entity, LinkEvidence
from linkseek.app.context.titles import ArticleName
from linkseek.app.rendering.html_templates import render
from linkseek.app.rendering.views import why_html
from linkseek.retriever.search.explanation import Explanation, Part, Sentence
from tests.support.golden import assert_golden, pretty
from tests.support.reading import Reader
from tests.support.tiny.index import HOSTILE_TEXT, HOSTILE_TITLE


def article(row, title=None):
    return ArticleName(row, f"a{row}", title or f"Article {row}")


OWN, TWIN, SHARED, OTHER = (article(row) for row in range(4))
LINKS = LinkEvidence(
    OWN,
    (Entity(OWN, "own"), Entity(TWIN, "linked", "her <brother>"), Entity(OTHER, "linking", "")),
    (Anchor(0, 3, TWIN),),
    (DualLinkEvidence(TWIN, "here", "there"),),
    (CoMentionEvidence(OTHER, SHARED, asks=True), CoMentionEvidence(TWIN, SHARED, asks=False)),
)
NOTHING = LinkEvidence(OWN, (), (), (), ())


def evidence_html(links, index):
    return render("evidence.html", index=index, links=links, max_listed=12, max_unfolded=200)


def hit(text="She found it.", **more):
    return AnswerHit(0, 0, "a0#1", "a0", "Article 0", text, "https://a.org/0", (), row=5, **more)


def test_a_book_is_cut():
    read = Reader(why_html(Reason(hit("word " * 10_000), LINKS), [], "sample"))
    assert len(read.all(".ls-text")[0]) < 4_010 and read.all(".ls-text")[0].endswith(" …")


# --- whole parts ----------------------------------------------------------------------------------


def scores():
    """Of three pipelines, before and after re-ranking; none of them shows the passage."""
    before = {5: Place(4, 2.25)}
    two = Answer("q", "ce", (), 0, places={5: Place(1, 9.5)}, first_stage="bm25", before=before)
    one = Answer("q", "bm25", (), 0, places={5: Place(4, 2.25), 6: Place(1, 3.0)})
    none = Answer("q", "<b>", (), 0, places={6: Place(1, 3.0)})
    words = Explanation(4, 2.25, (Part("<i>", 2.5, factors={"idf": 1.5}), Part("rest", -0.25)))
    answers = Part("answers", 9.0, sentence=Sentence(0, 3, 1.5))
    explained = {
        "ce": Explanation(1, 9.5, (answers, Part("bm25", 0.5, of=words))),
        "bm25": words,
        "<b>": None,
    }
    return why_html(Reason(hit(), NOTHING, explained), [two, one, none], "i")


def many_parts():
    answer = Answer("q", "ce", (), 0, places={5: Place(1, 9.5)})
    many = Explanation(1, 20.0, tuple(Part(f"f{n}", 1.0) for n in range(20)))
    return why_html(Reason(hit(), NOTHING, {"ce": many}), [answer], "i", with_text=False)


def why(links, **more):
    return why_html(Reason(hit(**more), links), [], "sample")


WHOLE = {
    "passage": lambda: why(LINKS, relevance={"answers": True}, answers=((10, 12),)),
    "irrelevant": lambda: why(NOTHING, relevance={"answers": False}),
    "scores": scores,
    "many-parts": many_parts,
    "links": lambda: evidence_html(LINKS, "sample"),
}
"""Parts of the page by the names of their files."""


@pytest.mark.parametrize("name", WHOLE)
def test_a_part_of_the_page_is_that_of_its_file(name):
    html = WHOLE[name]()
    Reader(html)
    assert_golden(Path(__file__).with_name("evidence") / f"{name}.html", pretty(html))


def test_long_lists_are_folded():
    many = replace(NOTHING, dual_links=tuple(DualLinkEvidence(article(n), "a", "b") for n in range(1, 301)))
    read = Reader(evidence_html(many, "sample"))
    assert read.all("summary") == ["and 288 more"]
    assert read.tags.count("li") == 201 and read.all("details li")[-1] == "100 are not listed"


def test_whether_rankings_used_links():
    scores = dict.fromkeys(["bm25", "hops"])
    html = why_html(Reason(hit(), LINKS, scores, ("hops",)), [], "sample")
    assert Reader(html).all(".ls-links > summary") == [
        "Links around it: 1 dual link and 2 co-mentions. hops ranked by links. bm25 ranked without them."
    ]


@given(st.text(), st.text())
@settings(max_examples=30)
def test_any_text_is_only_text(text, title):
    this, other = ArticleName(0, text, title), ArticleName(1, title, text)
    links = LinkEvidence(
        this,
        (Entity(this, "own"), Entity(other, "linked", text)),
        (Anchor(0, min(1, len(text)), other),),
        (DualLinkEvidence(other, text, title),),
        (CoMentionEvidence(other, this, asks=True),),
    )
    reason = Reason(replace(hit(text), title=title, document_id=text, url=text), links)
    for html in (why_html(reason, [], title), evidence_html(links, text)):
        assert all(
            href.startswith(("article?", "http://", "https://")) for href in Reader(html).hrefs if href
        ), html


def test_hostile_titles():
    evil = ArticleName(1, HOSTILE_TEXT, HOSTILE_TITLE)
    links = replace(LINKS, dual_links=(DualLinkEvidence(evil, HOSTILE_TEXT, HOSTILE_TITLE),))
    html = evidence_html(links, "i")
    assert "<script" not in html and "<img" not in html and "\u202e" not in html
    assert "alert(1)" in Reader(html).text
