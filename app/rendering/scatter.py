"""The scatter of a report: a point for each question, at the values of two pipelines.

Values often coincide, accuracies always: points at the same place are arranged in a spiral around it (Vogel
1979, "A better way to construct the sunflower head"), so that the area of a patch shows their number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from linkseek.app.evaluation.by_question import SHOWN, Row
from linkseek.app.rendering.html_templates import render
from linkseek.app.report import text

MAX_POINTS = 2_000

_SIZE, _PATCH = 300, 46  # of the square that values span, and the radius of the largest patch
_MARGIN = _PATCH + 8  # of the frame around the square: no point crosses it
_STEP, _RADIUS = 6.5, 3.2  # between neighbours, and of a point; smaller where a patch would be too large
_CELL = 2.0  # points that are nearer than this have one place
_GOLDEN = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True, slots=True)
class Point:
    """A question at its place. change: of the second pipeline; faint: not among those in the table."""

    x: float
    y: float
    row: Row
    change: float
    faint: bool


def scatter_html(
    rows: Sequence[Row], pair: tuple[str, str], measure: str, shown: str, addresses: Mapping[str, str]
) -> str:
    """The scatter as SVG; empty without two pipelines and a question.

    rows: the largest change first, where there are more than `MAX_POINTS`. shown: those that the table has.
    addresses: question id -> the address of its answers; empty where its text is unknown.
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
        value=lambda number: text.decimals(number) if not text.in_percent(measure) else f"{number:g}",
    )


def _points(
    rows: Sequence[Row], pair: tuple[str, str], shown: str, low: float, high: float
) -> tuple[list[Point], float]:
    """The points from the lower left corner on, y upwards, and their radius."""
    places: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        x, y = (_SIZE * (row.values[name] - low) / (high - low) for name in pair)
        places[round(x / _CELL), round(y / _CELL)].append(row)
    largest = max(map(len, places.values()))
    step = min(_STEP, _PATCH / math.sqrt(largest))
    points = []
    for (column, line), here in places.items():
        for number, row in enumerate(here):
            distance, angle = step * math.sqrt(number), number * _GOLDEN
            values = [row.values[name] for name in pair]
            points.append(
                Point(
                    round(column * _CELL + distance * math.cos(angle), 1),
                    round(line * _CELL + distance * math.sin(angle), 1),
                    row,
                    row.change,
                    faint=not SHOWN[shown](values[0], values[1]),
                )
            )
    return points, round(_RADIUS * step / _STEP, 1)
