"""The HTML of evaluations: the list of reports, one report, and where two pipelines differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape

from app.evaluation.reports import Report, Summary
from app.report import text
from app.report.analyses import curves_section, kinds_section
from app.report.document import Section
from app.report.html import sections_html
from app.report.latency import latency_section
from app.report.origin import origin_section
from app.report.results import Difference, Results, Top
from app.report.scores import scores_section, significance_section
from app.report.summary import opening, title_of
from app.web.state import EvaluationView, View, evaluation_address, search_address
from app.web.view import safe_text
from indexer.base.text import counted

_TEXT = 240  # characters of a passage that are shown

_FIRST, _DRAWN, _LAST = (
    (scores_section, significance_section),
    (curves_section, kinds_section, latency_section),
    (origin_section,),
)


# --- the list -------------------------------------------------------------------------------------


def reports_html(reports: Sequence[Summary], index: str) -> str:
    """A table of all evaluations, each a link."""
    rows = "".join(_summary_html(report, index) for report in reports)
    head = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    return (
        '<div class="ls-scroll" role="region" tabindex="0" aria-label="Finished evaluations">'
        f'<table class="ls-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


_COLUMNS = ("report", "questions", "index", "pipelines", "best", "date")


def _summary_html(report: Summary, index: str) -> str:
    address = evaluation_address(EvaluationView(report.name), index)
    head = f'<th scope="row"><a href="{escape(address)}"><bdi>{safe_text(report.name)}</bdi></a></th>'
    date = f"{datetime.fromtimestamp(report.modified, UTC):%-d %B %Y, %H:%M} UTC"
    if report.problem:
        return (
            f'<tr>{head}<td colspan="4">cannot be shown: {safe_text(report.problem)}</td><td>{date}</td></tr>'
        )
    asked = f"{report.questions:,} of " if report.questions is not None else ""
    best = ""
    if report.value is not None:
        unit = " %" if text.in_percent(report.measure) else ""
        best = (
            f"<bdi>{safe_text(', '.join(report.best[:2]))}</bdi>"
            f"{' and others' if len(report.best) > 2 else ''}: "
            f"{safe_text(report.measure)} {text.value(report.measure, report.value)}{unit}"
        )
    return (
        f"<tr>{head}<td>{asked}<bdi>{safe_text(report.test_set)}</bdi></td><td><bdi>{safe_text(report.index)}</bdi></td>"
        f"<td><bdi>{safe_text(', '.join(report.pipelines))}</bdi></td><td>{best}</td><td>{date}</td></tr>"
    )


# --- one report -----------------------------------------------------------------------------------


def report_heading_html(report: Report, index: str) -> str:
    """Its name, and the way back."""
    title = "".join(
        part if isinstance(part, str) else str(getattr(part, "text", "")) for part in title_of(report.results)
    )
    back = escape(evaluation_address(EvaluationView(), index))
    return (
        f'<header class="ls-report-head"><p><a href="{back}">All evaluations</a></p>'
        f"<h2><bdi>{safe_text(title)}</bdi></h2></header>"
    )


def results_html(report: Report) -> str:
    """What was found, in words and in tables."""
    return _sections(report, _FIRST, (Section("summary", "Summary", opening(report.results)),))


def charts_html(report: Report) -> str:
    """The sections with charts. They hold SVG, which `st.html` takes out."""
    return _sections(report, _DRAWN) or '<p class="ls-nothing">The results hold nothing to draw.</p>'


def origin_html(report: Report) -> str:
    """Where the results come from."""
    return _sections(report, _LAST)


def _sections(
    report: Report,
    builders: Sequence[Callable[[Results], Section | None]],
    before: tuple[Section, ...] = (),
) -> str:
    sections = [*before, *(section for build in builders if (section := build(report.results)) is not None)]
    return f'<div class="ls-report">{sections_html(sections)}</div>' if sections else ""


# --- differences ----------------------------------------------------------------------------------


def differences_html(results: Results, found: Sequence[Difference], index: str, note: str = "") -> str:
    """Questions that two pipelines answer differently, each with a link to their answers side by side."""
    better = sum(_gain(each) > 0 for each in found)
    worse = sum(_gain(each) < 0 for each in found)
    a, b = (found[0].a, found[0].b) if found else ("", "")
    told = (
        f"<b><bdi>{safe_text(b)}</bdi></b> beside <b><bdi>{safe_text(a)}</bdi></b>: "
        f"{counted(len(found), 'question')}, {better:,} better and {worse:,} worse"
    )
    cases = "".join(_case_html(results, each, index) for each in found)
    note = f'<p class="ls-quiet">{safe_text(note)}</p>' if note else ""
    return f'<div class="ls-differences"><p>{told}</p>{note}<ol>{cases}</ol></div>'


def _case_html(results: Results, case: Difference, index: str) -> str:
    question = text.clean(case.question)
    address = escape(search_address(View(question, (case.a, case.b)), index))
    answers = "; ".join(f"<bdi>{safe_text(answer)}</bdi>" for answer in case.answers[:8])
    answered = f'<p class="ls-answers">Answers: {answers}</p>' if answers else ""
    kind = {1: "ls-better", 0: "", -1: "ls-worse"}[(_gain(case) > 0) - (_gain(case) < 0)]
    linked = f'<a href="{address}">{safe_text(question or case.query_id)}</a>'
    return (
        f'<li class="{kind}"><p class="ls-question" dir="auto">{linked}</p>{answered}'
        f'<div class="ls-sides">{_side_html(results, case.a, case.rank_a, case.top_a)}'
        f"{_side_html(results, case.b, case.rank_b, case.top_b)}</div></li>"
    )


def _side_html(results: Results, pipeline: str, rank: int | None, top: Top | None) -> str:
    if rank is not None:
        found = f"right at rank {rank:,}"
    else:
        found = "nothing right" + (f" among {results.depth:,}" if results.depth else "")
    first = ""
    if top is not None:
        mark = {
            True: '<span class="ls-right">✓ right</span> ',
            False: '<span class="ls-wrong">✗ wrong</span> ',
        }
        first = (
            f'<p class="ls-top">{mark.get(top.right, "") if top.right is not None else ""}'
            f"<b><bdi>{safe_text(text.clean(top.title))}</bdi></b></p>"
            f'<p class="ls-text" dir="auto">{safe_text(text.clean(text.excerpt(top.text, _TEXT)))}</p>'
        )
    return f'<div><p class="ls-found-at"><b><bdi>{safe_text(pipeline)}</bdi></b> {found}</p>{first}</div>'


def _gain(case: Difference) -> float:
    return (1 / case.rank_b if case.rank_b else 0.0) - (1 / case.rank_a if case.rank_a else 0.0)
