"""One passage for each pair that is not relevant: a random one, or one that mentions the same documents."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import PassagePairs, Topology

NegativeKind = Literal["none", "random", "overlap"]

_TRIES = 16


def draw_negatives(
    source: LinkSource, pairs: PassagePairs, kind: NegativeKind, draws: NDArray[np.int64]
) -> NDArray[np.int32]:
    """A negative passage for each pair, int32 [n]; -1 where no passage fits.

    random: any passage of another document than the query's and the positive's. overlap: a passage that
    mentions the same documents as the query's passage, or its document, but forms no pair (HLP, appendix B).
    """
    negatives = np.full(len(pairs), -1, np.int32)
    if kind == "none":
        return negatives
    passages, document_of = len(source.index.passages), source.topology.document_of
    query_document, positive_document = document_of[pairs.query], document_of[pairs.positive]  # [n], [n]
    generator = np.random.default_rng(draws[:1] if len(draws) else 0)
    for _ in range(_TRIES):
        waiting = np.flatnonzero(negatives < 0)  # [w]
        if len(waiting) == 0:
            break
        query, own = pairs.query[waiting], query_document[waiting]
        if kind == "random":
            drawn = generator.integers(0, passages, len(waiting))  # [w]
        else:
            drawn = _draw_overlapping(source.topology, query, own, generator)
        document = document_of[drawn]
        fits = (drawn >= 0) & (document != own) & (document != positive_document[waiting])
        if kind == "overlap":
            fits &= ~_is_pair(source.topology, query, own, drawn, document)
        negatives[waiting[fits]] = drawn[fits]
    return negatives


def _draw_overlapping(
    topology: Topology, query: NDArray[np.int32], own: NDArray[np.int32], generator: np.random.Generator
) -> NDArray[np.int64]:
    """A passage that links to a random target of each query's passage, or to its document; -1 for none."""
    low = np.searchsorted(topology.passage, query, side="left")
    count = np.searchsorted(topology.passage, query, side="right") - low  # [n]
    place = generator.integers(0, count + 1)  # the last one stands for the document itself
    last = len(topology.target) - 1
    mentioned = np.where(place < count, topology.target[np.minimum(low + place, last)], own)
    by_target, targets = topology.by_target
    first = np.searchsorted(targets, mentioned, side="left")
    linking = np.searchsorted(targets, mentioned, side="right") - first  # [n]
    drawn = by_target[np.minimum(first + generator.integers(0, np.maximum(linking, 1)), last)]
    return np.where(linking > 0, topology.passage[drawn], -1).astype(np.int64)


def _is_pair(
    topology: Topology,
    query: NDArray[np.int32],
    own: NDArray[np.int32],
    passage: NDArray[np.int64],
    document: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Mask of the (query, passage) that are a dual link or a co-mention, bool [n]."""
    links_back = topology.link_from_to(passage, own) >= 0
    pair = links_back & (topology.link_from_to(query, document) >= 0)
    rare = topology.in_degree < topology.in_degree_limit  # bool [D]
    for i in np.flatnonzero(links_back & ~pair):
        shared = np.intersect1d(topology.targets_of(int(query[i])), topology.targets_of(int(passage[i])))
        pair[i] = rare[shared].any()
    return pair
