"""BEIR's `corpus.jsonl`: `{"_id", "title", "text", "metadata"}`; a document is a passage."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.jsonl import field_text, first_object_has, load_object
from linkseek.indexer.readers.reader import Outcome, Reader, Record


class BeirReader(Reader):
    """One document a line, without links."""

    name = "beir"
    description = "BEIR's `corpus.jsonl`: `_id`, `title`, `text`"
    passage = "a document"
    passage_words = 0

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first line is an object with `_id` and `text`, and not one of KILT's."""
        return first_object_has(head, b'"_id"', b'"text"') and not first_object_has(head, b'"wikipedia_id"')

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        metadata = row.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        yield Document(
            id=field_text(row, "_id"),
            title=field_text(row, "title", default=""),
            text=field_text(row, "text"),
            url=field_text(fields, "url", default=""),
        )
