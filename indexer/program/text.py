"""Text for people: characters nobody sees or that terminals obey, counts, sizes, times, words.

Tables of characters that differ on purpose stay with their users: `query_words.py` removes what
Unicode allows inside a word, `mediawiki_pages.py` what MediaWiki strips from titles.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import regex

ZERO_WIDTH = "\u00ad\u200b\u200e\u200f\u2060\ufeff"
"""Soft hyphen, zero-width space, marks of direction, word joiner, byte order mark: they would split words."""

DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Embeddings, overrides and isolates of direction: they make a text look like a different text."""

CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)))
"""Control characters with tabs and line ends, including those that only Unicode has."""

SURROGATES = "".join(map(chr, range(0xD800, 0xE000)))
"""Bytes that were not UTF-8, as Python decodes names of files; no text can be written with them."""

WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
"""A word: letters, digits and the marks on them."""

PLAIN_LETTERS = str.maketrans("đðħıłŋøŧəɛɔɓɗƙƴ", "ddhilnotaeobdky") | str.maketrans(
    {"æ": "ae", "œ": "oe", "þ": "th"}
)
"""Small Latin letters that Unicode does not decompose, as Lucene's `ASCIIFoldingFilter` replaces them."""

_PRINTABLE = dict.fromkeys(map(ord, CONTROLS + DIRECTIONS), " ")
_HARMLESS = (
    dict.fromkeys(map(ord, CONTROLS), " ")
    | dict.fromkeys(map(ord, DIRECTIONS), "")
    | dict.fromkeys(map(ord, SURROGATES), "\N{REPLACEMENT CHARACTER}")
)
_HIDDEN = dict.fromkeys(map(ord, ZERO_WIDTH + DIRECTIONS + "\u2061\u2062\u2063\u2064\u2065"))
_ESCAPED = {ord(c): ascii(c)[1:-1] for c in CONTROLS + SURROGATES}


def printable(text: str) -> str:
    """The text on one line for a terminal: one space for each character it would obey, so offsets stay."""
    return text.translate(_PRINTABLE)


def harmless(text: str) -> str:
    """The text for a page: without overrides of direction, a space for each control, no lone surrogates."""
    return text.translate(_HARMLESS)


def without_hidden(text: str) -> str:
    """The text without characters that nobody sees; the joiners stay, since they make another word."""
    return text.translate(_HIDDEN)


def with_whole_characters(text: str) -> str:
    r"""The text with halves of a character (surrogates, such as \ud83d\ude00) joined.

    JSON escapes characters above U+FFFF as two halves, which readers of other literals leave. Raises
    `UnicodeError` for a half without the other.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def escaped(name: str) -> str:
    r"""A file's name on one line: controls and bytes that are not UTF-8 as escapes, such as \n and \udcff."""
    return name.translate(_ESCAPED)


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 question, 3,610 questions."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def byte_size(count: float) -> str:
    """A size in decimal units: 950 bytes, 12.3 MB."""
    if count < 1000:
        return f"{count:,.0f} bytes"
    exponent = min(int(math.log10(count)) // 3, 3)
    return f"{count / 1000**exponent:,.1f} {('kB', 'MB', 'GB')[exponent - 1]}"


def duration(seconds: float) -> str:
    """The time of a job: 8 s, 2 min 05 s, 3 h 20 min."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02} min"


def short_duration(seconds: float) -> str:
    """The time of a search: 4.2 ms, 96 ms, 1.3 s."""
    milliseconds = seconds * 1000
    if seconds >= 0.9995:
        return f"{seconds:.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 9.5 else f"{milliseconds:.1f} ms"


_ALIKE = 0.6  # of difflib's ratio, from which on names are near each other
_SUGGESTED, _LISTED = 3, 30


def nearest(name: str, known: Iterable[str], about: Mapping[str, str] = MappingProxyType({})) -> str:
    """A hint with the known names that an unknown name may stand for, or all known names.

    These are names whose texts in `about`, such as titles, contain all of its words; else the one that is
    spelt most alike, where the last part of paths and of names such as folder:guide counts first; else names
    that contain it.
    """
    known = sorted(known)

    def alike(other: str) -> tuple[float, float]:
        whole = (name.lower(), other.lower())
        parts = [re.split("[/:]", text)[-1] for text in whole]
        part, all_ = (difflib.SequenceMatcher(None, *pair).ratio() for pair in (parts, whole))
        return part, all_

    words = _words(name)
    titled = [other for other in known if words and words <= _words(about.get(other, ""))]
    meant = sorted(titled, key=lambda other: len(_words(about[other])))[:_SUGGESTED]
    if not meant and known:
        best = max(known, key=alike)
        parts = [o for o in known if o.startswith(name) or (words and words <= _words(o))] if name else []
        meant = [best] if alike(best)[0] >= _ALIKE else sorted(parts, key=alike)[: -_SUGGESTED - 1 : -1]
    if meant:
        return f"Did you mean {' or '.join(filter(None, (', '.join(meant[:-1]), meant[-1])))}?"
    more = f" and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
    return f"Known: {', '.join(known[:_LISTED]) or 'none'}{more}."


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))
