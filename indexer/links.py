"""The link graph: which passage links to which document, where, and with which anchor.

Links are resolved once, when the index is built: the target of a link is the id of a document or of a
redirect, which may lead to another redirect. A link is in the graph if its target is a document of
the corpus and one passage contains the whole anchor. Links of a document to itself stay in the graph; to
get links between documents, compare source and target.

Stored as flat arrays ("compressed sparse rows"), E links in reading order, D documents, P passages:

    target.npy          int32 [E]    row of the document that the link leads to
    passage.npy         int32 [E]    row of the passage that contains it
    start.npy, end.npy  int32 [E]    the anchor, in characters of the passage's text
    offsets.npy         int64 [P+1]  passage p has links offsets[p] to offsets[p+1]
    incoming.npy        int32 [E]    links sorted by target, then in reading order
    incoming_offsets.npy int64 [D+1] document d is the target of incoming[offsets[d]:offsets[d+1]]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.documents import DocumentStore
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import check_array, check_offsets, damaged, open_array
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.indexer.store.manifests import Entries
from linkseek.indexer.store.tables import Table

_MAX_REDIRECTS = 8  # MediaWiki itself follows one; wikis contain longer chains, and loops
_SORTED_LINKS = 1 << 23  # at once, 8 bytes each
_BLOCK_LINKS = 1 << 20
_MAX_MISSING = 1 << 18  # targets that are counted at once
_LISTED = 5  # of these
_MAX_LINKS = (1 << 31) - 1  # they are numbered in int32


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
        return cls(**{array.name: open_array(folder / f"{array.name}.npy") for array in fields(cls)})

    def check(self, folder: Path, documents: int, passages: int) -> LinkGraph:
        """This graph, if every number in it fits an index of this size. Raises `DamagedIndexError` if not."""
        length = 1 << 31
        links = len(self)
        ranges = {"target": documents, "passage": passages, "start": length, "end": length, "incoming": links}
        for name, high in ranges.items():
            array = getattr(self, name)
            if array.shape != (links,) or array.dtype != np.int32:
                raise damaged(folder / f"{name}.npy", f"altered (expected {links:,} numbers)")
            check_array(folder / f"{name}.npy", array, 0, high)
        check_offsets(folder / "offsets.npy", self.offsets, passages, links)
        check_offsets(folder / "incoming_offsets.npy", self.incoming_offsets, documents, links)
        return self

    def __len__(self) -> int:
        return len(self.target)

    def from_passage(self, row: int) -> range:
        """The links that a passage contains, in reading order."""
        return range(int(self.offsets[row]), int(self.offsets[row + 1]))

    def to_document(self, row: int) -> NDArray[np.int32]:
        """The links that lead to a document, in reading order."""
        return self.incoming[self.incoming_offsets[row] : self.incoming_offsets[row + 1]]


def resolve_redirects(redirects: Table, documents: IdTable) -> tuple[IdTable, dict[str, int]]:
    """A table that leads from document ids and redirect ids to document rows, and counts.

    Counts: `resolved_redirects` lead to a document, `dangling_redirects` to nothing or in a loop.
    A redirect with the id of a document is ignored.
    """
    hashes = [(np.empty(0, np.uint64), np.empty(0, np.uint64))]
    for source, target in redirects.batches(["id", "target"]):
        hashes.append((hash_ids(source.to_pylist()), hash_ids(target.to_pylist())))
    sources, targets = map(np.concatenate, zip(*hashes, strict=True))  # [R]
    del hashes  # tens of bytes a redirect are in memory already
    rows = _follow(sources, targets, documents)
    del targets
    resolved = rows >= 0
    table = IdTable.build(
        np.concatenate([documents.hashes, sources[resolved]]),
        np.concatenate([documents.rows(documents.hashes), rows[resolved]]),
    )
    return table, {"resolved_redirects": int(resolved.sum()), "dangling_redirects": int((~resolved).sum())}


def _follow(
    sources: NDArray[np.uint64], targets: NDArray[np.uint64], documents: IdTable
) -> NDArray[np.int32]:
    """The document rows that redirects lead to, int32 [R]; -1 for nothing. Alters `targets`."""
    next_hop = IdTable.build(sources)
    rows = documents.rows(targets)  # [R]
    for _ in range(_MAX_REDIRECTS):
        waiting = np.flatnonzero(rows < 0)
        hop = next_hop.rows(targets[waiting])
        waiting, hop = waiting[hop >= 0], hop[hop >= 0]
        if len(waiting) == 0:
            break
        targets[waiting] = targets[hop]
        rows[waiting] = documents.rows(targets[waiting])
    return rows


def build_links(
    folder: Path,
    documents: DocumentStore,
    redirects: Table,
    ids: IdTable,
    passages: PassageStore,
    on_documents: Callable[[float], None] = lambda documents: None,
) -> Entries:
    """Write the graph's arrays into an existing folder; return the manifest's entries.

    Counts: `links` in the graph, `between_documents` (source and target differ), `dangling` (no such
    target), `cut` (no passage contains the whole anchor), and the counts of `resolve_redirects`.
    Next to them, the most frequent targets that do not exist. on_documents: gets the number of documents done
    since the last call. Raises `InputError` for more than 2,147,483,647 links. Memory: the id table with
    redirects, 8 bytes a document and passage, and bounded pieces of the rest.
    """
    table, counts = resolve_redirects(redirects, ids)
    counts |= {"links": 0, "between_documents": 0, "dangling": 0, "cut": 0}
    columns = {name: _ArrayFile(folder / f"{name}.npy") for name in ("target", "passage", "start", "end")}
    per_passage = np.zeros(len(passages) + 1, np.int64)  # [P+1]
    per_document = np.zeros(len(documents) + 1, np.int64)  # [D+1]
    missing = Counter[str]()
    for first, last, source, starts, ends, targets in _link_batches(documents):
        target = table.rows(hash_ids(targets))
        row, shift, inside = _find_passages(passages, first, last, source, starts, ends)
        known = target >= 0
        keep = known & inside
        counts["dangling"] += int((~known).sum())
        missing.update(compress(targets, ~known))
        if len(missing) > _MAX_MISSING:  # rare ones may be forgotten, and then be counted from 0
            kept = missing.most_common(_MAX_MISSING // 2)
            missing.clear()
            missing.update(dict(kept))
        counts["cut"] += int((known & ~inside).sum())
        counts["links"] += int(keep.sum())
        counts["between_documents"] += int((keep & (source != target)).sum())
        columns["target"].write(target[keep])
        columns["passage"].write(row[keep])
        columns["start"].write((starts - shift)[keep])
        columns["end"].write((ends - shift)[keep])
        np.add.at(per_passage, row[keep] + 1, 1)
        np.add.at(per_document, target[keep] + 1, 1)
        on_documents(last - first)
        if counts["links"] > _MAX_LINKS:
            raise InputError(
                f"more than {_MAX_LINKS:,} links in passages, the limit of a link graph",
                "Split the corpus into several indexes.",
            )
    for column in columns.values():
        column.close()
    np.save(folder / "offsets.npy", np.cumsum(per_passage, out=per_passage))
    np.save(folder / "incoming_offsets.npy", np.cumsum(per_document, out=per_document))
    _write_incoming(folder, per_document)
    most = missing.most_common(_LISTED)
    return {"counts": counts, "dangling_targets": [f"{name} ({n:,})" for name, n in most]}


_Batch = tuple[int, int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], list[str]]


def _link_batches(documents: DocumentStore) -> Iterator[_Batch]:
    """(rows of the first document and after the last, then per link: document, start, end, target)."""
    first = 0
    for (links,) in documents.table.batches(["links"]):
        values = links.flatten()  # struct array [n]
        owner = np.repeat(np.arange(len(links)), np.diff(links.offsets.to_numpy(zero_copy_only=False)))
        yield (
            first,
            first + len(links),
            first + owner,
            values.field("start").to_numpy(zero_copy_only=False).astype(np.int64),
            values.field("end").to_numpy(zero_copy_only=False).astype(np.int64),
            values.field("target").to_pylist(),
        )
        first += len(links)


def _find_passages(
    passages: PassageStore,
    first: int,
    last: int,
    document: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """For n links in documents [first, last): the row of the passage where each starts, the passage's start
    in the document, and whether it contains the whole anchor, each [n]."""
    offsets = np.asarray(passages.offsets[first : last + 1])  # [D+1]
    rows = int(offsets[0]), int(offsets[-1])
    starts = passages.table.array("start", *rows)  # [P]
    ends = passages.table.array("end", *rows)  # [P]
    keys = _key(np.repeat(np.arange(first, last), np.diff(offsets)), starts)  # [P], ascending
    row = rows[0] + np.searchsorted(keys, _key(document, start), side="right") - 1
    inside = row >= offsets[document - first]
    row = np.where(inside, row - rows[0], 0)
    if len(starts) == 0:
        return row, row, inside
    return rows[0] + row, starts[row].astype(np.int64), inside & (end <= ends[row])


def _key(document: NDArray[np.int64], start: NDArray[Any]) -> NDArray[np.int64]:
    return (document.astype(np.int64) << 32) | start.astype(np.int64)


def _write_incoming(folder: Path, offsets: NDArray[np.int64]) -> None:
    """Sort the links by (target, link), one range of targets at a time.

    offsets: int64 [D+1], the content of incoming_offsets.npy.
    """
    target = open_array(folder / "target.npy")  # [E]
    incoming = _ArrayFile(folder / "incoming.npy")
    low = 0
    while low < len(offsets) - 1:
        # As many documents as have _SORTED_LINKS together, but at least one.
        high = max(int(np.searchsorted(offsets, offsets[low] + _SORTED_LINKS, side="right")) - 1, low + 1)
        keys = np.empty(offsets[high] - offsets[low], np.int64)  # [n]
        filled = 0
        for start in range(0, len(target), _BLOCK_LINKS):
            block = target[start : start + _BLOCK_LINKS]
            links = np.flatnonzero((block >= low) & (block < high))
            keys[filled : filled + len(links)] = _key(block[links], start + links)
            filled += len(links)
        keys.sort()
        incoming.write(keys & 0xFFFFFFFF)
        low = high
    incoming.close()


class _ArrayFile:
    """A one-dimensional int32 .npy file that is written in pieces."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._count = 0
        self._write_header()

    def write(self, values: NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(values, np.int32).tobytes())
        self._count += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        # Its length is the same for any count: numpy pads it.
        header = {"descr": "<i4", "fortran_order": False, "shape": (self._count,)}
        np.lib.format.write_array_header_1_0(self._file, header)
