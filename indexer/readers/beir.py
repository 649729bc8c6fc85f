"""BEIR's `corpus.jsonl`: `{"_id", "title", "text", "metadata"}`; a document is a passage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from indexer.documents import Document
from indexer.files.sources import read_lines
from indexer.readers import Outcome, Reader, Record
from indexer.readers.jsonl import field_text, first_object_has, load_object


class BeirReader(Reader):
    """One document a line, without links."""

    name = "beir"
    summary = "BEIR's corpus.jsonl: _id, title, text"
    passage_words = 0

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first line is an object with `_id` and `text`."""
        return first_object_has(head, b'"_id"', b'"text"')

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """One record a line."""
        for number, line in read_lines(stream):
            yield Record(f"line {number:,}", line)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        metadata = row.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        yield Document(
            id=field_text(row, "_id"),
            title=field_text(row, "title", default=""),
            text=field_text(row, "text"),
            url=str(fields.get("url", "")),
        )
