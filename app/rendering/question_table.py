"""The questions of a report: a table and a scatter of two pipelines by one measure, and kinds."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from linkseek.app.context.known_questions import Ground
from linkseek.app.evaluation.by_question import (
    CHANGE,
    QUESTION,
    SHOWN,
    QuestionRow,
    compare_questions,
    sort_questions,
)
from linkseek.app.evaluation.results import Results
from linkseek.app.rendering.addresses import COUNTS, DEFAULT_COUNT, EvaluationView, SearchView, table_of
from linkseek.app.rendering.html_templates import render
from linkseek.app.report import text

PAGE = 100
"""The number of questions on a page."""
_MAX_ANSWERS = 4


def fitting(view: EvaluationView, results: Results) -> EvaluationView:
    """The view with a measure, a pair and an order that the results have; the baseline and another first."""
    measure = view.measure if view.measure in results.measures else results.main_measure
    names = list(results.scores(measure))
    first = results.baseline if results.baseline in names else names[0]
    second = next((name for name in names if name != first), first)
    pair = view.pair if set(view.pair) <= {*names} else (first, second)
    sort = view.sort if view.sort.removeprefix("-") in (QUESTION, CHANGE, *names) else ""
    shown = view.shown if view.shown in SHOWN else next(iter(SHOWN))
    kind = view.kind if view.kind in question_kinds(results) else ""
    return replace(view, measure=measure, pair=pair, shown=shown, sort=sort, kind=kind)


def questions_html(results: Results, view: EvaluationView, index: str, search: str, note: str = "") -> str:
    """One page of the table. view: as `fitting` returns it. search: the index that questions lead to."""
    a, b = view.pair
    rows = table_rows(results, view)
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
        counts=_counts(results, view) if view.kind or view.words else None,
        first=first,
        heads=[_head(view, name, index) for name in columns],
        max_answers=_MAX_ANSWERS,
        note=note,
        others=others,
        pages=pages,
        pair=pair,
        measured=measured_text(view.measure, results.judged_level),
        rows=[(row, search_address(row.text, view, search)) for row in rows[first - 1 : first - 1 + PAGE]],
        shown_of=len(rows),
        value=partial(figure, view.measure),
        view=view,
    )


def _head(view: EvaluationView, name: str, index: str) -> dict[str, str]:
    """Values and differences are sorted from the largest at first; a second click turns the order around."""
    starts = name if name == QUESTION else f"-{name}"
    turned = {name: f"-{name}", f"-{name}": name}.get(view.sort, starts)
    address = replace(view, sort=turned, first=1).address(index)
    now = {name: "ascending", f"-{name}": "descending"}.get(view.sort, "")
    return {"name": name, "address": address, "sorted": now}


def table_rows(results: Results, view: EvaluationView) -> list[QuestionRow]:
    """The questions of a table in its order. view: as `fitting` returns it."""
    kind = question_kinds(results)[view.kind].query_ids if view.kind else None
    rows = compare_questions(results, *view.pair, view.measure, view.shown, kind, view.words)
    return sort_questions(rows, view.sort.removeprefix("-"), descending=view.sort.startswith("-"))


def search_address(question: str, view: EvaluationView, index: str, **values: Any) -> str:
    """The answers to a question of a table, at least as many as its measure reads; empty without a text.

    values: values of the search, instead of those that follow from the table.
    """
    question = text.clean(question)
    if not question:
        return ""
    cutoff = (
        int(view.measure.rpartition("@")[2]) if re.fullmatch(r".*@\d{1,6}", view.measure) else DEFAULT_COUNT
    )
    k = next((count for count in COUNTS if count >= max(cutoff, DEFAULT_COUNT)), COUNTS[-1])
    search = SearchView(question, tuple(dict.fromkeys(view.pair)), k, table=table_of(view))
    return replace(search, **values).address(index)


def question_scatter(results: Results, view: EvaluationView, search: str) -> str:
    """The scatter of a table's pair as SVG, with all questions of its kind; empty without questions."""
    rows = sort_questions(table_rows(results, replace(view, shown="all")), "", descending=False)
    addresses = {row.id: search_address(row.text, view, search) for row in rows}
    return scatter_html(rows, view.pair, view.measure, view.shown, addresses)


def _counts(results: Results, view: EvaluationView) -> dict[str, Any]:
    rows = table_rows(results, replace(view, shown="all"))
    a, b = view.pair
    return {
        "label": question_kinds(results)[view.kind].label if view.kind else "",
        "questions": len(rows),
        "better": sum(row.change > 0 for row in rows),
        "worse": sum(row.change < 0 for row in rows),
        "means": [
            (name, text.with_unit(view.measure, sum(row.values[name] for row in rows) / len(rows)))
            for name in dict.fromkeys((b, a))
            if rows
        ],
    }


