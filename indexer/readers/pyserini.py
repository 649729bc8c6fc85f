"""Pyserini's and Anserini's JSON collections: objects with `id` and `contents`.

A file is JSON lines, an array of objects or one object; a folder of such files is a collection too
(what Anserini's `-input` expects of a `JsonCollection`). `contents` is the searched text. A title may be
its first line, in quotation marks, as in DPR's collections (`"Title"\\ntext`), or a field `title`;
a field `text`, if there is one, is the text. Of the other fields only `url` is read.
"""

from __future__ import annotations

from collections.abc import Iterable

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.json_files import JsonReader, keys_of_first
from linkseek.indexer.readers.jsonl import field_text, load_object
from linkseek.indexer.readers.reader import Outcome, Record


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
