"""The link graph: which passage links to which document, where, and with which anchor.

Links are resolved once, when the index is built: the target of a link is the id of a document or of a
redirect, which may lead to another redirect. A link is in the graph if its target is a document of
the corpus and a passage holds its whole anchor. Links of a document to itself stay in the graph
(`who links to whom` is told as it is); whoever wants links between documents compares source and
target.

Stored as flat arrays ("compressed sparse rows"), E links in reading order, D documents, P passages:

    target.npy          int32 [E]    row of the document that the link leads to
    passage.npy         int32 [E]    row of the passage that holds it
    start.npy, end.npy  int32 [E]    the anchor, in characters of the passage's text
    offsets.npy         int64 [P+1]  passage p has links offsets[p] to offsets[p+1]
    incoming.npy        int32 [E]    links sorted by target, then in reading order
    incoming_offsets.npy int64 [D+1] document d is the target of incoming[offsets[d]:offsets[d+1]]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.artifacts import open_array
from indexer.documents import DocumentStore
from indexer.ids import IdTable, hash_ids
from indexer.passages import PassageStore
from indexer.tables import Table

_MOST_REDIRECTS = 8  # MediaWiki itself follows one; wikis hold longer chains, and loops

_ARRAYS = ("target", "passage", "start", "end", "offsets", "incoming", "incoming_offsets")


@dataclass(frozen=True)
class LinkGraph:
    """The arrays described above, memory-mapped."""

    target: NDArray[np.int32]
    passage: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    offsets: NDArray[np.int64]
    incoming: NDArray[np.int32]
    incoming_offsets: NDArray[np.int64]

    @classmethod
    def open(cls, folder: Path) -> LinkGraph:
        """Memory-map the arrays that `build_links` wrote."""
        return cls(**{name: open_array(folder / f"{name}.npy") for name in _ARRAYS})

    def __len__(self) -> int:
        return len(self.target)

    def from_passage(self, row: int) -> range:
        """The links that a passage holds, in reading order."""
        return range(int(self.offsets[row]), int(self.offsets[row + 1]))

    def to_document(self, row: int) -> NDArray[np.int32]:
        """The links that lead to a document, in reading order."""
        return self.incoming[self.incoming_offsets[row] : self.incoming_offsets[row + 1]]


def resolve_redirects(redirects: Table, documents: IdTable) -> tuple[IdTable, dict[str, int]]:
    """A table that leads from document ids and redirect ids to document rows, and counts.

    Counts: `resolved_redirects` lead to a document, `dangling_redirects` to nothing or in a loop.
    A redirect with the id of a document is passed over.
    """
    sources: NDArray[np.uint64] = np.empty(0, np.uint64)
    targets: NDArray[np.uint64] = np.empty(0, np.uint64)
    for source, target in redirects.batches(["id", "target"]):
        sources = np.concatenate([sources, hash_ids(source.to_pylist())])
        targets = np.concatenate([targets, hash_ids(target.to_pylist())])
    next_hop = IdTable.build(sources, np.arange(len(sources), dtype=np.int32))
    rows = documents.rows(targets)  # [R]
    for _ in range(_MOST_REDIRECTS):
        waiting = np.flatnonzero(rows < 0)
        hop = next_hop.rows(targets[waiting])
        waiting, hop = waiting[hop >= 0], hop[hop >= 0]
        if len(waiting) == 0:
            break
        targets[waiting] = targets[hop]
        rows[waiting] = documents.rows(targets[waiting])
    found = rows >= 0
    table = IdTable.build(
        np.concatenate([np.asarray(documents.hashes), sources[found]]),
        np.concatenate([documents.rows(np.asarray(documents.hashes)), rows[found]]),
    )
    return table, {"resolved_redirects": int(found.sum()), "dangling_redirects": int((~found).sum())}


def build_links(
    folder: Path, documents: DocumentStore, redirects: Table, ids: IdTable, passages: PassageStore
) -> dict[str, int]:
    """Write the graph's arrays into an existing folder; return counts.

    Counts: `links` in the graph, `between_documents` (source and target differ), `dangling` (target
    is nothing), `cut` (no passage holds the whole anchor), and those of `resolve_redirects`.
    Memory: one batch of documents, the id table, and 4 bytes a link.
    """
    table, counts = resolve_redirects(redirects, ids)
    counts |= {"links": 0, "between_documents": 0, "dangling": 0, "cut": 0}
    columns = {name: _ArrayFile(folder / f"{name}.npy") for name in ("target", "passage", "start", "end")}
    per_passage = np.zeros(len(passages) + 1, np.int64)  # [P+1]
    per_document = np.zeros(len(documents) + 1, np.int64)  # [D+1]
    bounds = _PassageBounds(passages)
    for first, rows_of_links, starts, ends, targets in _link_batches(documents):
        source = first + rows_of_links  # [n], rows of the documents that hold the links
        target = table.rows(targets)
        row, shift, whole = bounds.find(source, starts, ends)
        known = target >= 0
        keep = known & whole
        counts["dangling"] += int((~known).sum())
        counts["cut"] += int((known & ~whole).sum())
        counts["links"] += int(keep.sum())
        counts["between_documents"] += int((keep & (source != target)).sum())
        columns["target"].write(target[keep])
        columns["passage"].write(row[keep])
        columns["start"].write((starts - shift)[keep])
        columns["end"].write((ends - shift)[keep])
        np.add.at(per_passage, row[keep] + 1, 1)
        np.add.at(per_document, target[keep] + 1, 1)
    for column in columns.values():
        column.close()
    np.save(folder / "offsets.npy", np.cumsum(per_passage))
    np.save(folder / "incoming_offsets.npy", np.cumsum(per_document))
    target = np.load(folder / "target.npy", mmap_mode="r")
    np.save(folder / "incoming.npy", np.argsort(target, kind="stable").astype(np.int32))
    return counts


_Batch = tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64]]


def _link_batches(documents: DocumentStore) -> Iterator[_Batch]:
    """(row of the batch's first document, then per link: document in batch, start, end, target hash)."""
    first = 0
    for (links,) in documents.table.batches(["links"]):
        values = links.flatten()  # struct array [n]
        owner = np.repeat(np.arange(len(links)), np.diff(links.offsets.to_numpy(zero_copy_only=False)))
        yield (
            first,
            owner,
            values.field("start").to_numpy(zero_copy_only=False).astype(np.int64),
            values.field("end").to_numpy(zero_copy_only=False).astype(np.int64),
            hash_ids(values.field("target").to_pylist()),
        )
        first += len(links)


class _PassageBounds:
    """Which passage of a document holds [start, end), for many links at once."""

    def __init__(self, passages: PassageStore) -> None:
        self._offsets = passages.offsets
        starts, ends = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        for start, end in passages.table.batches(["start", "end"]):
            starts.append(start.to_numpy())
            ends.append(end.to_numpy())
        self._starts = np.concatenate(starts)  # [P]
        self._ends = np.concatenate(ends)  # [P]
        owner = np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))  # [P]
        self._keys = _key(owner, self._starts)  # [P], ascending

    def find(
        self, document: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """(passage row, its start in the document, whether it holds the whole anchor), each [n]."""
        row = np.searchsorted(self._keys, _key(document, start), side="right") - 1
        in_document = row >= self._offsets[document]
        row = np.where(in_document, row, 0)
        if len(self._starts) == 0:
            return row, row, in_document
        return row, self._starts[row].astype(np.int64), in_document & (end <= self._ends[row])


def _key(document: NDArray[np.int64], start: NDArray[Any]) -> NDArray[np.int64]:
    return (document.astype(np.int64) << 32) | start.astype(np.int64)


class _ArrayFile:
    """A one-dimensional int32 .npy file that is written piece by piece."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = path.with_suffix(".raw")
        self._file = self._raw.open("wb")
        self._count = 0

    def write(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, np.int32).tobytes())
        self._count += len(values)

    def close(self) -> None:
        self._file.close()
        empty = np.empty(0, np.int32)  # a file of no bytes cannot be mapped
        np.save(self._path, np.memmap(self._raw, np.int32, "r") if self._count else empty)
        self._raw.unlink()
