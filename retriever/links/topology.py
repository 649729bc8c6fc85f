"""Dual links and co-mentions in a link graph: which passages make a query and its answer (HLP, section 3.2).

Both are defined on passages, not documents, and on links between different documents whose anchor lies
completely in one passage (the graph has no others):

    dual link    a of A has an anchor to B, b of B has an anchor to A.              query a, positive b
    co-mention   c of C and d of D have anchors to the same E, d has one to C.      query c, positive d
                 C, D and E are different; E's in-degree is below K.

A pair of passages is one row, with the first link in the query's passage that qualifies. All steps work on
arrays in blocks: the cost is linear in the links and in the pairs.

Symbols: P passages, D documents, E links, U links without repetition of (passage, target).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.links import LinkGraph
from linkseek.indexer.machine.once import shared_property

IN_DEGREE_SHARE = 0.9
"""Co-mentions skip the documents above this share of in-degrees (HLP, section 3.2)."""

_BLOCK = 1 << 22  # candidate pairs in memory at a time: 32 MB an array


@dataclass(frozen=True, slots=True)
class PassagePairs:
    """Pairs of passages, n of them, sorted by query and positive.

    query, positive: int32 [n], passage rows. query_link: int32 [n], the link in the query's passage
    whose sentence is the query. positive_link: the first link in the positive's passage to the
    query's document. shared_link: of co-mentions, the first link in the positive's passage to E; else -1.
    negative: a passage that is not relevant, or -1, once they are drawn.
    """

    query: NDArray[np.int32]
    positive: NDArray[np.int32]
    query_link: NDArray[np.int32]
    positive_link: NDArray[np.int32]
    shared_link: NDArray[np.int32]
    negative: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.query)

    def __getitem__(self, rows: Any) -> PassagePairs:
        """Some of the pairs, by numbers, mask or slice."""
        columns = (getattr(self, name) for name in PassagePairs.__dataclass_fields__)
        chosen: list[Any] = [None if column is None else column[rows] for column in columns]
        return PassagePairs(*chosen)

    @staticmethod
    def joined(parts: list[PassagePairs]) -> PassagePairs:
        """The concatenation of pairs, without negatives."""
        names = [*PassagePairs.__dataclass_fields__][:-1]
        empty = np.empty(0, np.int32)
        columns = (np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in names)
        return PassagePairs(*columns)

    def keys(self) -> NDArray[np.int64]:
        """One number for each pair of passages, int64 [n]."""
        return _key(self.query, self.positive, 1 << 32)


class Topology:
    """The links between different documents, each (passage, target) once; computed when first used."""

    def __init__(
        self,
        links: LinkGraph,
        passage_offsets: NDArray[np.int64],
        subset: NDArray[np.int64] | None = None,
        whole: Topology | None = None,
    ) -> None:
        """passage_offsets: int64 [D+1], document d has passages offsets[d] to offsets[d+1].

        subset: only these links, int64 [n], ascending. whole: the topology that they are a part of, whose
        in-degrees count.
        """
        self.documents = len(passage_offsets) - 1
        self.links, self.passage_offsets = links, passage_offsets
        self._subset, self._whole = subset, whole

    def part(self, links: NDArray[np.int64]) -> Topology:
        """The topology of some of the links, int64 [n], ascending, with the in-degrees of all."""
        return Topology(self.links, self.passage_offsets, links, self._whole or self)

    @shared_property
    def document_of(self) -> NDArray[np.int32]:
        """The document of each passage, int32 [P]."""
        if self._whole:
            return self._whole.document_of
        return np.repeat(np.arange(self.documents, dtype=np.int32), np.diff(self.passage_offsets))

    @shared_property
    def _unique(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The keys of the links, ascending, and for each the first link that has it, [U]."""
        target, passage = np.asarray(self.links.target), np.asarray(self.links.passage)  # int32 [E]
        if self._subset is not None:
            target, passage = target[self._subset], passage[self._subset]  # [n]
        keys, first_links = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for start, end in _blocks(passage):
            block = slice(start, end)
            between = np.flatnonzero(self.document_of[passage[block]] != target[block])  # [m]
            # Links are in reading order, so the first of equal keys is the first in the passage.
            unique, first = np.unique(
                _key(passage[block][between], target[block][between], self.documents), return_index=True
            )
            keys.append(unique)
            first_links.append((between[first] + start).astype(np.int32))
        link = np.concatenate(first_links)
        if self._subset is not None:
            link = self._subset[link].astype(np.int32)
        return np.concatenate(keys), link

    @property
    def keys(self) -> NDArray[np.int64]:
        """passage * D + target of each link, int64 [U], ascending."""
        return self._unique[0]

    @property
    def link(self) -> NDArray[np.int32]:
        """The number of each link in the graph, int32 [U]; of equal ones the first."""
        return self._unique[1]

    @shared_property
    def passage(self) -> NDArray[np.int32]:
        """The passage that contains each link, int32 [U]."""
        return np.asarray(self.links.passage)[self.link]

    @shared_property
    def target(self) -> NDArray[np.int32]:
        """The document that each link leads to, int32 [U]."""
        return np.asarray(self.links.target)[self.link]

    @shared_property
    def source(self) -> NDArray[np.int32]:
        """The document that contains each link, int32 [U]."""
        return self.document_of[self.passage]

    @shared_property
    def in_degree(self) -> NDArray[np.int64]:
        """How many other documents have an anchor to a document, int64 [D]; in blocks of the graph."""
        if self._whole:
            return self._whole.in_degree
        degree = np.zeros(self.documents, np.int64)
        target, passage = self.links.target, self.links.passage
        bounds = np.searchsorted(passage, self.passage_offsets.astype(passage.dtype))  # [D+1], first links
        for start, end in _blocks_between(bounds):
            source, block = self.document_of[passage[start:end]], np.asarray(target[start:end])
            edges = np.unique(_key(source, block, self.documents)[source != block])
            degree += np.bincount(edges % max(self.documents, 1), minlength=self.documents)
        return degree

    @shared_property
    def in_degree_limit(self) -> int:
        """K: the value at position floor(0.9 D) of all in-degrees, ascending; 0 without documents."""
        if self._whole:
            return self._whole.in_degree_limit
        if self.documents == 0:
            return 0
        place = int(np.floor(IN_DEGREE_SHARE * self.documents))
        return int(np.partition(self.in_degree, place)[place])

    @shared_property
    def by_target(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Places in `link` sorted by target, int64 [U], and the targets in that order, int32 [U]."""
        order = np.argsort(self.target, kind="stable")
        return order, self.target[order]

    def targets_of(self, passage: int) -> NDArray[np.int32]:
        """The documents that a passage links to, ascending."""
        low, high = np.searchsorted(self.passage, [passage, passage + 1])
        return self.target[low:high]

    def link_from_to(self, passage: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int32]:
        """The first link of each passage to each document, int32 [n]; -1 without such a link."""
        wanted = _key(passage, target, self.documents)
        place = np.searchsorted(self.keys, wanted)  # [n]
        place[place == len(self.keys)] = 0
        if len(self.keys) == 0:
            return np.full(len(wanted), -1, np.int32)
        return np.where(self.keys[place] == wanted, self.link[place], -1).astype(np.int32)

    def dual_links(self) -> PassagePairs:
        """All dual-link pairs, each in both directions."""
        edge = _key(self.source, self.target, self.documents)  # [U], source document to target document
        order = np.argsort(edge, kind="stable")  # [U]
        edge = edge[order]

        def back(links: slice) -> NDArray[np.int64]:
            return _key(self.target[links], self.source[links], self.documents)

        parts = []
        for link, place in _joined(edge, back, len(edge)):
            other = order[place]
            none = np.full(len(link), -1, np.int32)
            parts.append(
                PassagePairs(self.passage[link], self.passage[other], self.link[link], self.link[other], none)
            )
        return _sorted(PassagePairs.joined(parts))

    def co_mentions(self, every_shared: bool = False) -> PassagePairs:
        """All co-mention pairs, including those that are dual links too.

        every_shared: a row for each E of a pair of passages, not for the first one alone. Joined through E,
        whose in-degree is below K, so never through a hub.
        """
        is_rare = self.in_degree[self.target] < self.in_degree_limit  # [U]
        rare = np.flatnonzero(is_rare).astype(np.int32)  # [r], anchors to an E
        by_target = rare[np.argsort(self.target[rare], kind="stable")]  # [r]
        targets = self.target[by_target]
        mentions = _Filter(self.keys)
        parts = []
        for links, place in _joined(targets, lambda links: self.target[rare[links]], len(rare)):
            link_c, link_d = rare[links], by_target[place]  # places in self.link: c's link to E, and d's
            maybe = mentions.may_hold(_key(self.passage[link_d], self.source[link_c], self.documents))
            link_c, link_d = link_c[maybe], link_d[maybe]
            c, d = self.passage[link_c], self.passage[link_d]
            to_c = self.link_from_to(d, self.source[link_c])
            pairs = PassagePairs(c, d, self.link[link_c], to_c, self.link[link_d])
            pairs = pairs[(to_c >= 0) & (self.source[link_c] != self.source[link_d])]
            # Blocks end between links of c, so the next block may hold one pair again.
            parts.append(pairs if every_shared else _first_of_each(pairs))
        joined = PassagePairs.joined(parts)
        return _sorted(joined) if every_shared else _first_of_each(joined)


def _key(high: NDArray[Any], low: NDArray[Any], base: int) -> NDArray[np.int64]:
    return np.asarray(high.astype(np.int64) * base + low)


def _blocks(ascending: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Ranges of about `_BLOCK` numbers that never end between equal numbers."""
    bounds = np.searchsorted(ascending, ascending[::_BLOCK])
    yield from pairwise(np.unique([*bounds.tolist(), len(ascending)]).tolist())


def _blocks_between(bounds: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Ranges of about `_BLOCK` numbers that begin and end at given bounds, which are ascending."""
    starts = bounds[np.searchsorted(bounds, np.arange(0, bounds[-1], _BLOCK))]
    yield from pairwise(np.unique([0, *starts.tolist(), int(bounds[-1])]).tolist())


def _joined(
    ordered: NDArray[Any], wanted: Callable[[slice], NDArray[Any]], count: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(i, place) for every place of value i of `wanted` in an ascending array, in blocks.

    wanted: some of `count` values, by their numbers; all of them at once would be most of the memory.
    """
    for start in range(0, count, _BLOCK):
        low, counts = _ranges(ordered, wanted(slice(start, start + _BLOCK)))
        for number, within in _expanded(counts):
            yield number + start, low[number] + within


def _ranges(ordered: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first place of each of `wanted` in an ascending array, and how often it occurs."""
    order = np.argsort(wanted, kind="stable")  # searched in order, neighbours are in the cache
    low, count = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    sorted_ = wanted[order]
    low[order] = np.searchsorted(ordered, sorted_, side="left")
    count[order] = np.searchsorted(ordered, sorted_, side="right")
    return low, count - low


_BIT = (1 << np.arange(8)).astype(np.uint8)


class _Filter:
    """A set of keys with a few false positives that answers with one memory access (Bloom 1970).

    Nearly all candidates for a co-mention fail, and a search for each costs ten times as much.
    """

    def __init__(self, keys: NDArray[np.int64]) -> None:
        self._shift = 64 - max(16, (16 * len(keys)).bit_length())  # one bit in 16 or more is set
        self._bits = np.zeros(1 << (61 - self._shift), np.uint8)
        for start in range(0, len(keys), _BLOCK):
            place = self._places(keys[start : start + _BLOCK])
            np.bitwise_or.at(self._bits, place >> np.uint64(3), _BIT[place & np.uint64(7)])

    def may_hold(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the keys that are in the set; a few others too. bool [n]"""
        place = self._places(keys)
        return np.asarray((self._bits[place >> np.uint64(3)] & _BIT[place & np.uint64(7)]) != 0)

    def _places(self, keys: NDArray[np.int64]) -> NDArray[np.uint64]:
        # multiplicative hashing by the golden ratio (Knuth, volume 3, section 6.4)
        return (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(self._shift)


def _expanded(count: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(i, 0), (i, 1), ..., (i, count[i] - 1) for every i, as two arrays, in blocks of about `_BLOCK`."""
    ends = np.cumsum(count, dtype=np.int64)
    start = 0
    while start < len(count):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _BLOCK, side="right")))
        number = np.repeat(np.arange(start, stop), count[start:stop])
        first = np.repeat(ends[start:stop] - count[start:stop], count[start:stop])
        yield number, np.arange(before, int(ends[stop - 1])) - first
        start = stop


def _sorted(pairs: PassagePairs) -> PassagePairs:
    return pairs[np.lexsort((pairs.query_link, pairs.positive, pairs.query))]


def _first_of_each(pairs: PassagePairs) -> PassagePairs:
    """Each pair of passages once, with the first link of the query's passage."""
    pairs = _sorted(pairs)
    keys = pairs.keys()
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return pairs[first]
