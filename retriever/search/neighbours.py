"""The graph between articles that a learned fusion reads: hyperlinks or, as a control, similar articles.

The control shows what features gain from hyperlinks, and what any graph of related articles would give.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from indexer.index import Index
from indexer.links import LinkGraph
from retriever.ranking import Query
from retriever.search.searchers import Bm25

Neighbours = Literal["links", "bm25"]
"""Whose neighbours articles are: those of hyperlinks, or those by BM25."""

_NEIGHBOURS = 10
_PASSAGES = 50  # of about a dozen articles or more, since an article's own passages match its first one best
_BATCH = 256


def open_graph(index: Index, neighbours: Neighbours) -> LinkGraph:
    """The hyperlinks of an index, or as many arrays for its `bm25_graph`."""
    return index.links if neighbours == "links" else bm25_graph(index)


def bm25_graph(index: Index) -> LinkGraph:
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
        rows = searcher.search([Query(str(n), text) for n, text in enumerate(texts)], _PASSAGES).rows
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
