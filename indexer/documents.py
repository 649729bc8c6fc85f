"""Documents and their links: the records, and the store that keeps them.

A store is a folder of Arrow IPC files ("segments") that are memory-mapped when opened, so a document is read
without loading its neighbours, and any Arrow reader can open them. Writing keeps one batch in memory. Every
reader produces these records, and passages and links are made from them; they are independent of source
formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urljoin

import pyarrow as pa

from linkseek.indexer.store.artifacts import DOCUMENTS, part_segments
from linkseek.indexer.store.tables import Row, Table


@dataclass(frozen=True, slots=True)
class Link:
    """A hyperlink: `text[start:end]` is its anchor, in characters, half-open.

    `target` is the id of a document or of a redirect, in the id space of the same corpus; it may be
    no document's (a dangling link).
    """

    start: int
    end: int
    target: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading. `start` is the character where the section's text begins; the lead has no section.

    `anchor` is the part after "#" in the section's address; empty where unknown.
    """

    start: int
    heading: str
    level: int
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One page of the corpus. Links and sections are sorted by `start` and lie within `text`."""

    id: str
    title: str
    text: str
    links: tuple[Link, ...] = ()
    sections: tuple[Section, ...] = ()
    url: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another name of a document: links to `id` lead to `target` (which may be a redirect again)."""

    id: str
    target: str


_LINK = pa.struct([("start", pa.int32()), ("end", pa.int32()), ("target", pa.string())])
_SECTION = pa.struct(
    [("start", pa.int32()), ("heading", pa.string()), ("level", pa.int8()), ("anchor", pa.string())]
)

DOCUMENT_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("links", pa.list_(_LINK)),
        ("sections", pa.list_(_SECTION)),
        ("url", pa.string()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)

REDIRECT_SCHEMA = pa.schema([("id", pa.string()), ("target", pa.string())])


def document_row(document: Document) -> Row:
    """One row of `DOCUMENT_SCHEMA`, for writing (Arrow converts tuples 40 times as fast as dictionaries)."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "links": [(link.start, link.end, link.target) for link in document.links],
        "sections": [(each.start, each.heading, each.level, each.anchor) for each in document.sections],
        "url": document.url,
        "metadata": list(document.metadata.items()),
    }


def document_from_row(row: Row) -> Document:
    """A document from a row as a table gives it."""
    nested = {
        "links": tuple(Link(**link) for link in row["links"]),
        "sections": tuple(Section(**section) for section in row["sections"]),
        "metadata": dict(row["metadata"]),
    }
    return Document(**row | nested)


class DocumentStore:
    """The documents of an index by row; memory-mapped, so opening costs the same at any size."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Open segment files in order. Raises `DamagedIndexError` if one is cut off."""
        self.table = Table(paths, DOCUMENT_SCHEMA)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, row: int) -> Document:
        """The document at a row. Raises IndexError outside [0, len)."""
        return document_from_row(self.table.row(row))

    def __iter__(self) -> Iterator[Document]:
        return map(document_from_row, self.table.rows())


def redirect_table(indexes: Sequence[Path]) -> Table:
    """The redirects of indexes, one after another."""
    return Table(part_segments(indexes, DOCUMENTS, "redirects-"), REDIRECT_SCHEMA)


_MARKDOWN = re.compile(r"(?:/(?:index|readme|_index))?\.(?:md|markdown|mdx)\Z", re.I)


def page_address(base: str, path: str) -> str:
    """The address of a page by its path in the folder of its site. base: the address of the folder.

    Pages of Markdown are expected as generators of sites publish them: guide/install/ for guide/install.md.
    """
    published = _MARKDOWN.sub("/", f"/{path}").lstrip("/")
    return urljoin(base if base.endswith("/") else f"{base}/", quote(published))


def document_folder(id_: str, url: str) -> str:
    """The folder of a document: of its id if that is a path, else of its address; empty without any."""
    path = id_ if "/" in id_ else url
    return re.sub(r"^[a-z]+://", "", path).rpartition("/")[0]


def section_address(page: str, anchor: str) -> str:
    """The address of a section of a page by its anchor."""
    return f"{page.partition('#')[0]}#{quote(anchor)}"
