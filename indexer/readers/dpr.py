"""DPR's `psgs_w100.tsv`: id, text, title, tab-separated; its rows are passages of 100 words.

The file is written by Python's csv module: a field with a quotation mark is quoted and its quotation marks
are doubled. Rows that were printed instead, without quoting, are taken as they are. No field holds a line
break (21,015,324 rows are as many lines), so lines can be split without a CSV parser's state and a damaged
row cannot swallow its neighbours.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.reader import Outcome, Reader, Record, damaged

_HEADER = ["id", "text", "title"]


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
        try:
            line = record.payload.decode("utf-8")
            row = next(csv.reader([line], delimiter="\t", strict=True))
        except UnicodeDecodeError as error:
            raise damaged(f"not a row of tab-separated UTF-8 ({error})") from None
        except csv.Error as error:
            row = line.split("\t")
            if len(row) != 3:
                raise damaged(f"not a row of tab-separated UTF-8 ({error})") from None
        if row == _HEADER and record.place == "line 1":
            return
        if len(row) != 3:
            raise damaged(f"{len(row)} fields, expected 3 ({', '.join(_HEADER)})")
        yield Document(id=row[0], title=row[2], text=row[1])
