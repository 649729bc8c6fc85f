"""Ids to rows, for millions of ids in a few bytes each.

An id is looked up by its 64-bit hash in a sorted array (12 bytes an id; a dictionary of 18 million
titles would take 3 GB). Two of 18 million ids share a hash with a probability of 1e-5; the second one would
be refused as a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from linkseek.indexer.store.artifacts import check_array, damaged, open_array


def hash_ids(ids: Iterable[str]) -> NDArray[np.uint64]:
    """The 64-bit hashes (XXH3) of ids, uint64 [n]."""
    return np.fromiter(map(hash_id, ids), np.uint64)


def hash_id(name: str) -> int:
    """The 64-bit hash (XXH3) of one id."""
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"))


_RECENT = 1 << 17


class IdTable:
    """A sorted table from id hashes to rows; several ids (redirects) may lead to one row."""

    def __init__(self, hashes: NDArray[np.uint64], rows: NDArray[np.int32]) -> None:
        """hashes uint64 [n] ascending, rows int32 [n]."""
        self.hashes = hashes
        self._rows = rows

    @classmethod
    def build(cls, hashes: NDArray[np.uint64], rows: NDArray[np.int32] | None = None) -> IdTable:
        """From unsorted arrays; of equal hashes the first one stays. rows: by default 0, 1 and so on."""
        order = np.argsort(hashes, kind="stable")
        hashes, rows = hashes[order], (order if rows is None else rows[order]).astype(np.int32)
        del order  # 8 bytes an id
        first = np.ones(len(hashes), np.bool_)
        first[1:] = hashes[1:] != hashes[:-1]
        return cls(hashes, rows) if first.all() else cls(hashes[first], rows[first])

    @classmethod
    def open(cls, folder: Path, documents: int = 1 << 31) -> IdTable:
        """Memory-map the files that `save` wrote. documents: their number.

        Raises `DamagedIndexError` for hashes in another order, or rows of no document.
        """
        hashes, rows = open_array(folder / "id_hashes.npy"), open_array(folder / "id_rows.npy")
        if hashes.dtype != np.uint64 or rows.dtype != np.int32 or hashes.shape != rows.shape:
            raise damaged(folder / "id_rows.npy", "altered (it does not match id_hashes.npy)")
        check_array(folder / "id_hashes.npy", hashes, 0, 1 << 64, ascending=True)
        check_array(folder / "id_rows.npy", rows, 0, documents)
        return cls(hashes, rows)

    def save(self, folder: Path) -> None:
        """Write two .npy files into an existing folder."""
        np.save(folder / "id_hashes.npy", self.hashes)
        np.save(folder / "id_rows.npy", self._rows)

    def rows(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The rows of hashes, int32 [n]; -1 for those that are not in the table."""
        rows = np.full(len(hashes), -1, np.int32)  # [n]
        if len(self.hashes) == 0:
            return rows
        order = np.argsort(hashes)  # looked up in ascending order, neighbours share the processor's cache
        wanted = hashes[order]
        place = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        rows[order] = np.where(self.hashes[place] == wanted, self._rows[place], np.int32(-1))
        return rows

    def row(self, id_: str) -> int:
        """The row of one id, -1 if it is not in the table."""
        return int(self.rows(hash_ids([id_]))[0])


class SeenIds:
    """A set of ids as hashes: 8 bytes an id, in sorted runs that are merged as they grow."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, id_: str) -> bool:
        """Add an id; False if it was in the set already."""
        value = hash_id(id_)
        if value in self._recent or any(_holds(run, value) for run in self._runs):
            return False
        self._recent.add(value)
        if len(self._recent) >= _RECENT:
            self._extend(np.fromiter(self._recent, np.uint64, len(self._recent)))
            self._recent = set()
        return True

    def add_all(self, ids: Iterable[str]) -> None:
        """Add ids that are known to be new."""
        self._extend(hash_ids(ids))

    def _extend(self, hashes: NDArray[np.uint64]) -> None:
        run = np.sort(hashes)
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        self._runs.append(run)


def _holds(run: NDArray[np.uint64], value: int) -> bool:
    place = int(np.searchsorted(run, np.uint64(value)))
    return place < len(run) and int(run[place]) == value
