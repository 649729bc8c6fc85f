"""Horizontal bars with whiskers, one below the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.report.scales import nice_ticks, shorten, text_width
from app.report.svg import (
    WIDE,
    Drawing,
    Size,
    at,
    colour,
    element,
    image,
    paragraph,
    path,
    title,
    words,
)
from app.report.text import clean

_MOST_OF_WIDTH = 0.3  # for names at the left


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from zero to a value of at least zero, a whisker from there to `high`, the value as text."""

    name: str
    value: float
    high: float | None
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bars in their order, at least one. format_x: a tick as text."""

    bars: tuple[Bar, ...]
    x_title: str
    format_x: Callable[[float], str]

    def draw(self, size: Size, alternative: str) -> Drawing:
        """The chart at this size: names beside the bars, or above them where the page is narrow."""
        font = size.font
        names = [clean(bar.name) for bar in self.bars]
        above = size.width < WIDE.width
        room = size.width
        if not above:
            room = min(max(text_width(name, font) for name in names), _MOST_OF_WIDTH * size.width)
        left = 0.0 if above else room + 12
        right = size.width - max(text_width(bar.text, font) for bar in self.bars) - 10
        ticks = nice_ticks(0.0, max(max(bar.value, bar.high or 0.0) for bar in self.bars), 5)
        scale = (right - left) / ticks[-1]
        row = (3.4 if above else 2.1) * font
        bottom = row * len(self.bars) + 4
        parts = []
        for number, tick in enumerate(ticks):
            x = left + tick * scale
            parts.append(path("grid" if number else "base", f"M{at(x)} 0V{at(bottom)}"))
            anchor = "middle" if number or not above else ""
            parts.append(words(self.format_x(tick), x, bottom + font, font, anchor=anchor))
        for number, (bar, name) in enumerate(zip(self.bars, names, strict=True)):
            middle = row * number + (row - 0.9 * font if above else row / 2 + 2)
            name_y = middle - 1.5 * font if above else middle
            drawn = [
                title(bar.title),
                words(shorten(name, room, font), 0, name_y, font, "name"),
                _bar(number, bar, left, middle, scale, font),
            ]
            parts.append(element("g", {}, "".join(drawn)))
        drawn_title, end = paragraph(self.x_title, left, bottom + 2.6 * font, size.width - left, font)
        parts.append(drawn_title)
        return Drawing(image(size.width, end, "".join(parts), "chart", alternative))


def _bar(number: int, bar: Bar, left: float, middle: float, scale: float, font: float) -> str:
    length, half = bar.value * scale, 0.45 * font
    box = {"x": at(left), "y": at(middle - half), "width": at(length), "height": at(2 * half)}
    drawn = element("rect", {"class": f"bar {colour(number)}"} | box)
    end = left + length
    if bar.high is not None and bar.high > bar.value:
        begin, end = end, left + bar.high * scale
        steps = f"M{at(begin)} {at(middle)}H{at(end)}m0 {at(-half)}v{at(2 * half)}"
        drawn += path(f"whisker {colour(number)}", steps)
    return drawn + words(bar.text, end + 6, middle, font)
