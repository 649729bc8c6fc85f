"""HTML of records of other packages: the values that their templates need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import inf
from typing import Any

from markupsafe import Markup

from linkseek.app.answers import Answer, AnswerHit, Place, Reason
from linkseek.app.context.article import PAGE, Anchor, Article, ReadPassage
from linkseek.app.context.known_questions import Known
from linkseek.app.evaluation.by_question import changes, moved_questions
from linkseek.app.preferences.record import (
    OVERLAP,
    Disagreement,
    Preferences,
    order_of,
    overlap,
    rank_biased_overlap,
)
from linkseek.app.rendering.addresses import ArticleView, EvaluationView, SearchView, article_address
from linkseek.app.rendering.html_templates import render
from linkseek.app.rendering.question_table import fitting, search_address
from linkseek.app.report.finished import Report
from linkseek.app.report.render import html_sections
from linkseek.app.report.sections import opening, sections
from linkseek.app.report.text import difference, in_percent, probability, with_unit
from linkseek.app.service import SearchService
from linkseek.app.testsets.known_items import FOUND
from linkseek.indexer.index import OpenIndex

_WIDE_CHARACTERS, _NARROW_CHARACTERS = 2_000, 420
"""The part of a passage that is shown in one or two columns, and in more."""
_REASON_CHARACTERS = 4_000
_JUDGED_CHARACTERS = 1_200
_SHOWN_PARTS = 12  # of a score
_MAX_LISTED, _MAX_UNFOLDED = 12, 200  # links around a passage


def answer_html(
    answer: Answer,
    description: str,
    view: SearchView,
    index: str,
    others: Sequence[Answer] = (),
    status: str = "",
    reason: Reason | None = None,
    grades: Mapping[str, int] | None = None,
    *,
    with_links: bool = True,
) -> str:
    """The column of a pipeline.

    others: the answers that its ranks are compared with. status: the work in progress, if any. reason: the
    explanation of the passage that is open. grades: the reader's grades, by passage id; None where nothing is
    judged. with_links: whether the links around it are shown here.
    """
    articles: dict[str, list[AnswerHit]] = {}  # each stands where its best passage stands
    for hit in answer.hits:
        articles.setdefault(hit.document_id if view.grouped else str(hit.rank), []).append(hit)
    return render(
        "answer.html",
        answer=answer,
        description=description,
        grades=grades,
        index=index,
        limit=_WIDE_CHARACTERS if len(view.pipelines) <= 2 else _NARROW_CHARACTERS,
        max_parts=_SHOWN_PARTS,
        others=others,
        scores=reason.scores if reason else {},
        shown=articles.values(),
        status=status,
        view=view,
        with_links=with_links,
        **(_links(reason) if reason else {}),
    )


def merged_html(
    answers: Sequence[Answer],
    descriptions: Mapping[str, str],
    view: SearchView,
    index: str,
    statuses: Sequence[str] = (),
    reason: Reason | None = None,
    grades: Mapping[str, int] | None = None,
) -> str:
    """One list of the passages of all pipelines, best ranks first. statuses: the work in progress.

    grades: as for `answer_html`.
    """
    hits: dict[int, AnswerHit] = {}
    for answer in answers:
        for hit in answer.hits:
            hits.setdefault(hit.row, hit)
    order = sorted(hits, key=lambda row: min(each.places[row].rank for each in answers if row in each.places))
    return render(
        "merged.html",
        answers=answers,
        by_answers=all(answer.by_answers for answer in answers),
        descriptions=descriptions,
        grades=grades,
        has_answers=any(hit.relevant for hit in hits.values()),
        index=index,
        limit=_WIDE_CHARACTERS,
        shown=[(hits[row], [_cell(answer, row) for answer in answers]) for row in order],
        statuses=statuses,
        view=view,
        why=Markup(why_html(reason, answers, index, view=view, with_text=False)) if reason else "",
    )


def _cell(answer: Answer, row: int) -> tuple[str, Place | None, bool]:
    """The name of a pipeline, a passage's place there, and whether that is among the results shown."""
    return answer.pipeline, answer.places.get(row), any(hit.row == row for hit in answer.hits)


def comparison_html(answers: Sequence[Answer], recommended: str, *, with_tabs: bool) -> str:
    """The agreement of each pair of pipelines. with_tabs: for a phone, which shows one column at a time.

    It begins with the column whose first relevant passage ranks best, or else the recommended pipeline's.
    """

    def at_best(number: int) -> tuple[float, bool]:
        ranks = [first.rank for first in answers[number].firsts.values() if first]
        return min(ranks, default=inf), answers[number].pipeline != recommended

    ranked = [sorted(answer.places, key=lambda row: answer.places[row].rank) for answer in answers]
    pairs = [
        (first.pipeline, second.pipeline, overlap(rows, others, 10), rank_biased_overlap(rows, others))
        for (first, rows), (second, others) in combinations(zip(answers, ranked, strict=True), 2)
    ]
    sizes = {answer.pipeline: len(answer.places) for answer in answers}
    opens = min(range(len(answers)), key=at_best, default=0)
    return render("comparison.html", sizes=sizes, opens=opens, pairs=pairs, with_tabs=with_tabs)


def results_html(answer: Answer, index: str) -> str:
    """One list of results, each with a link to the address of its page."""
    return render("simple.html", answer=answer, index=index, limit=_NARROW_CHARACTERS)


