"""Dual links and co-mentions in a link graph: who could be asked about whom (HLP, section 3.2).

Both look at passages, not documents, and at links between different documents whose anchor lies
wholly in one passage (others are not in the graph):

    dual link    a of A has an anchor to B, b of B has an anchor to A.              query a, positive b
    co-mention   c of C and d of D have anchors to the same E, d has one to C.      query c, positive d
                 C, D and E are different; E's in-degree is below K.

A pair of passages is one row, with the link in the query's passage that comes first (of those that
qualify). Everything is array work in blocks: the cost is linear in the links and in what is found.

Symbols: P passages, D documents, E links, U links without repetition of (passage, target).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.links import LinkGraph

IN_DEGREE_SHARE = 0.9
"""Co-mentions through the documents above this share of in-degrees are left out (HLP, section 3.2)."""

_BLOCK = 1 << 22  # candidate pairs looked at at a time: 32 MB an array


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of passages, n of them, sorted by query and positive.

    query, positive: int32 [n], passage rows. query_link: int32 [n], the link in the query's passage
    whose sentence is asked. positive_link: the first link in the positive's passage that leads to the
    query's document. shared_link: of co-mentions, the first link in the positive's passage to E; else -1.
    """

    query: NDArray[np.int32]
    positive: NDArray[np.int32]
    query_link: NDArray[np.int32]
    positive_link: NDArray[np.int32]
    shared_link: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.query)

    def take(self, rows: NDArray[Any]) -> Pairs:
        """Some of the pairs, by number or mask."""
        return Pairs(*(getattr(self, name)[rows] for name in Pairs.__dataclass_fields__))

    @staticmethod
    def joined(parts: list[Pairs]) -> Pairs:
        """One after another."""
        names = Pairs.__dataclass_fields__
        empty = np.empty(0, np.int32)
        return Pairs(*(np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in names))

    def keys(self) -> NDArray[np.int64]:
        """One number for each pair of passages, int64 [n]."""
        return _key(self.query, self.positive, 1 << 32)


