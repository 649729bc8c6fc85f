"""Sentences of a text as spans: by sentencex's rules, which know abbreviations and initials."""

from __future__ import annotations

import re
from functools import lru_cache

import sentencex

Span = tuple[int, int]
"""[start, end) in characters of the text."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@lru_cache(maxsize=4096)
def sentence_spans(text: str, language: str = "en") -> tuple[Span, ...]:
    """The sentences in order, without the white space around them; blank ones are left out.

    A line break ends a sentence too: headings, list items and table rows stand in lines of their own.
    """
    spans = []
    start = 0
    for line in _LINE.findall(text):
        for piece in sentencex.segment(language, line):
            stripped = piece.strip()
            if stripped:
                first = start + len(piece) - len(piece.lstrip())
                spans.append((first, first + len(stripped)))
            start += len(piece)
    return tuple(spans)


def sentence_at(text: str, position: int) -> Span:
    """The sentence that holds a character of the text. Raises ValueError if none does (white space)."""
    for start, end in sentence_spans(text):
        if start <= position < end:
            return start, end
    raise ValueError(f"no sentence at {position} of {text!r}")
