"""Which words of a passage a question asks for, for marking them on a page or in a terminal.

Words are compared by their stems (Porter 1980), as BM25 does, and without case and accents. Words of no
content are not marked.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import Any

import snowballstemmer

Span = tuple[int, int]

_WORD = re.compile(r"\w+")

# Lucene's English stop words, and those that make a sentence a question.
_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there "
    "these they this to was will with "
    "who whom whose what when where which why how did do does has have had were been can could would "
    "from its his her s".split()
)


@lru_cache(maxsize=1 << 16)
def term(word: str) -> str:
    """What a word is compared by; empty for a stop word."""
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    return "" if plain in _STOP_WORDS else _stemmer().stemWord(plain)


@cache
def _stemmer() -> Any:
    return snowballstemmer.stemmer("porter")


def matched_spans(question: str, text: str) -> list[Span]:
    """The words of `text` that the question asks for: [start, end) in characters, in order."""
    wanted = {term(word) for word in _WORD.findall(question)} - {""}
    return [match.span() for match in _WORD.finditer(text) if term(match.group()) in wanted]