def why_html(
    reason: Reason,
    answers: Sequence[Answer],
    index: str,
    close: str = "",
    *,
    view: SearchView | None = None,
    with_text: bool = True,
) -> str:
    """Why a passage has its score in every pipeline, and the links around it.

    close: the address without it. view: in which weights can be turned. with_text: whether the passage and
    its links are shown, too.
    """
    text = reason.hit.text[:_REASON_CHARACTERS]
    anchors = _links_in(reason.links.anchors, index, 0, len(text))
    return render(
        "why.html",
        answers=answers,
        anchors=anchors,
        close=close,
        hit=reason.hit,
        index=index,
        max_parts=_SHOWN_PARTS,
        scores=reason.scores,
        text=text,
        view=view,
        with_text=with_text,
        **_links(reason),
    )


def _links(reason: Reason) -> dict[str, Any]:
    limits = {"max_listed": _MAX_LISTED, "max_unfolded": _MAX_UNFOLDED, "turned": reason.turned}
    others = [name for name in reason.scores if name not in reason.by_links]
    return {"links": reason.links, "by_links": reason.by_links, "without_links": others, **limits}


def article_html(article: Article, view: ArticleView, index: str) -> str:
    """The text by passages, and the articles that are linked with it."""
    last = article.first + len(article.passages) - 1
    pages = [
        (name, replace(view, first=first, passage="", find="").address(index))
        for name, first in (("Earlier", max(article.first - PAGE, 1)), ("Later", last + 1))
        if first != article.first and first <= article.count
    ]
    texts = [list(_sections(passage, index)) for passage in article.passages]
    shown = {"article": article, "texts": texts, "pages": pages, "page_size": PAGE}
    return render("article.html", index=index, view=view, **shown)


_Section = tuple[str | None, str, list[tuple[int, int, str]]]


def _sections(passage: ReadPassage, index: str) -> Iterator[_Section]:
    """Heading (None before the first one), text, and anchors of each section in a passage."""
    starts = [0, *(heading.start for heading in passage.headings), len(passage.text)]
    headings = [None, *(heading.text for heading in passage.headings)]
    for heading, low, high in zip(headings, starts[:-1], starts[1:], strict=True):
        yield heading, passage.text[low:high], _links_in(passage.anchors, index, low, high)


def _links_in(anchors: Sequence[Anchor], index: str, low: int, high: int) -> list[tuple[int, int, str]]:
    """The anchors in a part of a text: their places in the part, and the addresses of their articles."""
    inside = [anchor for anchor in anchors if low <= anchor.start and anchor.end <= high]
    return [(a.start - low, a.end - low, article_address(a.target.id, index)) for a in inside]


MAX_MOVED = 50
"""Questions that changed sides, of a pipeline, that are shown."""


def two_reports_html(here: Report, there: Report, measure: str, index: str) -> str:
    """The differences of two reports, and the questions that changed sides."""
    rows = changes(here.results, there.results, measure)

    def address(question: str, name: str) -> str:
        table = EvaluationView(here.name, measure=measure, pair=(name, name))
        return search_address(question, table, index)

    moved = {row.name: moved_questions(here.results, there.results, row.name, measure) for row in rows}
    return render(
        "two_reports.html",
        rows=rows,
        other=there.name,
        measure=measure,
        difference=lambda number: difference(measure, number) + (" points" if in_percent(measure) else ""),
        mean=partial(with_unit, measure),
        p=probability,
        value="{:.3g}".format,
        max_shown=MAX_MOVED,
        moved={
            name: [(question, address(question.text, name)) for question in questions]
            for name, questions in moved.items()
        },
    )


_PARTS = {
    "scores": ("scores", "missed", "significance"),
    "charts": ("curves", "kinds", "latency"),
    "provenance": ("origin",),
}


def report_part_html(report: Report, part: str, index: str) -> str:
    """The sections of a part of a report; the scores begin with the summary. Charts contain SVG.

    index: whose searches the questions lead to.
    """
    results = report.results
    summary = [replace(opening(results), title="Summary")] if part == "scores" else []
    table = fitting(EvaluationView(report.name, measure=FOUND), results)
    link = partial(search_address, view=table, index=index)
    shown = [replace(item, data=item.data | {"link": link}) for item in sections(results, _PARTS[part])]
    html = html_sections([*summary, *shown])
    return render("report_part.html", html=html)


def question_html(service: SearchService, question: Disagreement, name: str) -> str:
    """A question, and the two first results side by side, without the names of their pipelines."""
    rows = [_row_of(service.index, id_) for id_ in (question.first_a, question.first_b)]
    hits = [service.marked_hit(question.text, row, Known()) if row >= 0 else None for row in rows]
    if order_of(name, question.text)[0] != "a":
        hits.reverse()
    shown = {"question": question, "hits": hits, "index": service.index.path.name}
    return render("judge.html", depth=OVERLAP, limit=_JUDGED_CHARACTERS, **shown)


def _row_of(index: OpenIndex, id_: str | None) -> int:
    """The row of a passage; -1 without an id, or if the passage is not in the index any more."""
    return int(index.passages.rows_of([id_])[0]) if id_ is not None else -1


def outcome_html(index: OpenIndex | None, preferences: Preferences) -> str:
    """All questions of a comparison that has ended, the largest disagreement first."""
    pair = (preferences.a, preferences.b)
    name = {"a": preferences.a, "b": preferences.b, "same": "both good", "neither": "both bad"}

    def title(id_: str | None) -> str:
        row = _row_of(index, id_) if index else -1
        passage = index.passages[row] if index and row >= 0 else None
        return (passage.title.strip() or passage.document_id) if passage else (id_ or "no result")

    rows = [
        (
            question,
            SearchView(question.text, pair).address(preferences.index),
            "same first result"
            if question.same_first
            else name.get(preferences.choices.get(question.id, ""), ""),
            [title(question.first_a), title(question.first_b)],
        )
        for question in preferences.questions
    ]
    return render("preferences.html", pair=pair, rows=rows, depth=OVERLAP)