class Topology:
    """The links between different documents, each (passage, target) once, ready to be joined."""

    def __init__(self, links: LinkGraph, passage_offsets: NDArray[np.int64]) -> None:
        """passage_offsets: int64 [D+1], document d has passages offsets[d] to offsets[d+1]."""
        self.documents = len(passage_offsets) - 1
        self.document_of = np.repeat(
            np.arange(self.documents, dtype=np.int32), np.diff(passage_offsets)
        )  # int32 [P]
        target, passage = np.asarray(links.target), np.asarray(links.passage)  # int32 [E]
        keys, chosen = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        for start, end in _blocks(passage):
            here = slice(start, end)
            between = np.flatnonzero(self.document_of[passage[here]] != target[here])  # [m]
            # Links stand in reading order, so the first of equal keys is the first in the passage.
            found, first = np.unique(
                _key(passage[here][between], target[here][between], self.documents), return_index=True
            )
            keys.append(found)
            chosen.append((between[first] + start).astype(np.int32))
        self.keys = np.concatenate(keys)  # int64 [U], ascending: passage * D + target
        self.link = np.concatenate(chosen)  # int32 [U]
        del keys, chosen
        self.passage, self.target = passage[self.link], target[self.link]  # int32 [U]
        self.source = self.document_of[self.passage]  # int32 [U]

    @cached_property
    def in_degree(self) -> NDArray[np.int64]:
        """How many other documents have an anchor to a document, int64 [D]."""
        degree = np.zeros(self.documents, np.int64)
        for start, end in _blocks(self.source):
            edges = np.unique(_key(self.source[start:end], self.target[start:end], self.documents))
            degree += np.bincount(edges % max(self.documents, 1), minlength=self.documents)
        return degree

    @cached_property
    def most_in_degree(self) -> int:
        """K: the value at position floor(0.9 D) of all in-degrees, ascending; 0 without documents."""
        if self.documents == 0:
            return 0
        place = int(np.floor(IN_DEGREE_SHARE * self.documents))
        return int(np.partition(self.in_degree, place)[place])

    @cached_property
    def by_target(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Places in `link` sorted by target, int64 [U], and the targets in that order, int32 [U]."""
        order = np.argsort(self.target, kind="stable")
        return order, self.target[order]

    def targets_of(self, passage: int) -> NDArray[np.int32]:
        """The documents that a passage links to, ascending."""
        low, high = np.searchsorted(self.passage, [passage, passage + 1])
        return self.target[low:high]

    def link_from_to(self, passage: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int32]:
        """The first link of each passage to each document, int32 [n]; -1 where there is none."""
        wanted = _key(passage, target, self.documents)
        place = np.searchsorted(self.keys, wanted)  # [n]
        place[place == len(self.keys)] = 0
        found = self.keys[place] == wanted if len(self.keys) else np.zeros(len(wanted), np.bool_)
        return np.where(found, self.link[place] if len(self.keys) else -1, -1).astype(np.int32)

    # --- dual links ------------------------------------------------------------------------------

    def dual_links(self) -> Pairs:
        """All dual-link pairs, each in both directions."""
        edge = _key(self.source, self.target, self.documents)  # [U], source document to target document
        order = np.argsort(edge, kind="stable")  # [U]
        edge = edge[order]

        def back(links: slice) -> NDArray[np.int64]:
            return _key(self.target[links], self.source[links], self.documents)

        parts = []
        for here, place in _joined(edge, back, len(edge)):
            there = order[place]
            parts.append(
                Pairs(
                    self.passage[here],
                    self.passage[there],
                    self.link[here],
                    self.link[there],
                    np.full(len(here), -1, np.int32),
                )
            )
        return _sorted(Pairs.joined(parts))

    # --- co-mentions -----------------------------------------------------------------------------

    def co_mentions(self) -> Pairs:
        """All co-mention pairs, those included that are dual links too.

        Joined through E, whose in-degree is below K: never through a hub.
        """
        is_rare = self.in_degree < self.most_in_degree  # [D]
        rare = np.flatnonzero(is_rare[self.target]).astype(np.int32)  # [r], anchors to an E
        by_target = rare[np.argsort(self.target[rare], kind="stable")]  # [r]
        targets = self.target[by_target]
        mentions = _Filter(self.keys)
        parts = []
        for links, place in _joined(targets, lambda links: self.target[rare[links]], len(rare)):
            asked, answering = rare[links], by_target[place]  # places in self.link
            c, d = self.passage[asked], self.passage[answering]
            maybe = mentions.may_hold(_key(d, self.source[asked], self.documents))
            asked, answering, c, d = asked[maybe], answering[maybe], c[maybe], d[maybe]
            to_c = self.link_from_to(d, self.source[asked])
            found = (to_c >= 0) & (self.source[asked] != self.source[answering])
            pairs = Pairs(
                c[found], d[found], self.link[asked][found], to_c[found], self.link[answering][found]
            )
            # Blocks end between links of c, so one pair may be found again in the next block.
            parts.append(_first_of_each(pairs))
        return _first_of_each(Pairs.joined(parts))


def _key(high: NDArray[Any], low: NDArray[Any], base: int) -> NDArray[np.int64]:
    key: NDArray[np.int64] = high.astype(np.int64) * base + low
    return key


def _blocks(ascending: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Ranges of about `_BLOCK` numbers, none of which ends between equal ones."""
    bounds = np.searchsorted(ascending, ascending[::_BLOCK])
    yield from pairwise(np.unique([*bounds.tolist(), len(ascending)]).tolist())


def _joined(
    ordered: NDArray[Any], wanted: Callable[[slice], NDArray[Any]], count: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(i, place) for every place in an ascending array that holds wanted value i, in blocks.

    wanted: some of `count` values, by their numbers; all of them at once would be most of the memory.
    """
    for start in range(0, count, _BLOCK):
        low, found = _ranges(ordered, wanted(slice(start, start + _BLOCK)))
        for which, within in _expanded(found):
            yield which + start, low[which] + within


def _ranges(ordered: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each of `wanted` stands in an ascending array, and how often."""
    order = np.argsort(wanted, kind="stable")  # searched for in order, neighbours are in the cache
    low, count = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    sorted_ = wanted[order]
    low[order] = np.searchsorted(ordered, sorted_, side="left")
    count[order] = np.searchsorted(ordered, sorted_, side="right")
    return low, count - low


class _Filter:
    """A set of keys that may claim to hold a few that it does not, but answers in one look (Bloom 1970).

    Nearly all candidates for a co-mention are none, and a search for each costs ten times as much.
    """

    def __init__(self, keys: NDArray[np.int64]) -> None:
        self._shift = 64 - max(16, (16 * len(keys)).bit_length())  # one bit in 16 or more is set
        self._bits = np.zeros(1 << (61 - self._shift), np.uint8)
        for start in range(0, len(keys), _BLOCK):
            place = self._places(keys[start : start + _BLOCK])
            np.bitwise_or.at(self._bits, place >> np.uint64(3), _BIT[place & np.uint64(7)])

    def may_hold(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the keys are in the set; a few others too. bool [n]"""
        place = self._places(keys)
        found: NDArray[np.bool_] = (self._bits[place >> np.uint64(3)] & _BIT[place & np.uint64(7)]) != 0
        return found

    def _places(self, keys: NDArray[np.int64]) -> NDArray[np.uint64]:
        # multiplicative hashing by the golden ratio (Knuth, volume 3, section 6.4)
        return (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(self._shift)


_BIT = (1 << np.arange(8)).astype(np.uint8)


def _expanded(count: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """(i, 0), (i, 1), ..., (i, count[i] - 1) for every i, as two arrays, in blocks of about `_BLOCK`."""
    ends = np.cumsum(count, dtype=np.int64)
    start = 0
    while start < len(count):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _BLOCK, side="right")))
        which = np.repeat(np.arange(start, stop), count[start:stop])
        first = np.repeat(ends[start:stop] - count[start:stop], count[start:stop])
        yield which, np.arange(before, int(ends[stop - 1])) - first
        start = stop


def _sorted(pairs: Pairs) -> Pairs:
    return pairs.take(np.lexsort((pairs.query_link, pairs.positive, pairs.query)))


def _first_of_each(pairs: Pairs) -> Pairs:
    """Each pair of passages once, with the first link of the query's passage."""
    pairs = _sorted(pairs)
    keys = pairs.keys()
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return pairs.take(first)
