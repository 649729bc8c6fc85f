"""Neighbours of articles and of passages: by hyperlinks or, as a control, by BM25.

A learned fusion reads the graph of articles, adaptive re-ranking the neighbours of passages. The control
shows what hyperlinks give, and what any related articles or passages would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.links import LinkGraph
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25

Neighbours = Literal["links", "bm25"]
"""How neighbours of articles or passages are found: by hyperlinks or by BM25."""

_NEIGHBOURS = 10
_PASSAGES = 50  # of about a dozen articles or more, since an article's own passages match its first one best
_BATCH = 256
_OF_PASSAGE = 16  # as in adaptive re-ranking's paper
_INCOMING = 1_000  # links to an article that are read: some have hundreds of thousands
_KEPT = 1 << 17  # passages whose neighbours are remembered


def open_graph(index: OpenIndex, neighbours: Neighbours) -> LinkGraph:
    """The hyperlinks of an index, or as many arrays for its `bm25_graph`."""
    return index.links if neighbours == "links" else bm25_graph(index)


def bm25_graph(index: OpenIndex) -> LinkGraph:
    """Links from the first passage of each article to the 10 other articles that it is most similar to.

    The passage is the question; an article ranks by its best passage among the first 50. These links have
    no anchors. Takes a search for each article, so for a control only.
    """
    searcher, offsets = Bm25(index), np.asarray(index.passages.offsets)
    sources: list[int] = []
    targets: list[int] = []
    articles = np.flatnonzero(np.diff(offsets))
    for start in range(0, len(articles), _BATCH):
        batch = articles[start : start + _BATCH].tolist()
        texts = [str(index.passages.table.value("text", int(offsets[article]))) for article in batch]
        rows = searcher([Query(str(n), text) for n, text in enumerate(texts)], _PASSAGES).rows
        for article, hits in zip(batch, rows, strict=True):
            similar = dict.fromkeys(index.passages.document_rows(hits[hits >= 0]).tolist())
            similar.pop(article, None)
            nearest = list(similar)[:_NEIGHBOURS]
            sources += [int(offsets[article])] * len(nearest)
            targets += nearest
    passage, target = np.array(sources, np.int32), np.array(targets, np.int32)
    no_anchor = np.zeros(len(target), np.int32)
    return LinkGraph(
        target=target,
        passage=passage,
        start=no_anchor,
        end=no_anchor,
        offsets=np.searchsorted(passage, np.arange(len(index.passages) + 1)),
        incoming=np.argsort(target, kind="stable").astype(np.int32),
        incoming_offsets=np.searchsorted(np.sort(target), np.arange(len(index.documents) + 1)),
    )


def passage_neighbours(index: OpenIndex, neighbours: Neighbours) -> Callable[[int], list[int]]:
    """A function that gives the up to 16 nearest neighbours of a passage, by rows; for any thread.

    By links, passages of other articles: first the dual links of the passage (HLP, section 3.2), then the
    first passages of the articles that it links to, in reading order, then its co-mentions, those with the
    most articles in common first (through articles of any in-degree, where HLP's skip hubs). Of the links to
    its article the first 1,000 count. By BM25, the passages that are most similar to its text.
    """
    return lru_cache(_KEPT)(_linked(index) if neighbours == "links" else _similar(index))


def _linked(index: OpenIndex) -> Callable[[int], list[int]]:
    links, offsets = index.links, np.asarray(index.passages.offsets)

    def targets(row: int) -> list[int]:
        own = links.from_passage(row)
        return list(dict.fromkeys(links.target[own.start : own.stop].tolist()))

    def neighbours(row: int) -> list[int]:
        document = int(index.passages.document_rows(np.array([row]))[0])
        of_passage = [target for target in targets(row) if target != document]
        incoming = np.unique(links.passage[links.to_document(document)[:_INCOMING]]).astype(np.int64)
        sources = index.passages.document_rows(incoming)
        dual = incoming[np.isin(sources, of_passage)].tolist()
        first = [int(offsets[target]) for target in of_passage if offsets[target] < offsets[target + 1]]
        others = incoming[~np.isin(sources, [*of_passage, document])].tolist()
        shared = Counter({other: len({*targets(other)} & {*of_passage}) for other in others})
        mentions = [other for other, common in shared.most_common() if common]
        return list(dict.fromkeys([*dual, *first, *mentions]))[:_OF_PASSAGE]

    return neighbours


def _similar(index: OpenIndex) -> Callable[[int], list[int]]:
    searcher = Bm25(index)

    def neighbours(row: int) -> list[int]:
        text = str(index.passages.table.value("text", row))
        rows = searcher([Query("", text)], _OF_PASSAGE + 1).rows[0].tolist()
        return [other for other in rows if other not in (row, -1)][:_OF_PASSAGE]

    return neighbours
