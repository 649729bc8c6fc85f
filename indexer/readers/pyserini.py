"""Pyserini's and Anserini's JSON collections: objects with `id` and `contents`.

A file is JSON lines, an array of objects or one object; a folder of such files is a collection too
(what Anserini's `-input` expects of a `JsonCollection`). `contents` is the searched text. A title may be
its first line, in quotation marks, as in DPR's collections (`"Title"\\ntext`), or a field `title`;
a field `text`, if there is one, is the text. Of the other fields only `url` is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from io import BufferedReader
from typing import BinaryIO, cast

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.base.text import escaped
from linkseek.indexer.documents import Document
from linkseek.indexer.files.json_stream import BLANK, first_keys, read_entries
from linkseek.indexer.files.sources import MAX_RECORD, read_lines
from linkseek.indexer.readers.folders import FolderReader
from linkseek.indexer.readers.jsonl import field_text, load_object
from linkseek.indexer.readers.reader import Outcome, Record


class PyseriniReader(FolderReader):
    """One document an object, without links."""

    name = "pyserini"
    description = "a JSON collection of Pyserini or Anserini, a file or a folder: `id`, `contents`"
    passage = "an object"
    passage_words = 0
    file = "JSON file"
    suffixes = tuple(
        f".{kind}{packed}" for kind in ("json", "jsonl") for packed in ("", ".gz", ".bz2", ".zst")
    )

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has `id` and `contents`."""
        return first_keys(head.lstrip(BLANK + b"[")) >= {b'"id"', b'"contents"'}

    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """One record a line, or an entry of the array, or the whole file."""
        inside = f"{escaped(name)}, " if self.path.is_dir() else ""
        head = cast(BufferedReader, stream).peek().lstrip(BLANK)  # what `open_source` gives
        if head.startswith(b"["):
            for number, entry in enumerate(read_entries(stream, self.path_of(name)), start=1):
                yield Record(f"{inside}entry {number:,}", entry)
        elif _MULTILINE.match(head):
            content = stream.read(MAX_RECORD + 1)
            if len(content) > MAX_RECORD:
                hint = "Write one object a line, or an array of objects."
                raise InputError(f"{self.path_of(name)}: an object of more than {MAX_RECORD:,} bytes", hint)
            yield Record(f"{inside}its object", content)
        else:
            for number, line in read_lines(stream):
                yield Record(f"{inside}line {number:,}", line)

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


_MULTILINE = re.compile(rb"\{(?:[^\n]*(?:[{\[:]|[^}],))?[ \t\r]*\n")
"""The first line of an object that spans several lines."""


def _split_title(contents: str, title: str) -> tuple[str, str]:
    """(title, text): a first line that is the title, or is in quotation marks, is not part of the text."""
    first, line_break, rest = contents.partition("\n")
    quoted = len(first) >= 2 and first[0] == first[-1] == '"'
    bare = first[1:-1] if quoted else first
    if line_break and (bare == title if title else quoted):
        return bare, rest
    return title, contents
