"""HTML of records of other packages: the values that their templates need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from linkseek.app.around.article import PAGE, Article, ReadPassage
from linkseek.app.evaluation.results import Results
from linkseek.app.evaluation.two_reports import changes, moved_questions
from linkseek.app.report.changes import Label
from linkseek.app.report.finished import Report, Summary
from linkseek.app.report.render import html_sections
from linkseek.app.report.sections import opening, sections
from linkseek.app.report.text import moment, with_unit
from linkseek.app.service import Answer, Failure, Hit, Reason
from linkseek.app.web.addresses import ArticleView, EvaluationView, SearchView, article_address
from linkseek.app.web.rendering import render

_WIDE_CHARACTERS, _NARROW_CHARACTERS = 2_000, 420
"""The part of a passage that is shown in one or two columns, and in more."""
_REASON_CHARACTERS = 4_000
_SHOWN_FEATURES = 12  # of the pipeline that explains its scores
_MAX_LISTED = 12


def waiting_html(pipeline: str, description: str, status: str) -> str:
    """The column of a pipeline that has not answered yet."""
    return render("waiting.html", pipeline=pipeline, description=description, status=status)


def failed_html(failure: Failure, description: str) -> str:
    """The column of a pipeline that has no answer."""
    return render("failed.html", failure=failure, description=description)


def answer_html(
    answer: Answer,
    description: str,
    view: SearchView,
    index: str,
    others: Sequence[Answer] = (),
    status: str = "",
) -> str:
    """The column of a pipeline.

    others: the answers that its ranks are compared with. status: what is still being done, if anything is.
    """
    articles: dict[str, list[Hit]] = {}  # each stands where its best passage stands
    for hit in answer.hits:
        articles.setdefault(hit.document_id, []).append(hit)
    return render(
        "answer.html",
        answer=answer,
        articles=articles.values(),
        description=description,
        index=index,
        limit=_WIDE_CHARACTERS if len(view.pipelines) <= 2 else _NARROW_CHARACTERS,
        others=others,
        status=status,
        view=view,
    )


def results_html(answer: Answer, index: str) -> str:
    """One list of results, each with a link to the address of its page."""
    return render("simple.html", answer=answer, index=index, limit=_NARROW_CHARACTERS)


def why_html(reason: Reason, answers: Sequence[Answer], index: str) -> str:
    """A passage with its links, its rank and score in every pipeline, and what a learned score is made of."""
    text = reason.hit.text[:_REASON_CHARACTERS]
    anchors = [
        (anchor.start, anchor.end, article_address(anchor.target.id, index))
        for anchor in reason.links.anchors
        if anchor.end <= len(text)
    ]
    features = {name: shares[:_SHOWN_FEATURES] for name, shares in reason.features.items() if shares}
    return render(
        "why.html",
        answers=answers,
        anchors=anchors,
        features=features,
        hit=reason.hit,
        index=index,
        text=text,
    )


def evidence_html(reason: Reason, index: str) -> str:
    """The articles that the question names, dual links and co-mentions, in words."""
    return render("evidence.html", index=index, links=reason.links, max_listed=_MAX_LISTED)


def article_html(article: Article, view: ArticleView, index: str) -> str:
    """The text by passages, and the articles that are linked with it."""
    last = article.first + len(article.passages) - 1
    pages = [
        (name, replace(view, first=first, passage="", find="").address(index))
        for name, first in (("Earlier", max(article.first - PAGE, 1)), ("Later", last + 1))
        if first != article.first and first <= article.count
    ]
    return render(
        "article.html",
        article=article,
        index=index,
        page_size=PAGE,
        pages=pages,
        texts=[list(_sections(passage, index)) for passage in article.passages],
        view=view,
    )


_Section = tuple[str | None, str, list[tuple[int, int, str]]]


def _sections(passage: ReadPassage, index: str) -> Iterator[_Section]:
    """Heading (None before the first one), text, and anchors of each section in a passage."""
    starts = [0, *(heading.start for heading in passage.headings), len(passage.text)]
    headings = [None, *(heading.text for heading in passage.headings)]
    for heading, low, high in zip(headings, starts[:-1], starts[1:], strict=True):
        anchors = [
            (anchor.start - low, anchor.end - low, article_address(anchor.target.id, index))
            for anchor in passage.anchors
            if low <= anchor.start and anchor.end <= high
        ]
        yield heading, passage.text[low:high], anchors


def reports_html(reports: Sequence[Summary], index: str, labels: Mapping[str, Label] = {}) -> str:
    """A table of all evaluations, each a link. labels: of those that visitors have named."""
    rows = []
    for report in reports:
        mean = ""
        if report.value is not None:
            mean = f"{report.measure} {with_unit(report.measure, report.value)}"
        rows.append((report, EvaluationView(report.name).address(index), moment(report.when), mean))
    return render("reports.html", reports=rows, labels={name: label.name for name, label in labels.items()})


MAX_MOVED = 50
"""Questions that changed sides, of a pipeline, that are shown."""


def two_reports_html(here: Report, there: Report, measure: str, index: str) -> str:
    """The differences of two reports, and the questions that changed sides."""
    rows = changes(here.results, there.results, measure)
    moved = {row.name: moved_questions(here.results, there.results, row.name, measure) for row in rows}
    return render(
        "two_reports.html",
        rows=rows,
        other=there.name,
        measure=measure,
        mean=partial(with_unit, measure),
        value="{:.3g}".format,
        max_shown=MAX_MOVED,
        moved={
            name: [(question, SearchView(question.text, (name,)).address(index)) for question in questions]
            for name, questions in moved.items()
        },
    )


_PARTS = {
    "scores": ("scores", "significance"),
    "charts": ("curves", "kinds", "latency"),
    "provenance": ("origin",),
}


def report_part_html(report: Report, part: str) -> str:
    """The sections of a part of a report; the scores begin with the summary. Charts hold SVG."""
    summary = [replace(opening(report.results), title="Summary")] if part == "scores" else []
    html = html_sections([*summary, *sections(report.results, _PARTS[part])])
    return render("report_part.html", html=html)


def report_title(results: Results) -> str:
    """The title of a report as text."""
    return f"Evaluation on {results.title}" if results.title else "Evaluation"
