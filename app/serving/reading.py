"""Documents and passages by id, and the links around them; for HTTP and MCP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from urllib.parse import unquote, urlsplit

import numpy as np
from typing_extensions import TypedDict

from linkseek.app.context.article import article_row, read_article
from linkseek.app.service import SearchService
from linkseek.app.serving.indexes import NoSuchNameError
from linkseek.indexer.program.errors import InputError

MAX_CHARACTERS = 1_000_000
"""Characters of a document in a response; the rest is omitted, and the response says so."""
MAX_LINKS = 1_000
"""The maximum number of links in a response."""


class Named(TypedDict):
    """A passage or document by id and title."""

    id: str
    title: str


class BacklinkReply(Named):
    """The passage that has a link, and the words of the link; id and title are of its other end."""

    passage_id: str
    anchor: str


class LinkReply(BacklinkReply):
    """A link with its place in the text of its passage."""

    start: int
    end: int


class NeighbourReply(Named):
    """A document linked with another. direction: "both", "incoming" or "outgoing"."""

    direction: str
    links_to: int
    links_from: int


class PassageReply(Named):
    """A passage, `number` of the `of` passages of its document."""

    document_id: str
    text: str
    url: str
    number: int
    of: int
    links: list[LinkReply]


class DocumentReply(Named):
    """A document: its text, or the beginning; ids of its passages; its links, and links to it."""

    url: str
    text: str
    is_cut: bool
    passages: list[str]
    links: list[LinkReply]
    backlinks: list[BacklinkReply]


class Titled(Named):
    """A text with its title."""

    contents: str


class ASearcherPage(Titled):
    """A document as ASearcher reads it."""

    url: str


def passage(service: SearchService, id_: str) -> PassageReply:
    """A passage with its place in its document and its links. Raises `NoSuchNameError`."""
    index = service.index
    row = int(index.passages.rows_of([id_])[0])
    if row < 0 or index.passages.table.value("id", row) != id_:
        raise NoSuchNameError(f'there is no passage "{id_[:100]}" in this index', "Search for its id.")
    stored, document = index.passages[row], int(index.passages.document_rows(np.array([row]))[0])
    first, last = map(int, index.passages.offsets[document : document + 2])
    links = [_link(service, link, stored.text) for link in index.links.from_passage(row)[:MAX_LINKS]]
    return {
        "id": stored.id,
        "document_id": stored.document_id,
        "title": stored.title,
        "text": stored.text,
        "url": index.document_url(row),
        "number": row - first + 1,
        "of": last - first,
        "links": links,
    }


def document(service: SearchService, id_: str) -> DocumentReply:
    """A document: its text, its passages, its links, and the documents that link to it.

    Raises `NoSuchNameError`.
    """
    index, row = service.index, document_row(service, id_)
    stored = index.documents.table.row(row)
    begin, end = map(int, index.passages.offsets[row : row + 2])
    text = str(stored["text"])
    return {
        "id": str(stored["id"]),
        "title": str(stored["title"]),
        "url": str(stored["url"]),
        "text": text[:MAX_CHARACTERS],
        "is_cut": len(text) > MAX_CHARACTERS,
        "passages": [
            str(index.passages.table.value("id", n)) for n in range(begin, min(end, begin + MAX_LINKS))
        ],
        "links": links_out(service, row),
        "backlinks": links_in(service, row),
    }


def passage_or_document(service: SearchService, id_: str) -> PassageReply | DocumentReply:
    """The passage of an id, or else the document. Raises `NoSuchNameError`."""
    try:
        return passage(service, id_)
    except NoSuchNameError:
        return document(service, id_)


def document_row(service: SearchService, id_: str) -> int:
    """The row of a document by its id, or by the id of one of its passages. Raises `NoSuchNameError`."""
    try:
        return article_row(service.index, id_)
    except InputError as error:
        row = int(service.index.passages.rows_of([id_])[0])
        if row >= 0 and service.index.passages.table.value("id", row) == id_:
            return int(service.index.passages.document_rows(np.array([row]))[0])
        raise NoSuchNameError(error.message.replace("article", "document", 1), "Search for its id.") from None


def links_out(service: SearchService, row: int) -> list[LinkReply]:
    """The links of a document to others, in reading order."""
    index, graph = service.index, service.index.links
    begin, end = map(int, index.passages.offsets[row : row + 2])
    links = range(int(graph.offsets[begin]), int(graph.offsets[end]))
    others = (link for link in links if int(graph.target[link]) != row)
    return [_link(service, link) for link, _ in zip(others, range(MAX_LINKS), strict=False)]


def links_in(service: SearchService, row: int) -> list[BacklinkReply]:
    """The passages of other documents that link to one, in reading order."""
    index, graph = service.index, service.index.links
    links: list[BacklinkReply] = []
    for link in graph.to_document(row).tolist():
        source = int(graph.passage[link])
        stored = index.passages[source]
        if int(index.passages.document_rows(np.array([source]))[0]) != row:
            anchor = stored.text[int(graph.start[link]) : int(graph.end[link])]
            id_, title = stored.document_id, stored.title or stored.document_id
            links.append(BacklinkReply(id=id_, title=title, passage_id=stored.id, anchor=anchor))
        if len(links) == MAX_LINKS:
            break
    return links


def related(service: SearchService, row: int) -> list[NeighbourReply]:
    """Documents linked with one, in both directions first, then by the number of links."""
    article = read_article(service.index, service.topology, row)
    kinds = {"both": article.mutual, "incoming": article.incoming, "outgoing": article.outgoing}
    return [
        {
            "id": one.target.id,
            "title": one.target.title,
            "direction": direction,
            "links_to": one.links_to,
            "links_from": one.links_from,
        }
        for direction, neighbours in kinds.items()
        for one in neighbours.first
    ]


def _link(service: SearchService, link: int, text: str | None = None) -> LinkReply:
    index, graph = service.index, service.index.links
    passage, target = int(graph.passage[link]), int(graph.target[link])
    text = str(index.passages.table.value("text", passage)) if text is None else text
    table, (start, end) = index.documents.table, (int(graph.start[link]), int(graph.end[link]))
    id_, passage_id = str(table.value("id", target)), str(index.passages.table.value("id", passage))
    title = str(table.value("title", target)) or id_
    return LinkReply(id=id_, title=title, passage_id=passage_id, anchor=text[start:end], start=start, end=end)


def page(service: SearchService, address: str) -> ASearcherPage | None:
    """The page behind a link: a document by its address, its id, or the title that ends its address."""
    for row in _rows_of_address(service, address):
        stored = service.index.documents.table.row(row)
        id_, url, title, text = (str(stored[name]) for name in ("id", "url", "title", "text"))
        return ASearcherPage(id=id_, url=url or id_, title=title, contents=text[:MAX_CHARACTERS])
    return None


def _rows_of_address(service: SearchService, address: str) -> Iterator[int]:
    row = service.addresses.row(address) if address else -1
    if row >= 0 and service.index.documents.table.value("url", row) == address:
        yield row
    for id_ in possible_ids(address):
        with suppress(InputError):
            yield article_row(service.index, id_)


def possible_ids(address: str) -> Sequence[str]:
    """Ids of documents that an address may stand for: the address, and the part after its last slash."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return [address]
    name = unquote(parts.path.rpartition("/")[2])
    titled = re.search(r"(?:^|&)title=([^&]+)", parts.query)
    names = [address, name, unquote(titled[1]) if titled else ""]
    spellings = [other for one in names for other in (one, one.replace("_", " "), one.replace(" ", "_"))]
    return [spelling for spelling in dict.fromkeys(spellings) if spelling]
