"""Lines over numbers on a logarithmic scale, or over categories with whiskers; names at their ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.report.scales import log_ticks, nice_ticks, shorten, spread, text_width
from app.report.svg import (
    LINE,
    WIDE,
    Drawing,
    Size,
    at,
    colour,
    element,
    image,
    line_class,
    marker,
    paragraph,
    path,
    title,
    words,
)
from app.report.text import clean

_MOST_OF_WIDTH = 0.26  # for names at the right
_TO_MARKER, _TO_NAME = 26, 40  # from the end of the axis


@dataclass(frozen=True, slots=True)
class Point:
    """A value at x, with the interval that its whisker shows, and what is said when it is pointed at."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A line through `line`, which None interrupts, with markers at some of its points."""

    name: str
    line: tuple[Point | None, ...]
    marked: tuple[Point, ...]

    @property
    def points(self) -> list[Point]:
        """The points of the line; at least one."""
        return [point for point in self.line if point is not None]


@dataclass(frozen=True, slots=True)
class LineChart:
    """Series of at least one point each.

    format_y: a tick as text. categories: name and second line of x = 0, 1, 2, ...; without them x is a
    number from 1 on.
    """

    series: tuple[Series, ...]
    x_title: str
    y_title: str
    format_y: Callable[[float], str]
    categories: tuple[tuple[str, str], ...] = ()

    def draw(self, size: Size, alternative: str) -> Drawing:
        """The chart at this size. alternative: what it shows, for those who do not see it."""
        names = [clean(series.name) for series in self.series]
        room = min(max(text_width(name, size.font) for name in names), _MOST_OF_WIDTH * size.width)
        short = [shorten(name, room, size.font) for name in names]
        # Where there is no room for whole names a legend has them; a narrow chart then has no others.
        labelled = short == names or size.width >= WIDE.width
        frame = frame_of(self, size, size.width - (room + _TO_NAME if labelled else 0.7 * size.font))
        shifts = self._shifts(frame)
        axis, height = _x_axis(self, frame, size)
        parts = [_y_axis(self, frame, size), axis]
        parts += [_series(*each, frame) for each in zip(range(len(shifts)), self.series, shifts, strict=True)]
        if labelled:
            parts += _names(self, short, shifts, frame, size.font)
        svg = image(size.width, height, "".join(parts), "chart", alternative)
        return Drawing(svg, tuple(names) if short != names else ())

    def _shifts(self, frame: Frame) -> list[float]:
        """How far beside the middle of a category each series stands, for whiskers to be told apart."""
        n = len(self.series)
        if not self.categories:
            return [0.0] * n
        step = min(12.0, 0.8 * (frame.right - frame.left) / len(self.categories) / n)
        return [(number - (n - 1) / 2) * step for number in range(n)]


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the data lie in a chart: values to places."""

    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float]
    y_ticks: tuple[float, ...]
    log: bool

    def x(self, value: float) -> float:
        """The place of a value from left to right."""
        low, high, value = map(math.log, (*self.x_range, value)) if self.log else (*self.x_range, value)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """The place of a value from top to bottom."""
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)


def frame_of(chart: LineChart, size: Size, right: float) -> Frame:
    """The frame for all values of a chart; from zero on unless they are far from it."""
    points = [point for series in chart.series for point in series.points]
    values = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
    low, high = min(values), max(values)
    ticks = nice_ticks(0.0 if 0 <= low <= high / 2 else low, high)
    xs = [point.x for point in points]
    top = 2.2 * size.font
    return Frame(
        left=8 + max(text_width(chart.format_y(tick), size.font) for tick in ticks),
        right=right,
        top=top,
        bottom=top + max(size.height, len(chart.series) * LINE * size.font),
        x_range=(-0.5, len(chart.categories) - 0.5) if chart.categories else (min(xs), max(xs)),
        y_ticks=tuple(ticks),
        log=not chart.categories,
    )


def _series(number: int, series: Series, shift: float, frame: Frame) -> str:
    steps, move = [], "M"
    for point in series.line:
        if point is not None:
            steps.append(f"{move}{at(frame.x(point.x) + shift)} {at(frame.y(point.y))}")
        move = "M" if point is None else "L"
    parts = [path(line_class(number), "".join(steps))]
    for point in series.marked:
        x, y = frame.x(point.x) + shift, frame.y(point.y)
        whisker = ""
        if point.low is not None and point.high is not None:
            low, high = at(frame.y(point.low)), at(frame.y(point.high))
            side = at(x - 3)
            whisker = path(
                f"whisker {colour(number)}", f"M{at(x)} {low}V{high}M{side} {high}h6M{side} {low}h6"
            )
        target = element("circle", {"class": "target", "cx": at(x), "cy": at(y), "r": "9"})
        parts.append(element("g", {}, title(point.title) + whisker + target + marker(number, x, y)))
    return element("g", {}, "".join(parts))


def _names(
    chart: LineChart, names: Sequence[str], shifts: Sequence[float], frame: Frame, font: float
) -> list[str]:
    """The names at the ends of their lines, kept apart, each with a line to its last point."""
    last = [series.points[-1] for series in chart.series]
    ends = [(frame.x(p.x) + shift, frame.y(p.y)) for p, shift in zip(last, shifts, strict=True)]
    places = spread([y for _, y in ends], LINE * font, frame.top, frame.bottom)
    drawn = []
    for number, ((x, y), place, name) in enumerate(zip(ends, places, names, strict=True)):
        steps = f"M{at(x + 6)} {at(y)}L{at(frame.right + _TO_MARKER - 8)} {at(place)}"
        drawn += [
            path(f"leader {colour(number)}", steps),
            marker(number, frame.right + _TO_MARKER, place),
            words(name, frame.right + _TO_NAME, place, font, "name"),
        ]
    return drawn


def _y_axis(chart: LineChart, frame: Frame, size: Size) -> str:
    parts = [words(chart.y_title, 0, 0.7 * size.font, size.font)]
    for number, tick in enumerate(frame.y_ticks):
        y = frame.y(tick)
        parts.append(path("grid" if number else "base", f"M{at(frame.left)} {at(y)}H{at(frame.right)}"))
        parts.append(words(chart.format_y(tick), frame.left - 8, y, size.font, anchor="end"))
    return "".join(parts)


def _x_axis(chart: LineChart, frame: Frame, size: Size) -> tuple[str, float]:
    """The axis, and where the drawing ends below it."""
    font, below = size.font, frame.bottom + 1.2 * size.font
    parts = []
    if chart.categories:
        for number, (name, more) in enumerate(chart.categories):
            parts.append(words(name, frame.x(number), below, font, anchor="middle"))
            parts.append(words(more, frame.x(number), below + LINE * font, 0.9 * font, anchor="middle"))
        below += LINE * font
    else:
        ticks = log_ticks(*frame.x_range)
        for tick in ticks:
            parts.append(path("base", f"M{at(frame.x(tick))} {at(frame.bottom)}v4"))
        for tick in _with_room(ticks, frame, font):
            parts.append(words(f"{tick:,g}", frame.x(tick), below, font, anchor="middle"))
    below += 1.6 * font
    drawn, end = paragraph(chart.x_title, frame.left, below, size.width - frame.left, font)
    return "".join([*parts, drawn]), end


def _with_room(ticks: Sequence[float], frame: Frame, font: float) -> list[float]:
    """The ticks whose labels do not touch; the last one has its label in any case."""
    kept: list[float] = []
    left = math.inf
    for tick in reversed(ticks):
        half = text_width(f"{tick:,g}", font) / 2 + 3
        if frame.x(tick) + half <= left:
            kept.append(tick)
            left = frame.x(tick) - half
    return kept[::-1]
