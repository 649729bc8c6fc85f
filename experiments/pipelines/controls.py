"""Controls for what links give: graphs in their place, of which none is made of links.

`bm25` leads to similar passages, and an article to similar articles: what any related text gives. `shuffled`
has all links of the index, each with its anchor, but deals their targets anew: each passage leads to as many
articles, and each article is led to as often, and nothing else is left of the links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.links import LinkGraph
from linkseek.plugins import GRAPHS, StepGraph
from linkseek.retriever.learned.hop_graph import Edge, Edges, linked
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25

_SEED = 1
_NEIGHBOURS = 10
_PASSAGES = 50  # of about a dozen articles or more, since an article's own passages match its first one best
_BATCH = 256
_KEPT = 1 << 17  # passages whose neighbours are remembered

OF_PASSAGE = 16
"""Neighbours of a passage, as in the paper of adaptive re-ranking (MacAvaney et al. 2022)."""


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


def similar_edges(index: OpenIndex, limit: int) -> Edges:
    """Edges to the articles of at most 16 similar passages, to the most similar passage of each article."""
    neighbours = similar_passages(index)

    def edges(row: int) -> Sequence[Edge]:
        rows = [row, *neighbours(row)]
        documents = index.passages.document_rows(np.array(rows)).tolist()
        first = {document: other for other, document in zip(rows[::-1], documents[::-1], strict=True)}
        ordered = dict.fromkeys(documents[1:])
        own = documents[0]
        return [Edge(document, first[document], -1) for document in ordered if document != own][:limit]

    return edges


def dealt(links: LinkGraph) -> NDArray[np.int32]:
    """The targets of all links in another order, int32 [links]; always the same."""
    return np.random.default_rng(_SEED).permutation(links.target)


def shuffled_graph(index: OpenIndex) -> LinkGraph:
    """The links of an index with the targets of `dealt`."""
    target = dealt(index.links)
    incoming = np.argsort(target, kind="stable").astype(np.int32)
    return replace(index.links, target=target, incoming=incoming)


def add_graphs() -> None:
    """Add the controls to the graphs that hops and fusions read."""
    GRAPHS["bm25"] = StepGraph("are similar to", similar_edges, bm25_graph)
    GRAPHS["shuffled"] = StepGraph(
        "would link to by chance",
        lambda index, limit: linked(index, limit, dealt(index.links)),
        shuffled_graph,
    )
