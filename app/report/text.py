"""Numbers and foreign texts as a report shows them; the rules of both formats."""

from __future__ import annotations

import math
import re
from datetime import datetime

from indexer.base.text import harmless

MINUS = "\N{MINUS SIGN}"
NOTHING = "-"


def clean(text: str) -> str:
    """The same with its white space as single spaces, as a browser would show it."""
    return " ".join(harmless(text).split())


def cut(text: str, length: int) -> str:
    """At most so many characters, with an ellipsis where something is missing."""
    return text if len(text) <= length else f"{text[: length - 2].rstrip()} …"


def excerpt(text: str, length: int) -> str:
    """The beginning of a text that was cut at this length, up to its last whole word."""
    return text if len(text) < length else f"{text[:length].rpartition(' ')[0] or text[:length]} …"


def in_percent(measure: str) -> bool:
    """Accuracy and `all@K` are told in percent, all other measures as they are."""
    return measure.partition("@")[0] in ("accuracy", "all")


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


def interval(measure: str, low: float | None, high: float | None) -> str:
    """From where to where; empty where unknown."""
    return "" if low is None or high is None else f"{value(measure, low)}–{value(measure, high)}"


def difference(measure: str, number: float) -> str:
    """A difference with its sign; of accuracies in percentage points."""
    text = f"{abs(number) * 100:.1f}" if in_percent(measure) else decimals(abs(number))
    if not float(text):
        return text
    return (MINUS if number < 0 else "+") + text


def difference_interval(measure: str, low: float | None, high: float | None) -> str:
    """From where to where a difference may lie; empty where unknown."""
    return "" if low is None or high is None else f"{difference(measure, low)} to {difference(measure, high)}"


def probability(p: float | None) -> str:
    """A p-value with three decimals; below that, that it is below."""
    if p is None:
        return NOTHING
    return "< .001" if p < 0.001 else decimals(p)


def p_equals(p: float) -> str:
    """p = .032 or p < .001."""
    return f"p {probability(p)}" if p < 0.001 else f"p = {probability(p)}"


def milliseconds(seconds: float | None) -> str:
    """Three significant digits or whole milliseconds: 0.84, 12.3, 1,240."""
    if seconds is None:
        return NOTHING
    ms = seconds * 1000
    if ms <= 0:
        return "0"
    places = max(0, min(3, 2 - math.floor(math.log10(ms))))
    return f"{ms:,.{places}f}"


def day(date: str) -> str:
    """An ISO date and time for people; what is none, as it is."""
    try:
        found = datetime.fromisoformat(date)
    except ValueError:
        return date
    zone = " UTC" if found.utcoffset() is not None and not found.utcoffset() else ""
    return f"{found.day} {found:%B %Y, %H:%M}{zone}"


_MEANINGS = {
    "accuracy": "the share of questions with an answer in one of the first K passages",
    "all": "the share of questions of which everything relevant is among the first K",
    "nDCG": "the gain of the first K results, less the lower they stand, as a share of the best possible",
    "MRR": "one divided by the rank of the first relevant result; 0 if none is among the first K",
    "R": "the share of what is relevant that is among the first K",
    "P": "the share of the first K results that are relevant",
    "Success": "the share of questions with a relevant result among the first K",
    "AP": "the precision at the ranks of relevant results, averaged",
}


def meanings(measures: list[str], *, cutoff: bool = False) -> list[tuple[str, str]]:
    """What these measures mean: (accuracy@K, the share of ...), once for all cutoffs, or for each."""
    found: dict[str, str] = {}
    for measure in measures:
        match = re.match(r"([A-Za-z]+)[^@]*(?:@(\d+))?", measure)
        meaning = _MEANINGS.get(match[1]) if match else None
        if match is None or meaning is None:
            continue
        if cutoff:
            found[measure] = meaning.replace("K", match[2] or "K")
        else:
            found.setdefault(f"{match[1]}@K" if "K" in meaning else match[1], meaning)
    return list(found.items())
