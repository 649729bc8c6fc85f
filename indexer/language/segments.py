"""Words where no blanks are between them: Chinese, Japanese, Thai, Lao, Khmer and Burmese.

ICU segments them by its dictionaries (Unicode Standard Annex 29, section 4). Korean has blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import regex

_BY_DICTIONARY = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
JOINED = rf"\p{{Han}}\p{{Hiragana}}\p{{Katakana}}ー々〆{_BY_DICTIONARY}"
"""Characters of scripts without blanks between words, for the inside of a set."""
_MARKS = r"\p{M}\u200b-\u200d"
JOINED_RUN = rf"[{JOINED}][{JOINED}{_MARKS}]*+"
"""A pattern of a run without blanks."""
_CHARACTER = regex.compile(rf"[{JOINED}]")
_CANDIDATE = re.compile("[\u0e00-\u1fff\u2e80-\ud7ff\uf900-\uffef\U00010000-\U0003ffff]")
"""A superset of these characters, quick to test."""
_PIECE = regex.compile(rf"(?P<run>{JOINED_RUN})|(?:(?![{JOINED}])\S)++")
_RUN = regex.compile(rf"[{_BY_DICTIONARY}][{_BY_DICTIONARY}{_MARKS}]*+")
_MAX_RUN = 1 << 16  # characters that ICU gets at once

Span = tuple[int, int]
"""[start, end) in characters of a text."""


def joined_share(text: str) -> float:
    """The share of scripts without blanks between words in the characters of a text that are not blank."""
    if not _CANDIDATE.search(text):  # six times as fast, and true of most texts
        return 0.0
    count = sum(1 for _ in _CHARACTER.finditer(text))
    return count / sum(map(len, text.split())) if count else 0.0


def units(text: str) -> Iterator[Span]:
    """What counts as words: each word of a run without blanks; elsewhere, runs that are not blank."""
    for piece in _PIECE.finditer(text):
        if piece.lastgroup:
            yield from segments(piece[0], piece.start())
        else:
            yield piece.span()


def segments(run: str, at: int = 0) -> Iterator[Span]:
    """The words of a run without blanks, one after another. at: where it begins in its text."""
    from icu4py.breakers import WordBreaker

    for first in range(0, len(run), _MAX_RUN):
        start = at + first
        # ICU has one set of rules for all of these scripts; its own offsets count UTF-16 units.
        for word in filter(None, WordBreaker(run[first : first + _MAX_RUN], "en")):
            yield start, start + len(word)
            start += len(word)


def spaced(text: str) -> str:
    """The text with blanks between words of Thai, Lao, Khmer and Burmese, which Lucene does not segment."""
    return str(_RUN.sub(_with_blanks, text)) if _CANDIDATE.search(text) else text


def _with_blanks(match: regex.Match[str]) -> str:
    run = match[0]
    return f" {' '.join(run[start:end] for start, end in segments(run))} "
