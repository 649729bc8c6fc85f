"""BEIR's `corpus.jsonl`: `{"_id", "title", "text", "metadata"}`; a document is a passage.

The id may be called `docid`, as in the corpora of Tevatron and MIRACL, or `doc_id`, as ir_datasets writes it.
In a folder, files of queries are not read.
"""

from __future__ import annotations

from collections.abc import Iterable

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.json_files import DocumentsReader, keys_of_first
from linkseek.indexer.readers.jsonl import field_text, load_object
from linkseek.indexer.readers.reader import Outcome, Record


class BeirReader(DocumentsReader):
    """One document an object, without links."""

    name = "beir"
    description = "BEIR's `corpus.jsonl`, a file or a folder: `_id` (or `docid`), `title`, `text`"
    passage = "a document"
    passage_words = 0

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has an id of these names and `text`, and is not one of KILT's."""
        keys = keys_of_first(head)
        return b'"text"' in keys and not keys.isdisjoint(_KEYS) and b'"wikipedia_id"' not in keys

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        metadata = row.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        yield Document(
            id=field_text(row, next((name for name in _IDS if name in row), "_id")),
            title=field_text(row, "title", default=""),
            text=field_text(row, "text"),
            url=field_text(row, "url", default=field_text(fields, "url", default="")),
        )


_IDS = ("_id", "docid", "doc_id")
_KEYS = {f'"{name}"'.encode() for name in _IDS}
