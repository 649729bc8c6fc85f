"""Finding an article by its title, as somebody types it: no matter which case, accents or separators.

The titles of an index lie in one column of its documents and are looked through by Arrow from the first to
the last; there is nothing to build, to keep or to load first. The limit is time: about a second for ten
million titles on one core.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexer.index import Index

MAX_CHARACTERS = 200
"""A longer text is no title; the rest of it is not looked at."""

# Small classes of characters: those of all Unicode take milliseconds to compile, for each batch of titles.
_MARKS = r"[\x{300}-\x{36f}]*"
_BEFORE_WORD = r"[ -/:-@\[-`{-~\x{2010}-\x{2027}]"
_ACCENTED = (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))  # Latin letters with marks


@dataclass(frozen=True, slots=True)
class Found:
    """A document that somebody may mean. title: its id where it has none."""

    row: int
    id: str
    title: str


def find_articles(index: Index, text: str, k: int = 12) -> tuple[list[Found], int]:
    """The k documents whose titles fit best, and how many fit.

    A document whose id is the text comes first; then titles that are the text, begin with it, have a word
    that does, or hold it anywhere; shorter titles first, then in the order of the index.
    """
    text = " ".join(text.encode("utf-8", "replace").decode().split())[:MAX_CHARACTERS]
    pattern = _pattern(text)
    if not pattern:
        return [], 0
    rows, total = _matching(index, pattern, k)
    exact = index.document_ids.row(text)
    if 0 <= exact < len(index.documents):
        total += exact not in rows and not _matches(index, exact, pattern)
        rows = [exact, *(row for row in rows if row != exact)][:k]
    return [found(index, row) for row in rows], total


def found(index: Index, row: int) -> Found:
    """A document by its row."""
    id_ = str(index.documents.table.value("id", row))
    title = str(index.documents.table.value("title", row)).strip()
    return Found(row, id_, title or id_)


def _matching(index: Index, pattern: str, k: int) -> tuple[list[int], int]:
    """The rows of the k best titles that match, and how many do."""
    best_rows = np.empty(0, np.int64)
    best_keys = np.empty(0, np.int64)
    first = total = 0
    for (titles,) in index.documents.table.batches(["title"]):
        places = np.flatnonzero(_fits(titles, pattern))  # [m]
        total += len(places)
        if len(places):
            matched = titles.take(pa.array(places))
            keys = np.concatenate([best_keys, _keys(matched, pattern)])
            rows = np.concatenate([best_rows, first + places])
            order = np.argsort(keys, kind="stable")[:k]
            best_keys, best_rows = keys[order], rows[order]
        first += len(titles)
    return best_rows.tolist(), total


def _keys(titles: pa.Array, pattern: str) -> NDArray[np.int64]:
    """How well each title fits, int64 [m]; less is better."""
    kind = np.full(len(titles), 3)
    for rank, anchored in ((2, _BEFORE_WORD + pattern), (1, f"^{pattern}"), (0, f"^{pattern}$")):
        kind[_fits(titles, anchored)] = rank
    lengths = np.asarray(pc.utf8_length(titles).to_numpy(zero_copy_only=False), np.int64)
    return kind.astype(np.int64) << 32 | lengths


def _fits(titles: pa.Array, pattern: str) -> NDArray[np.bool_]:
    fits = pc.match_substring_regex(titles, pattern, ignore_case=True)
    return np.asarray(fits.to_numpy(zero_copy_only=False), np.bool_)


def _matches(index: Index, row: int, pattern: str) -> bool:
    return bool(_fits(pa.array([str(index.documents.table.value("title", row))]), pattern)[0])


def _pattern(text: str) -> str:
    """A regular expression (RE2's) for a text in any case, with any accents, with "_" for spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(_any_form(c) for c in decomposed if not unicodedata.combining(c))


def _any_form(character: str) -> str:
    if character in " _":
        return "[ _]+"
    if "a" <= character <= "z":
        return f"[{character}{_accented().get(character, '')}]{_MARKS}"
    # RE2 takes a backslash before punctuation alone
    return character + _MARKS if character.isalnum() else re.escape(character)


@cache
def _accented() -> dict[str, str]:
    """The letters that are a plain one with marks, by the plain one."""
    forms: dict[str, str] = {}
    for code in _ACCENTED:
        plain = unicodedata.normalize("NFKD", chr(code).casefold())[0]
        if "a" <= plain <= "z":
            forms[plain] = forms.get(plain, "") + chr(code)
    return forms
