"""Neighbours of articles and of passages: by hyperlinks or, as a control, by BM25.

A learned fusion reads the graph of articles, hops the neighbours of passages. The control shows what
hyperlinks give, and what any related articles or passages would.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.links import LinkGraph
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25

Neighbours = Literal["links", "bm25"]
"""How neighbours of articles or passages are chosen: by hyperlinks or by BM25."""

_NEIGHBOURS = 10
_PASSAGES = 50  # of about a dozen articles or more, since an article's own passages match its first one best
_BATCH = 256
_KEPT = 1 << 17  # passages whose neighbours are remembered

OF_PASSAGE = 16
"""Neighbours of a passage, as in the paper of adaptive re-ranking (MacAvaney et al. 2022)."""


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


def similar_passages(index: OpenIndex) -> Callable[[int], list[int]]:
    """A function from a passage to the up to 16 most similar ones by BM25, all by row; for any thread."""
    searcher = Bm25(index)

    @lru_cache(_KEPT)
    def similar(row: int) -> list[int]:
        text = str(index.passages.table.value("text", row))
        rows = searcher([Query("", text)], OF_PASSAGE + 1).rows[0].tolist()
        return [other for other in rows if other not in (row, -1)][:OF_PASSAGE]

    return similar
