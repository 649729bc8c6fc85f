"""MS MARCO's two corpora of its first version, as tab-separated rows without a header.

`collection.tsv` holds 8,841,823 passages (pid, text), `msmarco-docs.tsv` 3,213,835 documents (docid,
url, title, body). Fields are not quoted: a quotation mark stands for itself. Texts are kept as they
are published, with the encoding errors that some of them have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import BinaryIO

from indexer.base.errors import InputError
from indexer.documents import Document
from indexer.files.sources import read_lines
from indexer.readers import Outcome, Reader, Record

_SHORTEST_PASSAGES = 200
"""Characters. Rows of a number and a text may be questions too, which the median length tells apart: it
is 313 for MS MARCO's passages, 31 for its questions, and 110 for the longest questions we know (CACM)."""


class MsmarcoPassagesReader(Reader):
    """One passage a row, without title."""

    name = "msmarco-passages"
    summary = "MS MARCO's collection.tsv: pid, text (passages)"
    passage_words = 0

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Nearly every row is a number and a text, and the texts are as long as passages."""
        lines = head.split(b"\n")
        lines = [line for line in lines[:-1] or lines if line.strip()]  # the last one may be cut off
        rows = [re.fullmatch(rb"[0-9]+\t([^\t]*)", line) for line in lines]
        texts = [len(row[1]) for row in rows if row]
        return len(texts) > 0.9 * len(lines) and median(texts) >= _SHORTEST_PASSAGES

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """One record a line."""
        for number, line in read_lines(stream):
            yield Record(f"line {number:,}", line)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, which is a passage."""
        id_, text = _fields(record.payload, "pid", "text")
        yield Document(id=id_, title="", text=text)


class MsmarcoDocumentsReader(Reader):
    """One web page a row; the title `.` stands for none."""

    name = "msmarco-documents"
    summary = "MS MARCO's msmarco-docs.tsv: docid, url, title, body"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first row begins with a docid such as D1555982, an address and a title."""
        return re.match(rb"D[0-9]+\thttps?://[^\t\n]*\t[^\t\n]*\t", head) is not None

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """One record a line."""
        for number, line in read_lines(stream):
            yield Record(f"line {number:,}", line)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        id_, url, title, body = _fields(record.payload, "docid", "url", "title", "body")
        yield Document(id=id_, title="" if title.strip() == "." else title, text=body, url=url)


def _fields(line: bytes, *names: str) -> list[str]:
    try:
        row = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 ({error})", _MEND) from None
    if len(row) != len(names):
        raise InputError(f"{len(row)} fields, expected {len(names)} ({', '.join(names)})", _MEND)
    return row


_MEND = "Mend the line, or use --on-error skip to leave it out."
