"""Passages: documents cut into pieces of a fixed number of words, and the store that keeps them.

A passage's text is a slice of its document's, so the offsets of links convert by subtraction and
no character is lost. A word is a run of non-space characters (`\\S+`), as in DPR's corpus of
100-word passages (Karpukhin et al. 2020, section 4.1), except that the last passage of a document is
shorter instead of being filled up from the document's start, or joins the one before it if it is very short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linkseek.indexer.documents import Document, DocumentStore
from linkseek.indexer.store.artifacts import segment_path
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.indexer.store.tables import Row, Table, TableWriter


@dataclass(frozen=True, slots=True)
class Passage:
    """`text` is `document.text[start:end]`; `title` is the document's.

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


def split_document(document: Document, words: int, min_words: int = 0) -> list[Passage]:
    """The passages of a document: `words` words each, the last one shorter; 0 words: one passage.

    A last passage of fewer than `min_words` words joins the one before it. A document of white space alone
    has none, unless documents are passages and it has a title.
    """
    text = document.text
    if words == 0:
        if not text.strip() and not document.title.strip():
            return []
        return [Passage(document.id, document.id, document.title, text, 0, len(text))]
    spans = [match.span() for match in _words_pattern(words).finditer(text)]
    if len(spans) > 1 and len(text[slice(*spans[-1])].split()) < min_words:
        spans[-2:] = [(spans[-2][0], spans[-1][1])]
    return [
        Passage(f"{document.id}#{number}", document.id, document.title, text[start:end], start, end)
        for number, (start, end) in enumerate(spans)
    ]


@cache
def _words_pattern(words: int) -> re.Pattern[str]:
    # Possessive quantifiers: linear time also on a "word" of millions of characters.
    return re.compile(rf"(?:\S++\s++){{0,{words - 1}}}\S++")


def write_passages(
    folder: Path,
    documents: DocumentStore,
    words: int,
    on_documents: Callable[[float], None] = lambda documents: None,
    min_words: int = 0,
) -> dict[str, Any]:
    """Cut all documents and store their passages in an existing folder; return the manifest's entries.

    on_documents: gets the number of documents finished since the last call. Memory: a batch of each, and 8
    bytes a document.
    """
    offsets = np.zeros(len(documents) + 1, np.int64)  # [D+1]
    digest = sha256()
    row = 0
    with TableWriter(segment_path(folder, 0), PASSAGE_SCHEMA) as writer:
        for columns in documents.table.batches(["id", "title", "text"]):
            for id_, title, text in zip(*(column.to_pylist() for column in columns), strict=True):
                for passage in split_document(Document(id_, title, text), words, min_words):
                    writer.write(passage_row(passage), len(passage.text))
                    digest.update(f"{passage.id}\0{title}\0{passage.text}\0".encode())
                row += 1
                offsets[row] = writer.rows
            on_documents(len(columns[0]))
    np.save(folder / "offsets.npy", offsets)
    return {"passages": writer.rows, "words": words, "content_sha256": digest.hexdigest()}


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
        """The rows of passage ids, int64 [n]; -1 for ids that the index does not hold."""
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
