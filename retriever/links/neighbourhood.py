"""Small topologies around one document or passage, without joining all links of the index.

They contain every link that a dual link or a co-mention of its passages can be made of, and the in-degrees of
the whole graph. Their cost grows with the number of these links alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.links.topology import Topology


def around_document(whole: Topology, document: int) -> Topology:
    """The links needed to find every pair whose query comes from a document."""
    first, last = whole.passage_offsets[document : document + 2].tolist()
    return whole.part(_links_around(whole, range(first, last), document, _linking(whole, document)))


def around_passage(whole: Topology, passage: int, max_incoming: int | None = None) -> Topology:
    """The links needed to find every pair whose query or positive is a passage.

    max_incoming: the maximum number of links to its document, the first ones.
    """
    document = int(np.searchsorted(whole.passage_offsets, passage, side="right")) - 1
    targets = np.unique(whole.links.target[slice(*whole.links.offsets[passage : passage + 2].tolist())])
    linked, _ = ranges(whole.passage_offsets[targets], whole.passage_offsets[targets + 1])
    others = np.union1d(_linking(whole, document, max_incoming), linked)
    return whole.part(_links_around(whole, range(passage, passage + 1), document, others))


def _linking(whole: Topology, document: int, max_incoming: int | None = None) -> NDArray[np.int32]:
    """The passages that link to a document, ascending."""
    return np.unique(whole.links.passage[whole.links.to_document(document)[:max_incoming]])


def _links_around(
    whole: Topology, passages: range, document: int, others: NDArray[np.integer]
) -> NDArray[np.int64]:
    """The passages' own links, and links of others to the document or to its targets, ascending."""
    offsets, target = whole.links.offsets, whole.links.target
    own = np.arange(offsets[passages.start], offsets[passages.stop])
    wanted = np.unique(np.append(target[own], document))
    links, _ = ranges(offsets[others], offsets[others + 1])
    return np.union1d(own, links[np.isin(target[links], wanted)]).astype(np.int64)


def ranges(low: NDArray[np.int64], high: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of all ranges [low, high) one after another, and which range each is of."""
    counts = high - low
    owner = np.repeat(np.arange(len(low)), counts)
    return np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner] + low[owner], owner
