"""Where one step leads from a passage: to the articles that it links to.

A link leads to an article, and the step to the passage of that article that fits the question best. Plug-ins
add graphs that lead elsewhere, as controls.

Training also reads altered graphs. A corpus made for its questions has few links, and many of them lead to
the relevant passages. So each question is read twice: on the graph as it is, and on one where passages have
lost links and got false ones, half of them to other results of the first stage, which are the hardest. The
model then does not depend on how many links a passage has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.links import LinkGraph
from linkseek.indexer.program.plugins import load_plugins
from linkseek.retriever.search.query_vectors import Encode, query_vectors

_KEPT = 1 << 16  # passages whose edges are remembered
MAX_PASSAGES = 100
"""The number of an article's passages, from the first, that are compared with the question."""


class Edge(NamedTuple):
    """A step that is possible. link: its number in the link graph, -1 without one.

    row: the passage that it leads to; -1 for the best of the document.
    """

    document: int
    row: int
    link: int


Edges = Callable[[int], Sequence[Edge]]
"""The edges of a passage by its row: each document once, in reading order; for any thread."""


def open_edges(index: OpenIndex, over: str, limit: int) -> Edges:
    """The first `limit` edges of each passage on one of `GRAPHS`."""
    return lru_cache(_KEPT)(GRAPHS[over].edges(index, limit))


def linked(index: OpenIndex, limit: int, targets: NDArray[np.int32] | None = None) -> Edges:
    """Links to other documents. targets: where each link leads, instead of its own target."""
    links = index.links
    targets = links.target if targets is None else targets

    def edges(row: int) -> Sequence[Edge]:
        own = links.from_passage(row)
        if not own:
            return ()
        document = int(index.passages.document_rows(np.array([row]))[0])
        first: dict[int, int] = {}
        for link, target in zip(own, targets[own.start : own.stop].tolist(), strict=True):
            if target != document:
                first.setdefault(target, link)
        return [Edge(target, -1, link) for target, link in list(first.items())[:limit]]

    return edges


class StepGraph(NamedTuple):
    """Hyperlinks, or another graph that is followed and counted in their place.

    does: a verb for a passage that leads to another, for people. edges: the maximum number for each passage,
    without edges to its own document. articles: the graph that a learned fusion reads.
    """

    does: str
    edges: Callable[[OpenIndex, int], Edges]
    articles: Callable[[OpenIndex], LinkGraph]


LINKS = "links"
GRAPHS = {LINKS: StepGraph("link to", linked, lambda index: index.links)}
"""The known graphs by name; plug-ins add others."""


def _known(name: str) -> str:
    load_plugins()
    if name not in GRAPHS:
        raise ValueError(f"expected one of {', '.join(GRAPHS)}")
    return name


GraphName = Annotated[str, AfterValidator(_known)]


class Similarity:
    """Inner products of questions with passages by row; without an encoder, all are 0.

    encode: texts -> vectors, float32 [Q, d]. name: the name of the vectors in the index. prompt: of
    `recorded_prompt`.
    """

    def __init__(
        self,
        index: OpenIndex,
        encode: Encode | None = None,
        name: str | None = None,
        prompt: Mapping[str, str] | None = None,
    ) -> None:
        self._index, self._encode, self._name, self._prompt = index, encode, name, prompt or {}

    def questions(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of questions, float32 [Q, d]; d is 1 without an encoder."""
        if not self._encode or not texts:
            return np.zeros((len(texts), 1), np.float32)
        return query_vectors(self._encode, texts, self._prompt)

    def passages(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """The vectors of passages, float32 [n, d]."""
        if not self._encode or not rows:
            return np.zeros((len(rows), 1), np.float32)
        return self._index.vectors_of(np.array(rows, np.int64), self._name)


class Articles:
    """Finds the passage of an article that fits a question best."""

    def __init__(self, index: OpenIndex, similarity: Similarity) -> None:
        self._offsets, self._similarity = index.passages.offsets, similarity
        self._document_rows = index.passages.document_rows

    def ranked(self, rows: Sequence[int]) -> dict[int, int]:
        """Document -> its first passage among ranked ones."""
        documents = self._document_rows(np.array(rows, np.int64)).tolist()
        return dict(zip(documents[::-1], list(rows)[::-1], strict=True))

    def best(self, edges: Sequence[Edge], ranked: dict[int, int], question: NDArray[np.float32]) -> list[int]:
        """The passages that edges lead to; -1 for a document without passages.

        For a document with ranked passages it is the first of these, else the one whose vector is most
        similar to the question's [d], of the first `MAX_PASSAGES`; equal ones in reading order. `ranked`
        keeps it.
        """
        new = dict.fromkeys(edge.document for edge in edges if edge.row < 0 and edge.document not in ranked)
        if new:
            ranked.update(zip(new, self._most_similar(np.array([*new], np.int64), question), strict=True))
        return [edge.row if edge.row >= 0 else ranked[edge.document] for edge in edges]

    def _most_similar(self, documents: NDArray[np.int64], question: NDArray[np.float32]) -> list[int]:
        """The passage of each document; all vectors are read at once: a look-up costs as much as a row."""
        first = np.asarray(self._offsets[documents], np.int64)  # [n]
        counts = np.minimum(self._offsets[documents + 1] - first, MAX_PASSAGES)  # [n]
        best = np.where(counts > 0, first, -1)  # [n]
        several = np.flatnonzero(counts > 1)
        places = [range(first[n], first[n] + counts[n]) for n in several]
        vectors = self._similarity.passages([*itertools.chain(*places)])  # [m, d]
        known = np.einsum("md,d->m", vectors, question)  # a row's sum does not depend on the other rows
        stops = np.cumsum(counts[several])
        for n, start, stop in zip(several, stops - counts[several], stops, strict=True):
            best[n] += int(np.argmax(known[start:stop]))
        chosen: list[int] = best.tolist()
        return chosen


class Noise(NamedTuple):
    """How a graph is altered. false: links that a passage gets. kept: the share of its own that it keeps."""

    false: int = 0
    kept: float = 1.0


NOISE = (Noise(3, 0.9), Noise(10, 0.9), Noise(20, 0.8))
"""The altered graphs, to which questions are dealt in turn."""


class AlteredEdges:
    """The edges of passages on an altered graph, the same ones at every call for a question."""

    def __init__(self, edges: Edges, noise: Noise, documents: int, seed: int) -> None:
        """documents: the number of documents in the index."""
        self._edges, self._noise, self._documents, self._seed = edges, noise, documents, seed
        self.near: Sequence[int] = ()
        """The documents that the first stage returns for the question: half of the false edges lead there."""

    def __call__(self, row: int) -> Sequence[Edge]:
        """The edges of a passage. False edges have no link, and are mixed with the others."""
        draw, count = np.random.default_rng((self._seed, row)), self._noise.false
        kept = [edge for edge in self._edges(row) if draw.random() < self._noise.kept]
        near = draw.permutation(np.array(self.near, np.int64))[: count // 2].tolist()
        false = dict.fromkeys([*near, *draw.integers(0, self._documents, count - len(near)).tolist()])
        known = {edge.document for edge in kept}
        both = kept + [Edge(document, -1, -1) for document in false if document not in known]
        return [both[place] for place in draw.permutation(len(both)).tolist()]
