"""The sentences of a text, by ICU's rules (Unicode Standard Annex 29, section 5)."""

from __future__ import annotations

import re

from linkseek.retriever.search.query_words import Span

_MAX_CHARACTERS = 20_000
_NO_END = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St|Prof|Gen|Lt|Sgt|vs|cf|No|c|[^\W\d_a-z])\.\s*$")
"""A title, an initial or an abbreviation, which ICU takes for an end."""


def sentence_spans(text: str) -> list[Span]:
    """The sentences of a text in order, [start, end) in characters without the white space around them.

    Only the first 20,000 characters are read.
    """
    from icu4py.breakers import SentenceBreaker

    spans: list[Span] = []
    start = end = 0
    pieces = [*SentenceBreaker(text[:_MAX_CHARACTERS], "en")]
    for number, piece in enumerate(pieces, start=1):
        end += len(piece)
        if _NO_END.search(piece) and number < len(pieces):
            continue
        sentence = text[start:end]
        if stripped := sentence.strip():
            first = start + len(sentence) - len(sentence.lstrip())
            spans.append((first, first + len(stripped)))
        start = end
    return spans
