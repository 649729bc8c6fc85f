"""SVG elements of charts, and the look of a series: its colour, dash and marker.

Each of the three alone tells series apart. Colours and dashes are classes of `report.css`. The same values
always give the same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from app.report.scales import wrap
from app.report.text import clean


@dataclass(frozen=True, slots=True)
class Size:
    """Width in units of the drawing, height of the part with the data, and the size of its letters.

    A chart is drawn once for each size of page, so that its letters are as large on a telephone as on a
    screen.
    """

    width: float
    height: float
    font: float


LINE = 1.35  # height of a line of text, in the size of its letters
WIDE = Size(880, 300, 13)
NARROW = Size(360, 230, 12)


@dataclass(frozen=True, slots=True)
class Drawing:
    """An <svg>, and the full names of its series if some did not fit."""

    svg: str
    legend: tuple[str, ...] = ()


def element(tag: str, attributes: dict[str, str], content: str = "") -> str:
    """An element. content: markup."""
    written = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{written}>{content}</{tag}>"


def at(value: float) -> str:
    """A coordinate with at most one decimal: 12, 12.5."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def image(width: float, height: float, content: str, kind: str, alternative: str = "") -> str:
    """An <svg> that says what it shows, or is passed over if it says nothing."""
    role = {"role": "img", "aria-label": clean(alternative)} if alternative else {"aria-hidden": "true"}
    box = {"viewBox": f"0 0 {at(width)} {at(height)}", "width": at(width), "height": at(height)}
    return element("svg", {"class": kind} | role | box, content)


def path(kind: str, steps: str) -> str:
    """A path of a kind that `report.css` knows."""
    return element("path", {"class": kind, "d": steps})


def words(text: str, x: float, y: float, font: float, kind: str = "axis", *, anchor: str = "") -> str:
    """A text, its middle line at y. anchor: "middle" or "end" of it at x, otherwise its start."""
    attributes = {"class": kind, "x": at(x), "y": at(y + 0.35 * font), "font-size": at(font)}
    return element("text", attributes | ({"text-anchor": anchor} if anchor else {}), escape(clean(text)))


def paragraph(text: str, x: float, y: float, width: float, font: float) -> tuple[str, float]:
    """A text in lines of at most this width, and where it ends; y: the middle of its first line."""
    lines = wrap(clean(text), width, font)
    drawn = [words(line, x, y + number * LINE * font, font) for number, line in enumerate(lines)]
    return "".join(drawn), y + (len(lines) - 0.5) * LINE * font


def title(text: str) -> str:
    """What is shown when an element is pointed at."""
    return element("title", {}, escape(clean(text)))


# --- the look of a series --------------------------------------------------------------------------

_COLOURS = 6
_DASHES = 4
_T = 1 / 3
_SHAPES: tuple[tuple[tuple[float, float], ...], ...] = (
    (),  # a circle
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    ((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
    # a cross
    (
        *((-_T, -1.2), (_T, -1.2), (_T, -_T), (1.2, -_T), (1.2, _T), (_T, _T)),
        *((_T, 1.2), (-_T, 1.2), (-_T, _T), (-1.2, _T), (-1.2, -_T), (-_T, -_T)),
    ),
)


def colour(number: int) -> str:
    """The class of a series' colour."""
    return f"c{number % _COLOURS}"


def line_class(number: int) -> str:
    """The classes of a series' line."""
    # One further after twelve series, when colours, markers and dashes would begin again together.
    return f"line {colour(number)} dash{(number + number // 12) % _DASHES}"


def marker(number: int, x: float, y: float, radius: float = 4) -> str:
    """The marker of a series; hollow in the second round through the shapes."""
    hollow = " hollow" if number // len(_SHAPES) % 2 else ""
    attributes = {"class": f"marker {colour(number)}{hollow}"}
    corners = _SHAPES[number % len(_SHAPES)]
    if not corners:
        return element("circle", attributes | {"cx": at(x), "cy": at(y), "r": at(radius)})
    places = " ".join(f"{at(x + radius * dx)},{at(y + radius * dy)}" for dx, dy in corners)
    return element("polygon", attributes | {"points": places})


def swatch(number: int) -> str:
    """A piece of a series' line, for a legend."""
    return image(30, 14, path(line_class(number), "M1 7H29") + marker(number, 15, 7), "swatch")
