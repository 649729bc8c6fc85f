"""MS MARCO's two corpora of its first version, as tab-separated rows without a header.

`collection.tsv` holds 8,841,823 passages (pid, text), `msmarco-docs.tsv` 3,213,835 documents (docid,
url, title, body). Fields are not quoted: a quotation mark stands for itself. Texts are read as
published, with the encoding errors that some of them have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.reader import Outcome, Reader, Record, damaged

_SHORTEST_PASSAGES = 200
"""Characters. Rows of a number and a text may be questions too, which differ by their median length: it is
313 for MS MARCO's passages, 31 for its questions, and 110 for the longest questions known to us (CACM)."""


class MsmarcoPassagesReader(Reader):
    """One passage a row, without title."""

    name = "msmarco-passages"
    description = "MS MARCO's `collection.tsv`: pid, text"
    passage = "a row"
    passage_words = 0

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Nearly every row is a number and a text, and the texts are as long as passages."""
        lines = head.split(b"\n")
        lines = [line for line in lines[:-1] or lines if line.strip()]  # the last one may be cut off
        rows = [re.fullmatch(rb"[0-9]+\t([^\t]*)", line) for line in lines]
        texts = [len(row[1]) for row in rows if row]
        return len(texts) > 0.9 * len(lines) and median(texts) >= _SHORTEST_PASSAGES

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, which is a passage."""
        id_, text = _fields(record.payload, "pid", "text")
        yield Document(id=id_, title="", text=text)


class MsmarcoDocumentsReader(Reader):
    """One web page a row; the title `.` stands for none."""

    name = "msmarco-documents"
    description = "MS MARCO's `msmarco-docs.tsv`: docid, url, title, body"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first row begins with a docid such as D1555982, an address and a title."""
        return re.match(rb"D[0-9]+\thttps?://[^\t\n]*\t[^\t\n]*\t", head) is not None

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        id_, url, title, body = _fields(record.payload, "docid", "url", "title", "body")
        yield Document(id=id_, title="" if title.strip() == "." else title, text=body, url=url)


def _fields(line: bytes, *names: str) -> list[str]:
    try:
        row = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise damaged(f"not UTF-8 ({error})") from None
    if len(row) != len(names):
        raise damaged(f"{len(row)} fields, expected {len(names)} ({', '.join(names)})")
    return row