def ground_of(measure: str) -> Ground:
    """What a measure counts as relevant."""
    return "answers" if measure.startswith("accuracy@") else "judgements"


def measured_text(measure: str, level: str | None = None) -> str:
    """A measure and what it counts. level: what is judged, passages or documents."""
    if ground_of(measure) == "answers":
        return f"{measure}, which counts passages with an answer"
    return f"{measure}, which counts {level or 'results'} judged relevant"


def figure(measure: str, number: float) -> str:
    """The value of one question; 1 or 0 if the measure is a share of questions."""
    return f"{number:g}" if text.in_percent(measure) else text.decimals(number)


_PROPERTIES = {
    "overlap": "question's words in the passage",
    "length": "words of the question",
    "title": "title's words in the question",
    "links": "links to the article",
}
"""The analyses by a number, in the order of the report's charts."""


class QuestionGroup(NamedTuple):
    """Questions of one kind. label: for people."""

    label: str
    query_ids: frozenset[str]


def question_kinds(results: Results) -> dict[str, QuestionGroup]:
    """Name in addresses -> kind, without the empty ones."""
    return {name: kind for name, kind in _kinds(results) if kind.query_ids}


def _kinds(results: Results) -> Iterator[tuple[str, QuestionGroup]]:
    for name, group in (results.analyses.groups or {}).items():
        yield f"group {text.clean(name)}", QuestionGroup(name, frozenset(group.query_ids))
    for name, property_ in _PROPERTIES.items():
        binned = getattr(results.analyses, name)
        if binned is None:
            continue
        unit = " %" if text.is_share(binned) else ""
        for ends, bin_ in zip(text.bin_ends(binned), binned.bins, strict=True):
            kind = QuestionGroup(f"{property_}: {ends}{unit}", frozenset(bin_.query_ids))
            yield f"{name} {ends}", kind


MAX_POINTS = 2_000

_SIZE, _PATCH = 300, 46  # of the square that values span, and the radius of the largest patch
_MARGIN = _PATCH + 8  # of the frame around the square: no point crosses it
_STEP, _RADIUS = 6.5, 3.2  # between neighbours, and of a point; smaller where a patch would be too large
_CELL = 2.0  # points that are nearer than this have one place
_GOLDEN = math.pi * (3 - math.sqrt(5))


class Point(NamedTuple):
    """A question at its place. faint: not among those in the table."""

    x: float
    y: float
    row: QuestionRow
    faint: bool


def scatter_html(
    rows: Sequence[QuestionRow], pair: tuple[str, str], measure: str, shown: str, addresses: Mapping[str, str]
) -> str:
    """The scatter as SVG: a point for each question, at the values of two pipelines; empty without both.

    Values often coincide, accuracies always: points at the same place are arranged in a spiral around it
    (Vogel 1979, "A better way to construct the sunflower head"), so that the area of a patch shows their
    number. rows: the largest change first, where there are more than `MAX_POINTS`. shown: the questions in
    the table. addresses: question id -> the address of its answers; empty where its text is unknown.
    """
    a, b = pair
    if a == b or not rows:
        return ""
    drawn = rows[:MAX_POINTS]
    values = [row.values[name] for row in drawn for name in pair]
    low, high = min(0.0, *values), max(1.0, *values)
    points, radius = _points(drawn, pair, shown, low, high)
    return render(
        "scatter.html",
        addresses=addresses,
        a=a,
        b=b,
        measure=measure,
        missing=len(rows) - len(drawn),
        patch=_MARGIN,
        points=points,
        radius=radius,
        size=_SIZE,
        ticks=[(_SIZE * share, f"{low + (high - low) * share:.3g}") for share in (0.0, 0.5, 1.0)],
        value=partial(figure, measure),
    )


def _points(
    rows: Sequence[QuestionRow], pair: tuple[str, str], shown: str, low: float, high: float
) -> tuple[list[Point], float]:
    """The points from the lower left corner on, y upwards, and their radius."""
    places: dict[tuple[int, int], list[QuestionRow]] = defaultdict(list)
    for row in rows:
        x, y = (_SIZE * (row.values[name] - low) / (high - low) for name in pair)
        places[round(x / _CELL), round(y / _CELL)].append(row)
    largest = max(map(len, places.values()))
    step = min(_STEP, _PATCH / math.sqrt(largest))
    points = []
    for (column, line), here in places.items():
        for number, row in enumerate(here):
            distance, angle = step * math.sqrt(number), number * _GOLDEN
            x, y = column * _CELL + distance * math.cos(angle), line * _CELL + distance * math.sin(angle)
            faint = not SHOWN[shown](*(row.values[name] for name in pair))
            points.append(Point(round(x, 1), round(y, 1), row, faint))
    return points, round(_RADIUS * step / _STEP, 1)
