"""Passages: documents cut into pieces of a fixed number of words, and the store that keeps them.

A passage's text is a slice of its document's, so the offsets of links convert by subtraction and
no character is lost. A word is a run of non-space characters (`\\S+`), as in DPR's corpus of
100-word passages (Karpukhin et al. 2020, section 4.1), except that the last passage of a document is
shorter instead of being filled up from the document's start, or joins the one before it if it is very short.
Where no blanks separate words (Chinese, Japanese, Thai, ...), a segmenter finds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import regex
from numpy.typing import NDArray

from linkseek.indexer.documents import Document, DocumentStore, Section
from linkseek.indexer.language.segments import Span, joined_share, units
from linkseek.indexer.store.artifacts import segment_path
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.indexer.store.tables import Row, Table, TableWriter


@dataclass(frozen=True, slots=True)
class Passage:
    """`text` is `document.text[start:end]`; `title` is the document's, with the headings above if so asked.

    The id is `DOCUMENT#n`, n from 0, or the document's own id where documents are passages.
    """

    id: str
    document_id: str
    title: str
    text: str
    start: int
    end: int


PASSAGE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("document_id", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class Cutting:
    """How documents are cut. words: of a passage; 0: a document is a passage.

    min_words: a shorter last passage joins the one before it. headings: passages begin at sections where
    they can, and the headings above a passage follow its title.
    """

    words: int
    min_words: int = 0
    headings: bool = False


def split_document(document: Document, cutting: Cutting) -> list[Passage]:
    """The passages of a document: `words` words each, the last one shorter; 0 words: one passage.

    A last passage of fewer than `min_words` words joins the one before it. A document of white space alone
    has none, unless documents are passages and it has a title.
    """
    text, title = document.text, document.title
    if cutting.words == 0:
        if not text.strip() and not title.strip():
            return []
        return [Passage(document.id, document.id, title, text, 0, len(text))]
    if cutting.headings:
        pieces = _by_sections(document, cutting)
    else:
        pieces = [(start, end, title) for start, end in cut(text, 0, len(text), cutting)]
    return [
        Passage(f"{document.id}#{number}", document.id, shown, text[start:end], start, end)
        for number, (start, end, shown) in enumerate(pieces)
    ]


def _by_sections(document: Document, cutting: Cutting) -> list[tuple[int, int, str]]:
    """(start, end, title with headings) of each passage; short sections share one with their neighbours."""
    pieces: list[tuple[int, int, str]] = []
    last = 0  # words of the last passage
    for start, end, path in regions(document.sections, len(document.text)):
        spans = cut(document.text, start, end, cutting)
        if not spans:
            continue
        count = count_words(document.text[slice(*spans[-1])])
        if len(spans) == 1 and 0 < last <= cutting.words - count and min(last, count) < cutting.min_words:
            first, _, shown = pieces.pop()
            pieces.append((first, spans[0][1], f"{shown}; {path[-1]}"))
            last += count
        else:
            shown = HEADING_SEPARATOR.join(filter(None, [document.title, *path]))
            pieces += [(*span, shown) for span in spans]
            last = count
    return pieces


HEADING_SEPARATOR = " > "
"""Between a title and the headings above a passage."""


def regions(sections: Iterable[Section], end: int) -> Iterator[tuple[int, int, list[str]]]:
    """(start, end, headings from the outermost) of the text before the first section and of each section.

    sections: of a document, by their start. end: of its text.
    """
    start, open_sections = 0, list[Section]()
    for section in sections:
        if section.start > start:
            yield start, section.start, [above.heading for above in open_sections]
            start = section.start
        while open_sections and open_sections[-1].level >= section.level:
            open_sections.pop()
        open_sections.append(section)
    yield start, end, [above.heading for above in open_sections]


_JOINED = 0.2
"""The share of characters without blanks between words above which words are segmented."""

_CHARACTERS = 16
"""A passage has at most this many characters per word: an English word has 6, a long address 200."""


def cut(text: str, start: int, end: int, cutting: Cutting) -> list[Span]:
    """The passages of text[start:end] as [start, end) in characters of the text, without white space around.

    Where words are written apart, each but the last has the same number of them, as in DPR. Elsewhere a
    passage ends with a paragraph, a line or a sentence if one ends in its last third.
    """
    words = cutting.words
    limit = words * _CHARACTERS
    if joined_share(text[start:end]) >= _JOINED:
        spans = list(_by_units(text, start, end, words, limit))
    else:
        whole = (match.span() for match in _words_pattern(words).finditer(text, start, end))
        spans = [
            part
            for span in whole
            for part in (_by_units(text, *span, words, limit) if span[1] - span[0] > limit else [span])
        ]
    if len(spans) > 1 and (
        count_words(text[slice(*spans[-1])]) < cutting.min_words and spans[-1][1] - spans[-2][0] <= limit
    ):
        spans[-2:] = [(spans[-2][0], spans[-1][1])]
    return spans


def count_words(text: str) -> int:
    """The words of a text, as passages count them."""
    return sum(1 for _ in units(text)) if joined_share(text) >= _JOINED else len(text.split())


def _by_units(text: str, start: int, end: int, words: int, limit: int) -> Iterator[Span]:
    pieces = [
        (start + low, min(start + low + limit, start + last))
        for first, last in units(text[start:end])
        for low in range(first, last, limit)
    ]
    first = 0
    while first < len(pieces):
        after = first + 1
        while after < min(first + words, len(pieces)) and pieces[after][1] - pieces[first][0] <= limit:
            after += 1
        if after < len(pieces):
            earliest = first + max((after - first) * 2 // 3, 1)
            # The last of the best ends: a paragraph's, a line's, a sentence's, a word's.
            after = max(
                range(earliest, after + 1), key=lambda at: (_end(text, pieces[at - 1][1], pieces[at][0]), at)
            )
        yield pieces[first][0], pieces[after - 1][1]
        first = after


_SENTENCE_END = regex.compile(r"[.!?。！？．｡…។៕။།][\p{Pe}\p{Pf}\"'」』]*+\Z")


def _end(text: str, end: int, start: int) -> int:
    """The boundary between two words: a paragraph 3, a line 2, a sentence 1, or nothing 0."""
    breaks = text.count("\n", end, start)
    return min(breaks + 1, 3) if breaks else int(bool(_SENTENCE_END.search(text[max(end - 4, 0) : end])))


@cache
def _words_pattern(words: int) -> re.Pattern[str]:
    # Possessive quantifiers: linear time also on a "word" of millions of characters.
    return re.compile(rf"(?:\S++\s++){{0,{words - 1}}}\S++")


def write_passages(
    folder: Path,
    documents: DocumentStore,
    cutting: Cutting,
    on_documents: Callable[[float], None] = lambda documents: None,
) -> dict[str, Any]:
    """Cut all documents and store their passages in an existing folder; return the manifest's entries.

    on_documents: gets the number of documents finished since the last call. Memory: a batch of each, and 8
    bytes a document.
    """
    offsets = np.zeros(len(documents) + 1, np.int64)  # [D+1]
    digest = sha256()
    row = 0
    with TableWriter(segment_path(folder, 0), PASSAGE_SCHEMA) as writer:
        for columns in documents.table.batches(["id", "title", "text", "sections"]):
            for id_, title, text, sections in zip(*(column.to_pylist() for column in columns), strict=True):
                document = Document(id_, title, text, sections=tuple(Section(**each) for each in sections))
                for passage in split_document(document, cutting):
                    writer.write(passage_row(passage), len(passage.text))
                    digest.update(f"{passage.id}\0{passage.title}\0{passage.text}\0".encode())
                row += 1
                offsets[row] = writer.rows
            on_documents(len(columns[0]))
    np.save(folder / "offsets.npy", offsets)
    return {"passages": writer.rows, "words": cutting.words, "content_sha256": digest.hexdigest()}


def passage_row(passage: Passage) -> Row:
    """One row of `PASSAGE_SCHEMA` (`dataclasses.asdict` would copy each field)."""
    return {name: getattr(passage, name) for name in PASSAGE_SCHEMA.names}


_NUMBER = re.compile("0|[1-9][0-9]{0,8}")


class PassageStore:
    """The passages of an index by row, memory-mapped; also by id."""

    def __init__(self, paths: Sequence[Path], offsets: NDArray[np.int64], ids: IdTable, words: int) -> None:
        """Open segment files.

        offsets: int64 [D+1], document d has rows offsets[d] to offsets[d+1]. ids: of the documents.
        words: the length that they were split by. Raises `DamagedIndexError` if a file is cut off.
        """
        self.table = Table(paths, PASSAGE_SCHEMA)
        self.offsets = offsets
        self._ids = ids
        self._words = words

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, row: int) -> Passage:
        """The passage at a row. Raises IndexError outside [0, len)."""
        return Passage(**self.table.row(row))

    def __iter__(self) -> Iterator[Passage]:
        for row in self.table.rows():
            yield Passage(**row)

    def ids(self, rows: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """The ids of passages, in the order given."""
        return [self.table.value("id", int(row)) for row in rows]

    def rows_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The rows of passage ids, int64 [n]; -1 for ids that the index does not contain."""
        if self._words == 0:
            documents, numbers = list(ids), np.zeros(len(ids), np.int64)
        else:
            parts = [id_.rpartition("#") for id_ in ids]
            documents = [document for document, _, _ in parts]
            numbers = np.array([int(n) if _NUMBER.fullmatch(n) else -1 for _, _, n in parts], np.int64)
        document_rows = self._ids.rows(hash_ids(documents))  # [n]
        outside = (document_rows < 0) | (document_rows >= len(self.offsets) - 1)  # or altered
        document_rows[outside] = -1
        rows = self.offsets[document_rows] + numbers  # [n]
        valid = ~outside & (numbers >= 0) & (rows < self.offsets[document_rows + 1]) & (rows < len(self))
        return np.where(valid, rows, -1)

    def document_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document rows of passages, int64 of the same shape."""
        return np.searchsorted(self.offsets, rows, side="right") - 1
