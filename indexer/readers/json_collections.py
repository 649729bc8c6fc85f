"""JSON collections without links: BEIR's `corpus.jsonl`, and those of Pyserini and Anserini.

BEIR: `{"_id", "title", "text", "metadata"}`; a document is a passage. The id may be called `docid`, as in
the corpora of Tevatron and MIRACL, `doc_id`, as ir_datasets writes it, or `pid`, as MS MARCO v2 does, whose
texts are a `passage`, a `segment` or a `body`. In a folder, files of queries are not read.

Pyserini: objects with `id` and `contents`. A file is JSON lines, an array of objects or one object; a
folder of such files is a collection too (what Anserini's `-input` expects of a `JsonCollection`).
`contents` is the searched text. A title may be its first line, in quotation marks, as in DPR's collections
(`"Title"\\ntext`), or a field `title`; a field `text`, if there is one, is the text. Of the other fields
only `url` is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar

from linkseek.indexer.documents import Document
from linkseek.indexer.readers.jsonl import JsonReader, field_text, keys_of_first, load_object
from linkseek.indexer.readers.reader import Outcome, Record

_IDS = ("_id", "pid", "docid", "doc_id")
_TEXTS = ("text", "passage", "segment", "body")


def _first_of(names: Iterable[str], row: Collection[str]) -> str:
    return next((name for name in names if name in row), "")


class BeirReader(JsonReader):
    """One document an object, without links."""

    name = "beir"
    description = (
        "BEIR's `corpus.jsonl`, a file or a folder: `_id` (`docid`, `pid`), `title`, `text` (`passage`)"
    )
    passage = "a document"
    passage_words = 0
    texts: ClassVar[tuple[str, ...]] = _TEXTS[:3]

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has an id and a text of these names, and is not one of KILT's."""
        keys = {key.decode("utf-8", "replace").strip('"') for key in keys_of_first(head)}
        id_, text = _first_of(_IDS, keys), _first_of(_TEXTS, keys)
        others = keys & ({"wikipedia_id", "id"} if id_ == "pid" else {"wikipedia_id"})
        return bool(id_) and text in cls.texts and not others

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document; headings that the text lacks begin it."""
        row = load_object(record.payload)
        metadata = row.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        text, title = field_text(row, _first_of(_TEXTS, row) or "text"), field_text(row, "title", default="")
        headings = [heading.strip() for heading in field_text(row, "headings", default="").split("\n")]
        missing = [heading for heading in headings if heading not in text and heading != title]
        yield Document(
            id=field_text(row, _first_of(_IDS, row) or "_id"),
            title=title,
            text="\n\n".join([*missing, text]),
            url=field_text(row, "url", default=field_text(fields, "url", default="")),
        )


class MsmarcoV2Reader(BeirReader):
    """Documents of MS MARCO's second version; its passages and segments are as BEIR's."""

    name = "msmarco-v2"
    description = "MS MARCO v2's documents, a file or a folder: `docid`, `url`, `title`, `headings`, `body`"
    passage = "100 words"
    passage_words = 100
    texts = _TEXTS[3:]


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
