"""Sentences of a text as spans, by the rules of sentencex, which know abbreviations and initials."""

from __future__ import annotations

import re
from functools import lru_cache

import sentencex

Span = tuple[int, int]
"""[start, end) in characters of the text."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@lru_cache(maxsize=4096)
def sentence_spans(text: str, language: str = "en") -> tuple[Span, ...]:
    """The sentences in order, without the white space around them; blank ones are skipped.

    A line break ends a sentence too, since headings, list items and table rows are lines.
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
