"""Finds articles by their titles as people type them, ignoring case, accents and separators.

Arrow scans the titles, which are one column of the documents; nothing has to be built or loaded first. Ten
million titles take about a second on one core.
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

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.text import PLAIN_LETTERS

MAX_CHARACTERS = 200
"""The rest of a longer text is ignored."""

# Small classes of characters: classes over all of Unicode take milliseconds to compile, for each batch of
# titles.
_MARKS = "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]*"
"""Accents, and the points of Hebrew and Arabic."""
_SPACES = "[ _\u00a0\u2000-\u200a\u202f\u3000]+"
_BEFORE_WORD = "[ -/:-@\\[-`{-~\u00a0\u2000-\u2027\u202f\u3000-\u3003\u3008-\u301f\uff00-\uff0f]"
_OTHER_FORMS = (
    *(*range(0xC0, 0x250), *range(0x1E00, 0x1F00)),  # Latin letters with marks
    *(*range(0x370, 0x400), *range(0x1F00, 0x2000)),  # Greek
    *(*range(0x400, 0x530), *range(0x620, 0x6D5)),  # Cyrillic, Arabic
    *range(0xFF01, 0xFF5F),  # ASCII as wide as a Chinese character
)


@dataclass(frozen=True, slots=True)
class ArticleName:
    """A document as a link shows it. title: its id where it has none."""

    row: int
    id: str
    title: str


def find_articles(index: OpenIndex, text: str, k: int = 12) -> tuple[list[ArticleName], int]:
    """The k documents whose titles match best, and the number of matches.

    A document whose id is the text comes first; then titles that equal the text, begin with it, have a word
    that begins with it, or contain it; shorter titles first, then in the order of the index.
    """
    text = " ".join(text.encode("utf-8", "replace").decode().split())[:MAX_CHARACTERS]
    # RE2's: any case, any accents, "_" for spaces
    pattern = "".join(map(_any_form, unicodedata.normalize("NFC", text)))
    if not pattern:
        return [], 0
    rows, total = _matching(index, pattern, k)
    exact = index.document_ids.row(text)
    if 0 <= exact < len(index.documents):
        title = pa.array([str(index.documents.table.value("title", exact))])
        total += exact not in rows and not _match(title, pattern)[0]
        rows = [exact, *(row for row in rows if row != exact)][:k]
    return [article_name(index, row) for row in rows], total


def article_name(index: OpenIndex, row: int) -> ArticleName:
    """The id and the title of a document."""
    id_ = str(index.documents.table.value("id", row))
    title = str(index.documents.table.value("title", row)).strip()
    return ArticleName(row, id_, title or id_)


def _matching(index: OpenIndex, pattern: str, k: int) -> tuple[list[int], int]:
    """The rows of the k best matches, and the number of matches."""
    best_rows = np.empty(0, np.int64)
    best_keys = np.empty(0, np.int64)
    first = total = 0
    for (titles,) in index.documents.table.batches(["title"]):
        places = np.flatnonzero(_match(titles, pattern))  # [m]
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
    """The quality of each match, int64 [m]; less is better."""
    kind = np.full(len(titles), 3)
    for rank, anchored in ((2, _BEFORE_WORD + pattern), (1, f"^{pattern}"), (0, f"^{pattern}$")):
        kind[_match(titles, anchored)] = rank
    lengths = np.asarray(pc.utf8_length(titles).to_numpy(zero_copy_only=False), np.int64)
    return kind.astype(np.int64) << 32 | lengths


def _match(titles: pa.Array, pattern: str) -> NDArray[np.bool_]:
    mask = pc.match_substring_regex(titles, pattern, ignore_case=True)
    return np.asarray(mask.to_numpy(zero_copy_only=False), np.bool_)


def _any_form(character: str) -> str:
    """A character as it is, and as the characters that it is made of: titles may contain either."""
    if character in " _":
        return _SPACES
    parts = _parts(character)
    plain = "".join(map(_with_any_accent, parts))
    return plain if parts == character.casefold() == character.lower() else f"(?:{character}|{plain})"


def _with_any_accent(character: str) -> str:
    if re.fullmatch(_MARKS, character):
        return ""
    if others := _other_forms().get(character):
        return f"[{re.escape(character)}{others}]{_MARKS}"
    # RE2 takes a backslash before punctuation alone
    return character + _MARKS if character.isalnum() else re.escape(character)


def _parts(character: str) -> str:
    """The plain letters of a character, and its marks."""
    return unicodedata.normalize("NFKD", character.casefold()).translate(PLAIN_LETTERS)


@cache
def _other_forms() -> dict[str, str]:
    """The characters that are a plain one with marks, or another width of it, by the plain one."""
    forms: dict[str, str] = {}
    for code in _OTHER_FORMS:
        plain = _parts(chr(code))[0]
        if plain != chr(code).casefold():
            forms[plain] = forms.get(plain, "") + chr(code)
    return forms
