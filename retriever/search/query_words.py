"""The words of a passage that a question contains, for marking and comparing them.

Words are compared by their stems (in English Porter 1980, else Snowball's), as BM25 does, and without case
and accents. Stop words are not marked. As for Lucene, a mark above or below a letter belongs to its word, and
an emoji is a word. So is a Chinese character in an English index; in others, ICU segments text without
blanks.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

import regex
import Stemmer

from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.language.segments import JOINED, JOINED_RUN, segments
from linkseek.indexer.program.text import PLAIN_LETTERS
from linkseek.indexer.search.analyzers import LISTS, has_pairs, stop_words

Span = tuple[int, int]

_ANY = (
    r"\p{Han}\p{M}*+"
    r"|(?=[\p{Extended_Pictographic}--\p{ASCII}]|\p{Regional_Indicator})\X"
    r"|[[\w\p{N}\xad\u200c\u200d]--\p{Han}]++"
)
_WORD = regex.compile(f"(?V1){_ANY}")
_WORD_OR_RUN = regex.compile(f"(?V1)(?P<run>{JOINED_RUN})|{_ANY.replace(r'--', rf'--[{JOINED}]--')}")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)  # the same for such a text, in a tenth of the time
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_REPLACED = dict.fromkeys(map(ord, "\xad\u200c\u200d\ufe0e\ufe0f")) | {ord("œ"): "oe"}
_MAX_LENGTH = 255  # characters; stems and accents of a longer run would take seconds

# Lucene's English stop words, and those that make a sentence a question.
_STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there "
    "these they this to was will with "
    "who whom whose what when where which why how did do does has have had were been can could would "
    "from its his her s".split()
)


@lru_cache(maxsize=1 << 16)
def term(word: str, language: str = ENGLISH) -> str:
    """The form by which words of a language are compared; empty for a stop word."""
    plain = _plain(word)
    if language == ENGLISH:
        return "" if plain in _STOP_WORDS else str(_OF_THREAD.stemmer(language).stemWord(plain))
    written = word.casefold().translate(_REPLACED)
    if not plain or plain in _plain_stop_words(language):
        return ""
    stemmer = _OF_THREAD.stemmer(language)
    return _plain(str(stemmer.stemWord(written))) if stemmer else plain


@cache
def _plain_stop_words(language: str) -> frozenset[str]:
    return frozenset(map(_plain, stop_words(language))) if language in LISTS else frozenset()


@lru_cache(maxsize=1 << 16)
def _plain(word: str) -> str:
    """Without case and accents; empty if it is too long."""
    if len(word) > _MAX_LENGTH:
        return ""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word.casefold().translate(_REPLACED))
    # From Thai on (and kana), such marks are not accents.
    kept = "".join(c for c in decomposed if c >= "\u0e00" or not unicodedata.combining(c))
    return kept.translate(PLAIN_LETTERS)


class _OfThread(threading.local):
    def __init__(self) -> None:  # called in each thread; a stemmer keeps the word that it works on
        self._stemmers: dict[str, Any] = {}

    def stemmer(self, language: str) -> Any:
        """Snowball's stemmer of a language by its code, in English Porter's; None if Snowball has none."""
        if language not in self._stemmers:
            self._stemmers[language] = None
            with suppress(KeyError):
                self._stemmers[language] = Stemmer.Stemmer("porter" if language == ENGLISH else language)
        return self._stemmers[language]


_OF_THREAD = _OfThread()


def terms(text: str, language: str = ENGLISH) -> frozenset[str]:
    """The different words of a text in the form by which they are compared, without stop words."""
    return frozenset(term(word, language) for word in different_words(text, language)) - {""}


def different_words(text: str, language: str = ENGLISH) -> frozenset[str]:
    """The different words of a text as they stand in it; of English in ASCII without case."""
    if language == ENGLISH and text.isascii():
        return frozenset(_ASCII_WORD.findall(text.lower()))
    if language == ENGLISH:
        return frozenset(_WORD.findall(text))
    return frozenset(text[start:end] for start, end in word_spans(text, language))


def common_terms(wanted: frozenset[str], text: str, language: str = ENGLISH) -> frozenset[str]:
    """The wanted `terms` that a text has."""
    if language != ENGLISH:
        return frozenset(term(word, language) for word in different_words(text, language)) & wanted
    plain = _in_ascii(text)
    if plain.isascii():
        words = set(_words_beginning(plain.lower(), _beginnings(wanted)))
    else:
        beginnings = _beginnings(wanted)
        words = {word for word in different_words(text) if _plain(word).startswith(beginnings)}
    return frozenset(map(term, words)) & wanted


def _in_ascii(text: str) -> str:
    """An English text without accents, with blanks for punctuation beyond ASCII; the rest stays as it is."""
    if not text.isascii():
        for character in set(_NOT_ASCII.findall(text)):
            text = text.replace(character, _in_ascii_character(character))
    return text


@lru_cache(maxsize=1 << 12)
def _in_ascii_character(character: str) -> str:
    """The letter or digit without accents, " " for anything that is not part of a word, else the character
    itself.
    """
    plain, joins = _plain(character), _WORD.fullmatch(f"a{character}")  # an emoji is a word of its own
    if joins and plain.isascii() and plain.isalnum():
        return plain
    return character if joins or _WORD.search(character) or unicodedata.combining(character) else " "


def _words_beginning(text: str, beginnings: tuple[str, ...]) -> Iterator[str]:
    """The words of a text in ASCII with one of the beginnings, in a tenth of the time of a pattern."""
    for beginning in beginnings:
        start = text.find(beginning)
        while start >= 0:
            begins = not start or not (text[start - 1].isalnum() or text[start - 1] == "_")
            if begins and (word := _ASCII_WORD.match(text, start)):
                yield word[0]
            start = text.find(beginning, start + 1)


@lru_cache(maxsize=1 << 10)
def _beginnings(wanted: frozenset[str]) -> tuple[str, ...]:
    """What a word of English that has one of the stems begins with, without case and accents.

    Stemming is slow. Porter's rules keep the beginning of a word, and replace at most its last letter.
    """
    return tuple(sorted({stem[:-1] or stem for stem in wanted}))


def word_spans(text: str, language: str = ENGLISH) -> Iterator[Span]:
    """The words of a text: [start, end) in characters, in order."""
    if language == ENGLISH:
        yield from (match.span() for match in _WORD.finditer(text))
        return
    for match in _WORD_OR_RUN.finditer(text):
        if match["run"]:
            yield from segments(match[0], match.start())
        else:
            yield match.span()


_PAIRED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー々〆\uff70\uff9e\uff9f"
_PAIRED_OR_NOT = regex.compile(f"(?P<run>[{_PAIRED}]++)|[^{_PAIRED}]++")


def _matched_by(text: str, language: str) -> Iterator[Span]:
    """What BM25 compares: words; of Chinese, Japanese and Korean pairs of characters where it has those."""
    if not has_pairs(language):
        yield from word_spans(text, language)
        return
    for part in _PAIRED_OR_NOT.finditer(text):
        start, end = part.span()
        if part["run"]:
            yield from ((at, min(at + 2, end)) for at in range(start, max(end - 1, start + 1)))
        else:
            yield from ((start + a, start + b) for a, b in word_spans(part[0], language))


def matched_spans(question: str, text: str, language: str = ENGLISH) -> list[Span]:
    """The words of `text` that the question contains: [start, end) in characters, in order."""
    asked = (question[start:end] for start, end in _matched_by(question, language))
    wanted = frozenset(term(word, language) for word in asked) - {""}
    initials = {stem[0] for stem in wanted}  # stemming is slow, and never changes the first letter in English
    spans: list[Span] = []
    for start, end in _matched_by(text, language):
        word = text[start:end]
        if language == ENGLISH and _plain(word)[:1] not in initials:
            continue
        if term(word, language) in wanted:
            if spans and spans[-1][1] >= start:  # where no spaces are between words
                start = spans.pop()[0]
            spans.append((start, end))
    return spans
