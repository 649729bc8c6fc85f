"""How closely a document is linked to a segment: the groups D1 to D4 (PHP, section 3.1).

A segment s is a passage of a document d, and D is all that d links to (other documents, by anchors that
lie completely in one passage). Each t of D is in one group of s:

    D1   s has an anchor to t, t links back to d, first from its first segment
    D2   s has an anchor to t, t links back to d, first from a later segment
    D3   s has an anchor to t, t has no link to d
    D4   s has no anchor to t: another segment of d has it, whether or not t links back

The paper prints D4 as targets that do not link back. Targets that link back and whose anchor is elsewhere in
d would then be in no group, although the groups are said to be all of D; so D4 contains all others here.
Seg(a, t), the segment of t with the anchor to d, is taken from t's first link to d.

Symbols: P passages, D documents, U links without repetition of (passage, target), G links without
repetition of (document, target).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.links.topology import Topology


class LinkGroups:
    """The groups of all segments of an index, by the links of its topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        documents = max(topology.documents, 1)
        links = topology.source.astype(np.int64) * documents + topology.target  # [U]
        # Links stand in reading order, so the first of equal ones is the first of the document.
        edges, first, edge_of = np.unique(links, return_index=True, return_inverse=True)  # [G], [G], [U]
        source, target = np.divmod(edges, documents)  # [G]
        back = target * documents + source  # [G], the edge in the other direction
        place = np.minimum(np.searchsorted(edges, back), max(len(edges) - 1, 0))  # [G]
        linked_back = edges[place] == back
        leading = topology.passage[first[place]] == topology.passage_offsets[target]
        groups = np.where(linked_back, np.where(leading, 1, 2), 3).astype(np.int8)  # [G]
        self.group: NDArray[np.int8] = groups[edge_of]
        """int8 [U]: 1, 2 or 3, the group of each of the topology's links in its passage."""
        self.back: NDArray[np.int32] = np.where(linked_back, topology.link[first[place]], -1)[edge_of]
        """int32 [U]: the target's first link to the passage's document; -1 if it has none."""
        self._offsets = np.searchsorted(source, np.arange(topology.documents + 1))  # int64 [D+1]
        self._targets = target.astype(np.int32)  # [G], by source

    def of_segment(self, passage: int) -> tuple[NDArray[np.int32], ...]:
        """D1, D2, D3 and D4 of a passage: document rows, each group ascending."""
        low, high = np.searchsorted(self._topology.passage, [passage, passage + 1])
        anchored, group = self._topology.target[low:high], self.group[low:high]
        document = int(self._topology.document_of[passage])
        every = self._targets[self._offsets[document] : self._offsets[document + 1]]
        others = every[~np.isin(every, anchored)]
        return anchored[group == 1], anchored[group == 2], anchored[group == 3], others

    def elsewhere(self) -> NDArray[np.int64]:
        """For each of the topology's links, the number of documents in D4 of its passage, int64 [U]."""
        everything = np.diff(self._offsets)[self._topology.source]  # [U]
        _, segment, count = np.unique(self._topology.passage, return_inverse=True, return_counts=True)
        return everything - count[segment]

    def counts(self) -> dict[str, int]:
        """The number of segments with an anchor, and of documents in their groups, summed over them."""
        _, first = np.unique(self._topology.passage, return_index=True)
        d1, d2, d3 = np.bincount(self.group, minlength=4)[1:4].tolist()
        d4 = int(self.elsewhere()[first].sum())
        return {"segments": len(first), "d1": d1, "d2": d2, "d3": d3, "d4": d4}
