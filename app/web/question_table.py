"""The table of all questions of a report, by one measure, with two of its pipelines compared."""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkseek.app.evaluation.by_question import (
    CHANGE,
    QUESTION,
    SHOWN,
    Row,
    compare_questions,
    sort_questions,
)
from linkseek.app.evaluation.results import Results
from linkseek.app.report import text
from linkseek.app.web.addresses import EvaluationView, SearchView
from linkseek.app.web.rendering import render

PAGE = 100
"""Questions on a page."""
_MAX_ANSWERS = 4


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column: its name, the address that sorts by it, and how it is sorted now, if it is."""

    name: str
    address: str
    sorted: str


def fitting(view: EvaluationView, results: Results) -> EvaluationView:
    """The view with a measure, a pair and an order that the results have; the baseline and another first."""
    measure = view.measure if view.measure in results.measures else results.main_measure
    names = list(results.scores(measure))
    first = results.baseline if results.baseline in names else names[0]
    second = next((name for name in names if name != first), first)
    pair = view.pair if set(view.pair) <= {*names} else (first, second)
    sort = view.sort if view.sort.removeprefix("-") in (QUESTION, CHANGE, *names) else ""
    shown = view.shown if view.shown in SHOWN else next(iter(SHOWN))
    return replace(view, measure=measure, pair=pair, shown=shown, sort=sort)


def questions_html(results: Results, view: EvaluationView, index: str, search: str, note: str = "") -> str:
    """One page of the table. view: as `fitting` returns it. search: the index that questions lead to."""
    a, b = view.pair
    rows = compare_questions(results, a, b, view.measure, view.shown)
    rows = sort_questions(rows, view.sort.removeprefix("-"), descending=view.sort.startswith("-"))
    first = view.first if view.first <= len(rows) else 1
    pages = [
        (name, replace(view, first=start).address(index))
        for name, start in (("Earlier", max(first - PAGE, 1)), ("Later", first + PAGE))
        if start != first and start <= len(rows)
    ]
    pair = list(dict.fromkeys(view.pair))
    others = [name for name in results.scores(view.measure) if name not in pair]
    columns = [QUESTION, *pair, *([CHANGE] if a != b else []), *others]
    return render(
        "questions.html",
        comparison=results.comparison(a, b, view.measure),
        first=first,
        heads=[_head(view, name, index) for name in columns],
        max_answers=_MAX_ANSWERS,
        note=note,
        others=others,
        pages=pages,
        pair=pair,
        rows=[(row, _search(row, view.pair, search)) for row in rows[first - 1 : first - 1 + PAGE]],
        shown_of=len(rows),
        value=lambda number: _value(view.measure, number),
        view=view,
    )


def _head(view: EvaluationView, name: str, index: str) -> Head:
    """Values and differences are sorted from the largest at first; a second click turns the order around."""
    starts = name if name == QUESTION else f"-{name}"
    turned = {name: f"-{name}", f"-{name}": name}.get(view.sort, starts)
    address = replace(view, sort=turned, first=1).address(index)
    return Head(name, address, {name: "ascending", f"-{name}": "descending"}.get(view.sort, ""))


def _search(row: Row, pair: tuple[str, str], index: str) -> str:
    question = text.clean(row.text)
    return SearchView(question, tuple(dict.fromkeys(pair))).address(index) if question else ""


def _value(measure: str, number: float) -> str:
    """The value of one question: 1 or 0 of what is a share of questions."""
    return f"{number:g}" if text.in_percent(measure) else text.decimals(number)
