"""Training data for hops: candidates with features, on graphs whose links were altered.

A corpus made for its questions has few links, and many of them lead to what is asked for. So each question
is read twice: on the graph as it is, and on one where passages have lost links, and have got false ones,
half of them to other results of the first stage, which are the hardest. A model that has seen these does
not depend on how many links a passage has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.learned.fusion_training import Examples
from linkseek.retriever.learned.hop_graph import Edge, Edges

CUTOFFS = (2, 5, 20)
"""Depths of the recalls that are reported; the second one chooses the number of trees."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How a graph is altered. false: links that a passage gets. kept: the share of its own that it keeps."""

    false: int = 0
    kept: float = 1.0


NOISE = (Noise(3, 0.9), Noise(10, 0.9), Noise(20, 0.8))
"""The altered graphs, to which questions are dealt in turn."""


class AlteredEdges:
    """The edges of passages on an altered graph, the same ones at every call for a question."""

    def __init__(self, edges: Edges, noise: Noise, documents: int, seed: int) -> None:
        """documents: of the index."""
        self._edges, self._noise, self._documents, self._seed = edges, noise, documents, seed
        self.near: Sequence[int] = ()
        """The documents that the first stage returns for the question: half of the false edges lead there."""

    def __call__(self, row: int) -> Sequence[Edge]:
        """The edges of a passage. False ones have no link, and stand among the others."""
        draw, count = np.random.default_rng((self._seed, row)), self._noise.false
        kept = [edge for edge in self._edges(row) if draw.random() < self._noise.kept]
        near = draw.permutation(np.array(self.near, np.int64))[: count // 2].tolist()
        false = dict.fromkeys([*near, *draw.integers(0, self._documents, count - len(near)).tolist()])
        known = {edge.document for edge in kept}
        both = kept + [Edge(document, -1, -1) for document in false if document not in known]
        return [both[place] for place in draw.permutation(len(both)).tolist()]


def recall(
    examples: Examples, relevant: NDArray[np.int64], scores: NDArray[np.floating]
) -> NDArray[np.float64]:
    """The share of a question's relevant units among the first 2, 5 and 20 by scores [n]: float64 [Q, 3].

    relevant: how many each question has, int64 [Q], also beyond its candidates.
    """
    question, rank = examples.hits(scores)
    counts = [np.bincount(question[rank < cutoff], minlength=len(relevant)) for cutoff in CUTOFFS]
    return np.asarray(np.stack(counts, 1) / np.maximum(relevant, 1)[:, None])
