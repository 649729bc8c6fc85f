"""Where things stand in a chart: ticks, labels that keep their distance, names cut to a width."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers, at most `most`, from at or below `low` to at or above `high`: 0, 10, 20, 30."""
    if not high > low:
        high = low + (abs(low) or 1.0)
    power = math.floor(math.log10((high - low) / most))
    for step in (10.0**exponent * digit for exponent in (power, power + 1) for digit in (1, 2, 5)):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            break
    return [round(step * number, 12) for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20, ... from `low` to `high`, both ends included; they are at least 1."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    between = [10.0**power * digit for power in powers for digit in (1, 2, 5)]
    return sorted({low, high, *(tick for tick in between if low < tick < high)})


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least `gap` apart between `low` and `high`, as near as can be to those wanted.

    The order stays; the sum of squared shifts is the least possible. With the gaps taken out this is
    isotonic regression, solved by pooling neighbours that are in the wrong order (Barlow et al. 1972,
    "Statistical Inference under Order Restrictions", section 1.2). Too many for the room share it
    evenly.
    """
    n = len(wanted)
    if n > 1:
        gap = min(gap, (high - low) / (n - 1))
    order = sorted(range(n), key=lambda i: wanted[i])
    pools: list[tuple[float, int]] = []  # (mean, how many)
    for place, i in enumerate(order):
        mean, size = wanted[i] - place * gap, 1
        while pools and pools[-1][0] >= mean:
            before, more = pools.pop()
            mean, size = (mean * size + before * more) / (size + more), size + more
        pools.append((mean, size))
    level = [mean for mean, size in pools for _ in range(size)]
    places = [0.0] * n
    for place, i in enumerate(order):
        places[i] = min(max(level[place], low), high - (n - 1) * gap) + place * gap
    return places


# Of the widest common faces (DejaVu Sans, Verdana): a label must fit with any.
_NARROW = frozenset("iljtfrI.,:;|!'`()[]{}-/ ")
_WIDE = frozenset("mwMW@%")


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a sans-serif face of this size; rather more than less."""
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.4
    if character in _WIDE:
        return 0.98
    return 0.72 if character.isupper() else 0.63


def shorten(text: str, width: float, size: float) -> str:
    """The text, or as much of its beginning and end as fits: names of models differ at their ends."""
    if text_width(text, size) <= width:
        return text
    for kept in range(len(text) - 1, 1, -1):
        short = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if text_width(short, size) <= width:
            return short
    return f"{text[:1]}…"


def wrap(text: str, width: float, size: float) -> list[str]:
    """The text in lines of at most this width; a longer word has a line of its own."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
