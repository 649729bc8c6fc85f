"""Documents in memory: the rows of `jsonl`, or `Document` records, without a file.

Each becomes one line of JSON as `jsonl` has it, so the same rules and errors hold for both. What is held is
these lines: a corpus that is larger than the memory belongs in a file.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.documents import Document
from linkseek.indexer.files.sources import MAX_RECORD, MemorySource, Reading
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.jsonl import JsonlReader
from linkseek.indexer.readers.reader import Record

IN_MEMORY = Path("documents in memory")
"""Stands for the path of a file, in errors and in the manifest."""

_EXAMPLE = 'For example: {"id": "Mars", "title": "Mars", "text": "Mars is a planet.", "links": []}'


class Documents(JsonlReader):
    """Documents that the caller holds, in the order given."""

    def __init__(self, documents: Iterable[Document | Mapping[str, Any]]) -> None:
        """Raises `InputError` naming the first that is neither a `Document` nor a dictionary of JSON."""
        super().__init__(IN_MEMORY)
        self._lines = [_line(number, document) for number, document in enumerate(documents, start=1)]
        if not self._lines:
            raise InputError(f"{IN_MEMORY}: no document was given", _EXAMPLE)

    def records(self, on_open: Callable[[Reading], None] | None = None) -> Iterator[Record]:
        """The lines, numbered from 1."""
        source = MemorySource(self._lines)
        if on_open:
            on_open(source)
        for number, line in enumerate(source, start=1):
            yield Record(f"number {number:,}", line)

    def state(self) -> dict[str, Any]:
        """Size and hash: the same documents give the same index, whichever process holds them."""
        source = MemorySource(self._lines)
        deque(source, maxlen=0)
        return {"corpus": str(self.path), "bytes": source.size, "sha256": source.sha256()}


def _line(number: int, document: Document | Mapping[str, Any]) -> bytes:
    """One line of JSON, with its line break."""
    place = f"{IN_MEMORY}, number {number:,}"
    if not isinstance(document, Document | Mapping):
        raise InputError(f"{place}: {type(document).__name__}, expected a Document or a dictionary", _EXAMPLE)
    try:
        line = orjson.dumps(document, default=dict, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
    except orjson.JSONEncodeError as error:
        raise InputError(f"{place}: not JSON ({error})", _EXAMPLE) from None
    if len(line) >= MAX_RECORD:
        raise InputError(f"{place}: {len(line):,} bytes, expected fewer than {MAX_RECORD:,}", "Divide it.")
    return line
