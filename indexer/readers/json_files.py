"""The base of formats whose corpus is JSON: a file of lines, an array or an object, or a folder of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader
from typing import BinaryIO, cast

from linkseek.indexer.files.json_stream import BLANK, first_keys, read_entries
from linkseek.indexer.files.sources import MAX_RECORD, read_lines
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.text import escaped
from linkseek.indexer.readers.folder.folders import FolderReader
from linkseek.indexer.readers.reader import Record


class JsonReader(FolderReader):
    """One document an object."""

    suffixes = tuple(
        f".{kind}{packed}"
        for kind in ("json", "jsonl", "ndjson")
        for packed in ("", ".gz", ".bz2", ".zst", ".xz", ".lzma", ".zip")
    )

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


class DocumentsReader(JsonReader):
    """Files of documents that may lie next to files of queries and judgements."""

    @classmethod
    def reads(cls, name: str) -> bool:
        """JSON, but no queries or judgements by its name."""
        return super().reads(name) and not _QUERIES.search(name)


def keys_of_first(head: bytes) -> set[bytes]:
    """The keys (with their quotation marks) of the first object of a file, or of its array."""
    return first_keys(head.lstrip(BLANK + b"["))


_MULTILINE = re.compile(rb"\{(?:[^\n]*(?:[{\[:]|[^}],))?[ \t\r]*\n")
"""The first line of an object that spans several lines."""
_QUERIES = re.compile(r"(?:^|/)(?:queries|questions|topics|qrels)\b[^/]*$", re.IGNORECASE)
