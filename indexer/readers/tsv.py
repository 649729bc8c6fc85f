"""Tables of passages and documents, one row a line: DPR's `psgs_w100.tsv`, MS MARCO's two corpora.

DPR's file (id, text, title) is written by Python's csv module: a field with a quotation mark is quoted and
its quotation marks are doubled. Rows that were printed instead, without quoting, are taken as they are. No
field holds a line break (21,015,324 rows are as many lines), so lines can be split without a CSV parser's
state and a damaged row cannot swallow its neighbours.

MS MARCO's `collection.tsv` holds 8,841,823 passages (pid, text), `msmarco-docs.tsv` 3,213,835 documents
(docid, url, title, body). Fields are not quoted: a quotation mark stands for itself. Texts are read as
published, with the encoding errors that some of them have.
"""

import csv
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from statistics import median

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.reader import Outcome, Reader, Record, damaged

_HEADER = ["id", "text", "title"]
_SHORTEST_PASSAGES = 200
"""Characters. Rows of a number and a text may be questions too, which differ by their median length: it is
313 for MS MARCO's passages, 31 for its questions, and 110 for the longest questions known to us (CACM)."""


class DprReader(Reader):
    """One passage a line; titles repeat, ids are numbers."""

    name = "dpr"
    description = "DPR's `psgs_w100.tsv`: id, text, title"
    passage = "a row"
    passage_words = 0

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first line is DPR's header."""
        return head.split(b"\n", 1)[0].strip() == b"id\ttext\ttitle"

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, which is a passage."""
        row = _fields(record.payload, *_HEADER, quoted=True)
        if row != _HEADER or record.place != "line 1":
            yield Document(id=row[0], title=row[2], text=row[1])


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


def _fields(line: bytes, *names: str, quoted: bool = False) -> list[str]:
    """The fields of a row. quoted: whether fields may be in quotation marks."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(f"not UTF-8 ({error})") from None
    row = text.split("\t")
    if quoted:
        with suppress(csv.Error):  # of a row that was printed
            row = next(csv.reader([text], delimiter="\t", strict=True))
    if len(row) != len(names):
        raise damaged(f"{len(row)} fields, expected {len(names)} ({', '.join(names)})")
    return row
