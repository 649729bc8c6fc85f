"""An article for reading: its text with links, its passages with their dual links, its neighbours."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from linkseek.app.context.titles import ArticleName, article_name
from linkseek.indexer.documents import Section
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.passages import regions
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.links.neighbourhood import around_document
from linkseek.retriever.links.topology import PassagePairs, Topology

PAGE = 50
"""The number of passages shown at a time."""
MAX_NEIGHBOURS = 40
"""The maximum number of neighbours of a kind that are shown."""
MAX_DUALS = 8
"""Dual links of a passage that are shown."""
MAX_CHARACTERS = 20_000
"""Characters of a passage that are shown: one of a whole document can be a book."""

_SENTENCE_END = re.compile(r"""[.!?…:;。！？؟।]["'”’»)\]]*\s*$""")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A link in a text: `text[start:end]` leads to another document."""

    start: int
    end: int
    target: ArticleName


class Heading(NamedTuple):
    """A section that begins in a passage, at a character of its text."""

    start: int
    text: str


class DualLinks(NamedTuple):
    """Another document that a passage links to, and the ids of the passages there that link back."""

    target: ArticleName
    passages: tuple[str, ...]


class ReadPassage(NamedTuple):
    """A passage for reading. number: in its document, from 1. more_duals: the number not in `duals`."""

    id: str
    number: int
    text: str
    cut: bool
    anchors: tuple[Anchor, ...]
    headings: tuple[Heading, ...]
    duals: tuple[DualLinks, ...]
    more_duals: int = 0


class Neighbour(NamedTuple):
    """Another document, with the number of links to it and from it."""

    target: ArticleName
    links_to: int
    links_from: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Documents of one kind, those with the most links first. count: the number of all neighbours, including
    those not listed.
    """

    count: int
    first: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """A document, a page of its passages from number `first` on, and its neighbours.

    mutual: documents linked in both directions; incoming, outgoing: in that one alone. links: in its
    passages, to other documents.
    """

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


def article_row(index: OpenIndex, id_: str) -> int:
    """The row of a document. Raises `InputError` if the index has no document of that id."""
    row = index.document_ids.row(id_)
    if not 0 <= row < len(index.documents) or index.documents.table.value("id", row) != id_:
        raise InputError(
            f'there is no article "{id_[:100]}" in this index',
            "Look for it by its title; the index may have been rebuilt since this address was shared.",
        )
    return row


def passage_number(index: OpenIndex, row: int, passage_id: str) -> int:
    """The number of a passage in its document, from 1; 0 for a passage of another document."""
    passage = int(index.passages.rows_of([passage_id])[0])
    first, last = map(int, index.passages.offsets[row : row + 2])
    return passage - first + 1 if first <= passage < last else 0


def section_path(index: OpenIndex, passage: int, at: int = 0) -> str:
    """The headings above a character of a passage, the outermost first; empty in the lead and without any."""
    place = int(index.passages.table.value("start", passage)) + at
    document = int(index.passages.document_rows(np.array([passage]))[0])
    sections = (Section(**row) for row in index.documents.table.value("sections", document) or ())
    above = next(names for _, end, names in regions(sections, sys.maxsize) if place < end)
    return " › ".join(" ".join(name.split()) for name in above)


def is_cut_before(index: OpenIndex, passage: int) -> bool:
    """Whether a sentence runs over the beginning of a passage, from the one before it of its document."""
    passages = index.passages
    if not 0 < passage < len(passages):
        return False
    before = passages[passage - 1]
    return before.document_id == passages[passage].document_id and not _SENTENCE_END.search(before.text)


def read_article(index: OpenIndex, topology: Topology, row: int, first: int = 1) -> Article:
    """A document and `PAGE` of its passages, those from number `first` on. topology: the topology of the
    whole index.
    """
    passages, graph = index.passages, index.links
    begin, end = map(int, passages.offsets[row : row + 2])
    first = min(max(first, 1), max(end - begin, 1))
    duals = around_document(topology, row).dual_links()
    targets = graph.target[int(graph.offsets[begin]) : int(graph.offsets[end])]
    sources = passages.document_rows(graph.passage[graph.to_document(row)].astype(np.int64))
    links_to = Counter(targets[targets != row].tolist())
    links_from = Counter(sources[sources != row].tolist())
    name = cache(partial(article_name, index))

    def neighbours(rows: AbstractSet[int]) -> Neighbours:
        order = sorted(rows, key=lambda other: (-links_to[other] - links_from[other], other))
        named = [Neighbour(name(n), links_to[n], links_from[n]) for n in order[:MAX_NEIGHBOURS]]
        return Neighbours(len(rows), tuple(named))

    sections = [Section(**section) for section in index.documents.table.value("sections", row) or []]
    shown = range(begin + first - 1, min(begin + first - 1 + PAGE, end))
    return Article(
        id=name(row).id,
        title=name(row).title,
        url=str(index.documents.table.value("url", row)),
        passages=tuple(
            _read_passage(
                index, passage, passage - begin + 1, row, sections, duals[duals.query == passage], name
            )
            for passage in shown
        ),
        first=first,
        count=end - begin,
        links=links_to.total(),
        mutual=neighbours(links_to.keys() & links_from.keys()),
        incoming=neighbours(links_from.keys() - links_to.keys()),
        outgoing=neighbours(links_to.keys() - links_from.keys()),
    )


def _read_passage(
    index: OpenIndex,
    passage: int,
    number: int,
    document: int,
    sections: Sequence[Section],
    duals: PassagePairs,
    name: Callable[[int], ArticleName],
) -> ReadPassage:
    stored, graph = index.passages[passage], index.links
    anchors = [
        Anchor(int(graph.start[link]), int(graph.end[link]), name(int(graph.target[link])))
        for link in graph.from_passage(passage)
        if graph.target[link] != document and graph.end[link] <= MAX_CHARACTERS
    ]
    back: dict[int, list[int]] = {}  # documents in reading order, with their passages that link back
    duals = duals[np.lexsort((duals.positive, duals.query_link))]
    documents = index.passages.document_rows(duals.positive.astype(np.int64)).tolist()
    for target, linking in zip(documents, duals.positive.tolist(), strict=True):
        back.setdefault(target, []).append(linking)
    # A section may begin in the white space before a passage, which no passage contains.
    before = 0 if number == 1 else int(index.passages.table.value("end", passage - 1))
    return ReadPassage(
        id=stored.id,
        number=number,
        text=stored.text[:MAX_CHARACTERS],
        cut=len(stored.text) > MAX_CHARACTERS,
        anchors=tuple(anchors),
        headings=tuple(
            Heading(max(section.start - stored.start, 0), section.heading)
            for section in sections
            if before <= section.start < min(stored.end, stored.start + MAX_CHARACTERS)
        ),
        duals=tuple(
            DualLinks(name(target), tuple(index.passages.ids(back[target][:MAX_DUALS])))
            for target in [*back][:MAX_DUALS]
        ),
        more_duals=max(len(back) - MAX_DUALS, 0),
    )
