"""The words of a passage that a question contains, for marking and comparing them.

Words are compared by their stems (Porter 1980), as BM25 does, and without case and accents. Stop words
are not marked. As for Lucene, a mark above or below a letter belongs to its word, a Chinese
character is a word, and so is an emoji.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

import regex  # type: ignore[import-untyped]
import snowballstemmer

Span = tuple[int, int]

_WORD = regex.compile(
    r"(?V1)\p{Han}\p{M}*+"
    r"|(?=[\p{Extended_Pictographic}--\p{ASCII}]|\p{Regional_Indicator})\X"
    r"|[[\w\p{N}\xad\u200c\u200d]--\p{Han}]++"
)
_ASCII_WORD = re.compile(r"\w+", re.ASCII)  # the same for such a text, in a tenth of the time
_INVISIBLE = dict.fromkeys(map(ord, "\xad\u200c\u200d\ufe0e\ufe0f"))
_MAX_LENGTH = 255  # characters; stems and accents of a longer run would take seconds

# Lucene's English stop words, and those that make a sentence a question.
_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there "
    "these they this to was will with "
    "who whom whose what when where which why how did do does has have had were been can could would "
    "from its his her s".split()
)


@lru_cache(maxsize=1 << 16)
def term(word: str) -> str:
    """The form by which words are compared; empty for a stop word."""
    plain = _plain(word)
    return "" if plain in _STOP_WORDS else str(_OF_THREAD.stemmer.stemWord(plain))


@lru_cache(maxsize=1 << 16)
def _plain(word: str) -> str:
    """Without case and accents; empty if it is too long."""
    if len(word) > _MAX_LENGTH:
        return ""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word.casefold().translate(_INVISIBLE))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


class _OfThread(threading.local):
    def __init__(self) -> None:  # called in each thread; a stemmer keeps the word that it works on
        self.stemmer = snowballstemmer.stemmer("porter")


_OF_THREAD = _OfThread()


def terms(text: str) -> frozenset[str]:
    """The different words of a text in the form by which they are compared, without stop words."""
    return frozenset(map(term, different_words(text))) - {""}


def different_words(text: str) -> frozenset[str]:
    """The different words of a text as they stand in it, or without case if all of it is ASCII."""
    return frozenset(_ASCII_WORD.findall(text.lower()) if text.isascii() else _WORD.findall(text))


def common_terms(wanted: frozenset[str], words: frozenset[str]) -> frozenset[str]:
    """The wanted `terms` that are among words of a text as they stand in it."""
    initials = {stem[0] for stem in wanted}  # stemming is slow, and never changes the first letter
    return frozenset(term(word) for word in words if _plain(word)[:1] in initials) & wanted


def matched_spans(question: str, text: str) -> list[Span]:
    """The words of `text` that the question contains: [start, end) in characters, in order."""
    wanted = terms(question)
    initials = {stem[0] for stem in wanted}  # stemming is slow, and never changes the first letter
    spans: list[Span] = []
    for match in _WORD.finditer(text):
        if _plain(match.group())[:1] in initials and term(match.group()) in wanted:
            start, end = match.span()
            if spans and spans[-1][1] == start:  # Chinese, which has no spaces
                start = spans.pop()[0]
            spans.append((start, end))
    return spans
