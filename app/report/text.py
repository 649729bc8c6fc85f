"""Numbers and foreign texts as a report shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from linkseek.app.evaluation.own_measures import OWN
from linkseek.app.evaluation.results import Binned
from linkseek.indexer.program.text import harmless

MINUS = "\N{MINUS SIGN}"
NOTHING = "-"

_LONG_WORD = 30  # characters
_BAR = 31  # characters

_MEANINGS = {
    "nDCG": "the gain of the first K results, discounted by rank, as a share of the best possible",
    "MRR": "one divided by the rank of the first relevant result; 0 if none is among the first K",
    "R": "the share of the relevant results that are among the first K",
    "P": "the share of the first K results that are relevant",
    "Success": "the share of questions with a relevant result among the first K",
    "AP": "the mean precision at the ranks of relevant results",
}


def clean(text: str) -> str:
    """A harmless text with its white space as single spaces, as a browser shows it."""
    return " ".join(harmless(text).split())


def excerpt(text: str, length: int) -> str:
    """The beginning of a text that was cut at this length, up to its last whole word, unless that is long.

    Not every language has blanks between words.
    """
    space = text.rfind(" ", max(length - _LONG_WORD, 1), length)
    return text if len(text) < length else f"{text[: space if space > 0 else length]} …"


def in_percent(measure: str) -> bool:
    """Whether a measure is written in percent, as most own measures are."""
    own = OWN.get(measure.partition("@")[0])
    return bool(own and own.percent)


def label(measure: str) -> str:
    """A measure as the head of a column."""
    return f"{measure} %" if in_percent(measure) else measure


def decimals(value: float, places: int = 3) -> str:
    """A number without its leading zero: .762, −.034, 1.000."""
    text = f"{abs(value):.{places}f}"
    sign = MINUS if value < 0 and float(text) else ""
    return sign + text.removeprefix("0")


def value(measure: str, number: float) -> str:
    """A measure's value: 28.5 for an accuracy of .285, else .762."""
    return f"{number * 100:.1f}" if in_percent(measure) else decimals(number)


def with_unit(measure: str, number: float) -> str:
    """28.5 % for an accuracy of .285, else .762."""
    return value(measure, number) + (" %" if in_percent(measure) else "")


def interval(measure: str, low: float | None, high: float | None) -> str:
    """The ends of an interval: 24.5–32.5; empty where unknown."""
    return "" if low is None or high is None else f"{value(measure, low)}–{value(measure, high)}"


def bar(low: float, mean: float, high: float) -> str:
    """A value and its interval on an axis from 0 to 1; empty beyond it."""
    places = [round(share * (_BAR - 1)) for share in (low, mean, high)]
    if not 0 <= min(places) <= max(places) < _BAR:
        return ""
    drawn = ["\N{MIDDLE DOT}"] * _BAR
    drawn[places[0] : places[2] + 1] = ["\N{BOX DRAWINGS HEAVY HORIZONTAL}"] * (places[2] - places[0] + 1)
    drawn[places[1]] = "\N{BLACK CIRCLE}"
    return "".join(drawn)


def difference(measure: str, number: float) -> str:
    """A difference with its sign; of accuracies in percentage points."""
    text = f"{abs(number) * 100:.1f}" if in_percent(measure) else decimals(abs(number))
    if not float(text):
        return text
    return (MINUS if number < 0 else "+") + text


def distance(measure: str, number: float) -> str:
    """A difference without its sign: 4.5 percentage points, .034."""
    return difference(measure, abs(number)).lstrip("+") + (
        " percentage points" if in_percent(measure) else ""
    )


def difference_interval(measure: str, low: float, high: float) -> str:
    """The ends of the interval of a difference: +1.0 to +8.0."""
    return f"{difference(measure, low)} to {difference(measure, high)}"


def probability(p: float) -> str:
    """A p-value with three decimals: .032, < .001."""
    return "< .001" if p < 0.001 else decimals(p)


def p_equals(p: float) -> str:
    """A p-value in words, for templates: p = .032 or p < .001."""
    return f"p {probability(p)}" if p < 0.001 else f"p = {probability(p)}"


def milliseconds(seconds: float) -> str:
    """Three significant digits or whole milliseconds: 0.84, 12.3, 1,240."""
    ms = seconds * 1000
    if ms <= 0:
        return "0"
    places = max(0, min(3, 2 - math.floor(math.log10(ms))))
    return f"{ms:,.{places}f}"


def day(date: str) -> str:
    """An ISO date and time for people; any other text as it is."""
    try:
        time = datetime.fromisoformat(date)
    except ValueError:
        return date
    zone = " UTC" if time.utcoffset() is not None and not time.utcoffset() else ""
    return f"{time.day} {time:%B %Y, %H:%M}{zone}"


def moment(seconds: float) -> str:
    """Seconds since 1970 as `day` writes them; empty where no calendar goes so far."""
    try:
        return day(datetime.fromtimestamp(seconds, UTC).isoformat())
    except (ValueError, OverflowError, OSError):
        return ""


def meanings(measures: Sequence[str], *, cutoff: bool = False) -> list[tuple[str, str]]:
    """The meanings of measures: (accuracy@K, the share of ...), once for all cutoffs, or for each."""
    meant: dict[str, str] = {}
    for measure in measures:
        written, _, k = measure.partition("@")
        own, name = OWN.get(written), written.partition("(")[0]
        meaning = own.meaning if own else _MEANINGS.get(name)
        if meaning is None:
            continue
        if cutoff:
            meant[measure] = meaning.replace("K", k or "K")
        else:
            meant.setdefault(f"{name}@K" if "K" in meaning else name, meaning)
    return list(meant.items())


def is_share(binned: Binned) -> bool:
    """Whether the ends of bins are shares, which are written in percent."""
    return any(isinstance(end, float) for bin_ in binned.bins for end in (bin_.low, bin_.high))


def bin_ends(binned: Binned) -> list[str]:
    """The ends of each bin: 0–20, 4–12, 3."""
    factor = 100 if is_share(binned) else 1
    ends = [(round(bin_.low * factor, 6), round(bin_.high * factor, 6)) for bin_ in binned.bins]
    return [f"{low:g}" if low == high else f"{low:g}–{high:g}" for low, high in ends]


def facts(value: Any) -> str:
    """A value from provenance on one line: docs.jsonl, SHA-256 ccc, documents 4,598."""
    if isinstance(value, dict):
        known = {key: facts(item) for key, item in value.items() if item is not None}
        return ", ".join(v if k in ("file", "path") else f"{_words(k)} {v}" for k, v in known.items())
    if isinstance(value, list):
        return ", ".join(map(facts, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def fact_lines(values: dict[str, Any] | None) -> list[str]:
    """A line for each value. A key that leads to a record is a name."""
    return [
        f"{key if isinstance(value, dict) else _words(key)}: {facts(value)}"
        for key, value in (values or {}).items()
        if value not in (None, "", [], {})
    ]


def _words(key: str) -> str:
    return key.replace("_", " ").replace("sha256", "SHA-256")
