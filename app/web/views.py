"""HTML of records of other packages: the values that their templates need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from markupsafe import Markup

from app.around.article import PAGE, Article, ReadPassage
from app.evaluation.reports import Report, Summary
from app.report.analyses import curves_section, kinds_section
from app.report.document import Section
from app.report.html import sections_html
from app.report.latency import latency_section
from app.report.origin import origin_section
from app.report.results import Results
from app.report.scores import scores_section, significance_section
from app.report.summary import opening, title_of
from app.report.text import clean, in_percent, value
from app.service import Answer, Hit, Reason
from app.web.addresses import ArticleView, EvaluationView, SearchView, article_address
from app.web.rendering import render

_WIDE_CHARACTERS, _NARROW_CHARACTERS = 2_000, 420
"""The part of a passage that is shown in one or two columns, and in more."""
_REASON_CHARACTERS = 4_000
_TOP_CHARACTERS = 240
_MAX_LISTED = 12


# --- search ---------------------------------------------------------------------------------------


def answer_html(
    answer: Answer, description: str, view: SearchView, index: str, others: Sequence[Answer] = ()
) -> str:
    """The column of a pipeline. others: the answers that its ranks are compared with."""
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
        view=view,
    )


def why_html(reason: Reason, answers: Sequence[Answer], index: str) -> str:
    """A passage with its links, and its rank and score in every pipeline."""
    text = reason.hit.text[:_REASON_CHARACTERS]
    anchors = [
        (anchor.start, anchor.end, article_address(anchor.article.id, index))
        for anchor in reason.links.anchors
        if anchor.end <= len(text)
    ]
    return render("why.html", answers=answers, anchors=anchors, hit=reason.hit, index=index, text=text)


def evidence_html(reason: Reason, index: str) -> str:
    """The articles that the question names, dual links and co-mentions, in words."""
    return render("evidence.html", index=index, links=reason.links, max_listed=_MAX_LISTED)


# --- articles -------------------------------------------------------------------------------------


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


# --- evaluations ----------------------------------------------------------------------------------


def reports_html(reports: Sequence[Summary], index: str) -> str:
    """A table of all evaluations, each a link."""
    rows = []
    for report in reports:
        mean = ""
        if report.value is not None:
            unit = " %" if in_percent(report.measure) else ""
            mean = f"{report.measure} {value(report.measure, report.value)}{unit}"
        date = f"{datetime.fromtimestamp(report.modified, UTC):%-d %B %Y, %H:%M} UTC"
        rows.append((report, EvaluationView(report.name).address(index), date, mean))
    return render("reports.html", reports=rows)


def differences_html(report: Report, pair: tuple[str, str], index: str, note: str = "") -> str:
    """Questions that two pipelines answer differently, each with a link to their answers side by side."""
    cases = []
    for case in report.differences(*pair):
        question = clean(case.question)
        gain = (1 / case.rank_b if case.rank_b else 0.0) - (1 / case.rank_a if case.rank_a else 0.0)
        cases.append((case, question, SearchView(question, pair).address(index), gain))
    return render(
        "differences.html",
        better=sum(gain > 0 for *_, gain in cases),
        cases=cases,
        depth=report.results.depth,
        max_characters=_TOP_CHARACTERS,
        note=note,
        pair=pair,
        worse=sum(gain < 0 for *_, gain in cases),
    )


_PARTS: dict[str, tuple[Callable[[Results], Section | None], ...]] = {
    "scores": (scores_section, significance_section),
    "charts": (curves_section, kinds_section, latency_section),
    "provenance": (origin_section,),
}


def report_part_html(report: Report, part: str) -> str:
    """The sections of a part of a report; the scores begin with the summary. Charts hold SVG."""
    sections = [Section("summary", "Summary", opening(report.results))] if part == "scores" else []
    sections += [section for build in _PARTS[part] if (section := build(report.results)) is not None]
    return render("report_part.html", html=Markup(sections_html(sections)))


def report_title(results: Results) -> str:
    """The title of a report as text."""
    parts = title_of(results)
    return "".join(part if isinstance(part, str) else str(getattr(part, "text", "")) for part in parts)
