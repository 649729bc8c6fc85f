"""JSON collections without links: BEIR's `corpus.jsonl`, and those of Pyserini and Anserini.

BEIR: `{"_id", "title", "text", "metadata"}`; a document is a passage. The id may be called `docid`, as in
the corpora of Tevatron and MIRACL, or `doc_id`, as ir_datasets writes it. In a folder, files of queries are
not read.

Pyserini: objects with `id` and `contents`. A file is JSON lines, an array of objects or one object; a
folder of such files is a collection too (what Anserini's `-input` expects of a `JsonCollection`).
`contents` is the searched text. A title may be its first line, in quotation marks, as in DPR's collections
(`"Title"\\ntext`), or a field `title`; a field `text`, if there is one, is the text. Of the other fields
only `url` is read.
"""

from __future__ import annotations

from collections.abc import Iterable

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.json_files import DocumentsReader, JsonReader, keys_of_first
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


class PyseriniReader(JsonReader):
    """One document an object, without links."""

    name = "pyserini"
    description = "a JSON collection of Pyserini or Anserini, a file or a folder: `id`, `contents`"
    passage = "an object"
    passage_words = 0

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has `id` and `contents`."""
        return keys_of_first(head) >= {b'"id"', b'"contents"'}

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        title = field_text(row, "title", default="")
        if row.get("text") is not None:
            text = field_text(row, "text")
        else:
            title, text = _split_title(field_text(row, "contents"), title)
        yield Document(
            id=field_text(row, "id"), title=title, text=text, url=field_text(row, "url", default="")
        )


def _split_title(contents: str, title: str) -> tuple[str, str]:
    """(title, text): a first line that is the title, or is in quotation marks, is not part of the text."""
    first, line_break, rest = contents.partition("\n")
    quoted = len(first) >= 2 and first[0] == first[-1] == '"'
    bare = first[1:-1] if quoted else first
    if line_break and (bare == title if title else quoted):
        return bare, rest
    return title, contents
