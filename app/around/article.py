"""An article as people read it: its text with links, its passages with their dual links, its neighbours.

All of it is looked up around the article: its own links, the links that lead to it, and nothing else of the
index. What a passage's dual links are, `retriever.links.topology` says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.around.titles import Found, found
from indexer.base.errors import InputError
from indexer.documents import Section
from indexer.index import Index

PAGE = 50
"""Passages that are shown at a time."""
MAX_NEIGHBOURS = 40
"""Neighbours of a kind that are shown."""
MAX_DUALS = 8
"""Dual links of a passage that are shown."""
MAX_CHARACTERS = 20_000
"""Of a passage that are shown: one of a whole document can be a book."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A link in a text: `text[start:end]` leads to another document."""

    start: int
    end: int
    target: Found


@dataclass(frozen=True, slots=True)
class Heading:
    """A section that begins in a passage, at a character of its text."""

    start: int
    text: str
    level: int


@dataclass(frozen=True, slots=True)
class DualLinks:
    """Another document that a passage links to, and those of its passages that link back, by id."""

    target: Found
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadPassage:
    """A passage to be read. number: in its document, from 1. more_duals: how many are not among `duals`."""

    id: str
    number: int
    text: str
    cut: bool
    anchors: tuple[Anchor, ...]
    headings: tuple[Heading, ...]
    duals: tuple[DualLinks, ...]
    more_duals: int = 0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another document, with the number of links to it and from it."""

    target: Found
    links_to: int
    links_from: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Documents of one kind, those with the most links first. count: of all, also those not listed."""

    count: int
    first: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """A document, a page of its passages from number `first` on, and its neighbours.

    mutual: documents linked in both directions; incoming, outgoing: in that one alone. links: in its
    passages, to other documents.
    """

    row: int
    id: str
    title: str
    url: str
    passages: tuple[ReadPassage, ...]
    first: int
    count: int
    links: int
    mutual: Neighbours
    incoming: Neighbours
    outgoing: Neighbours


def article_row(index: Index, id_: str) -> int:
    """The row of a document. Raises `InputError` if the index has none of that id."""
    row = index.document_ids.row(id_)
    if not 0 <= row < len(index.documents) or index.documents.table.value("id", row) != id_:
        raise InputError(
            f'there is no article "{id_[:100]}" in this index',
            "Look for it by its title; the index may have been built again since this address was shared.",
        )
    return row


def passage_number(index: Index, row: int, passage_id: str) -> int:
    """Which passage of a document an id is of, from 1; 0 if it is none of its own."""
    passage = int(index.passages.rows_of([passage_id])[0])
    first, last = map(int, index.passages.offsets[row : row + 2])
    return passage - first + 1 if first <= passage < last else 0


def read_article(index: Index, row: int, first: int = 1) -> Article:
    """A document and `PAGE` of its passages, those from number `first` on."""
    passages, graph = index.passages, index.links
    begin, end = map(int, passages.offsets[row : row + 2])
    first = min(max(first, 1), max(end - begin, 1))
    links = slice(int(graph.offsets[begin]), int(graph.offsets[end]))
    targets, counts = _counted(graph.target[links], row)
    back = graph.passage[graph.to_document(row)]  # passages with a link to the document
    sources = passages.document_rows(back.astype(np.int64))
    origins, back_counts = _counted(sources, row)
    names = _Names(index)
    who = found(index, row)
    out, here = dict(zip(targets, counts, strict=True)), dict(zip(origins, back_counts, strict=True))
    linking_back = _linking_back(back, sources, out.keys() & here.keys())
    sections = [Section(**section) for section in index.documents.table.value("sections", row) or []]
    shown = range(begin + first - 1, min(begin + first - 1 + PAGE, end))
    return Article(
        row=row,
        id=who.id,
        title=who.title,
        url=str(index.documents.table.value("url", row)),
        passages=tuple(
            _read(index, passage, passage - begin + 1, row, sections, linking_back, names)
            for passage in shown
        ),
        first=first,
        count=end - begin,
        links=int(sum(counts)),
        mutual=_neighbours(out.keys() & here.keys(), out, here, names),
        incoming=_neighbours(here.keys() - out.keys(), out, here, names),
        outgoing=_neighbours(out.keys() - here.keys(), out, here, names),
    )


class _Names:
    """The names of documents, each looked up once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[int, Found] = {}

    def __getitem__(self, row: int) -> Found:
        if row not in self._known:
            self._known[row] = found(self._index, row)
        return self._known[row]


def _counted(documents: NDArray[np.integer], but: int) -> tuple[list[int], list[int]]:
    """The different documents but one, ascending, and how often each occurs."""
    rows, counts = np.unique(documents, return_counts=True)
    others = rows != but
    return rows[others].tolist(), counts[others].tolist()


def _linking_back(
    passages: NDArray[np.integer], sources: NDArray[np.integer], mutual: AbstractSet[int]
) -> dict[int, list[int]]:
    """The passages that link here, by their document, of those that are linked from here."""
    by_document: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(np.isin(sources, list(mutual))):
        listed = by_document[int(sources[place])]
        if not listed or listed[-1] != int(passages[place]):  # in reading order: equal ones are neighbours
            listed.append(int(passages[place]))
    return by_document


def _neighbours(
    rows: AbstractSet[int], out: Mapping[int, int], here: Mapping[int, int], names: _Names
) -> Neighbours:
    order = sorted(rows, key=lambda row: (-out.get(row, 0) - here.get(row, 0), row))[:MAX_NEIGHBOURS]
    return Neighbours(
        len(rows), tuple(Neighbour(names[row], out.get(row, 0), here.get(row, 0)) for row in order)
    )


def _read(
    index: Index,
    passage: int,
    number: int,
    document: int,
    sections: Sequence[Section],
    linking_back: Mapping[int, Sequence[int]],
    names: _Names,
) -> ReadPassage:
    stored, graph = index.passages[passage], index.links
    anchors = []
    back: dict[int, None] = {}  # documents, in the order of reading
    for link in graph.from_passage(passage):
        target = int(graph.target[link])
        if target == document:
            continue
        start, end = int(graph.start[link]), int(graph.end[link])
        if end <= MAX_CHARACTERS:
            anchors.append(Anchor(start, end, names[target]))
        if target in linking_back:
            back[target] = None
    duals = [
        DualLinks(names[target], tuple(index.passages.ids(linking_back[target][:MAX_DUALS])))
        for target in [*back][:MAX_DUALS]
    ]
    # A section may begin in the white space before a passage, which belongs to none.
    before = 0 if number == 1 else int(index.passages.table.value("end", passage - 1))
    return ReadPassage(
        id=stored.id,
        number=number,
        text=stored.text[:MAX_CHARACTERS],
        cut=len(stored.text) > MAX_CHARACTERS,
        anchors=tuple(anchors),
        headings=tuple(
            Heading(max(section.start - stored.start, 0), section.heading, section.level)
            for section in sections
            if before <= section.start < min(stored.end, stored.start + MAX_CHARACTERS)
        ),
        duals=tuple(duals),
        more_duals=len(back) - len(duals),
    )
