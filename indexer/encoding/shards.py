"""Vectors in shards: float16 arrays of a fixed range of rows each, checksummed, memory-mapped.

    NNNNN.npy   float16 [rows, d], readable by numpy alone
    NNNNN.json  first_row, rows, dimension, sha256 of the .npy file; written last

A shard is written completely or not at all, so that encoding can resume.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import DamagedIndexError, InputError, raise_of_machine
from linkseek.indexer.program.limits import allow_open_files, read_at_random
from linkseek.indexer.store.artifacts import (
    link_or_copy,
    open_array,
    read_json,
    rebuild_hint,
    temporary_path,
    write_atomically,
    write_json,
)


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows [first_row, first_row + rows) of an index, and the SHA-256 of their file."""

    path: Path
    first_row: int
    rows: int
    sha256: str

    def open(self) -> NDArray[np.float16]:
        """The vectors, float16 [rows, d], memory-mapped."""
        return open_array(self.path)

    def blocks(self, rows: int = 65_536) -> Iterator[NDArray[np.float16]]:
        """The vectors a block of rows at a time."""
        vectors = self.open()
        for start in range(0, len(vectors), rows):
            yield vectors[start : start + rows]


class ShardRows:
    """The vectors of all shards by row, memory-mapped when first read, without read-ahead."""

    def __init__(self, shards: Sequence[Shard], dimension: int) -> None:
        self._shards = shards
        self._dimension = dimension
        self._first = np.array([shard.first_row for shard in shards])
        self._arrays: dict[int, NDArray[np.float16]] = {}
        allow_open_files()

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, numbers of a vector)."""
        return sum(shard.rows for shard in self._shards), self._dimension

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[np.float16]:
        """The vectors of consecutive rows, float16 [n, d], read from start to end. Raises as `take`."""
        start, stop, _ = rows.indices(len(self))
        block = np.empty((max(stop - start, 0), self._dimension), np.float16)
        for number, first in enumerate(self._first.tolist()):
            low, high = max(start, first), min(stop, first + self._shards[number].rows)
            if low < high:
                block[low - start : high - start] = self._opened(number)[low - first : high - first]
        return block

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float16]:
        """The vectors of ascending rows, float16 [n, d].

        Raises `DamagedIndexError` for a shard that does not fit.
        """
        taken = np.empty((len(rows), self._dimension), np.float16)
        numbers = np.searchsorted(self._first, rows, side="right") - 1  # [n]
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, stop in itertools.pairwise([*starts, len(rows)]):
            number = int(numbers[start])
            taken[start:stop] = self._array(number)[rows[start:stop] - self._first[number]]
        return taken

    def _array(self, number: int) -> NDArray[np.float16]:
        if number not in self._arrays:
            array = self._opened(number)
            read_at_random(array.base)
            self._arrays[number] = array
        return self._arrays[number]

    def _opened(self, number: int) -> NDArray[np.float16]:
        shard = self._shards[number]
        array = shard.open()
        if array.shape != (shard.rows, self._dimension) or array.dtype != np.float16:
            problem = f"{shard.path}: not {shard.rows:,} x {self._dimension} numbers in float16"
            raise DamagedIndexError(problem, rebuild_hint(shard.path.parent.parent))
        return array


def shard_count(rows: int, shard_rows: int) -> int:
    """The number of shards for a number of rows."""
    return -(-rows // shard_rows)


def write_shard(folder: Path, number: int, first_row: int, vectors: NDArray[Any]) -> Shard:
    """Store vectors [rows, d] as float16. Raises `InputError` if one is not finite as float16.

    `encode_texts` has refused those that are not finite in float32.
    """
    with np.errstate(over="ignore"):  # reported below
        halves = vectors.astype(np.float16)
    if not np.isfinite(halves).all():
        row = first_row + int(np.argmin(np.isfinite(halves).all(axis=1)))
        raise InputError(
            f"the encoder's vector of passage {row:,} is not finite or beyond float16's 65,504",
            "Indexes hold vectors in half precision: use another --encoder, or one that scales its vectors.",
        )
    buffer = io.BytesIO()
    np.save(buffer, halves, allow_pickle=False)
    path = _path(folder, number)
    write_atomically(path, buffer.getvalue())
    shard = Shard(path, first_row, len(halves), file_sha256(path))
    write_json(
        path.with_suffix(".json"),
        {"first_row": first_row, "rows": len(halves), "dimension": halves.shape[1], "sha256": shard.sha256},
    )
    return shard


def read_shard(folder: Path, number: int, *, verify: bool = True) -> Shard | None:
    """A finished shard; None if it is missing or (with `verify`) its file was altered."""
    path = _path(folder, number)
    try:
        entry = read_json(path.with_suffix(".json"))
        shard = Shard(path, entry["first_row"], entry["rows"], entry["sha256"])
        if verify and file_sha256(path) != shard.sha256:
            return None
    except (DamagedIndexError, KeyError, TypeError, OSError) as error:
        raise_of_machine(error)
        return None
    return shard


def adopt_shard(shard: Shard, folder: Path) -> None:
    """Link a shard of another folder into this one, or copy it where the file system has no links."""
    path = folder / shard.path.name
    temporary = temporary_path(path)
    temporary.unlink(missing_ok=True)
    link_or_copy(shard.path, temporary)
    temporary.replace(path)
    write_atomically(path.with_suffix(".json"), shard.path.with_suffix(".json").read_bytes())


def open_shards(folder: Path, rows: int) -> list[Shard]:
    """All shards of a folder in order. Raises `DamagedIndexError` unless they hold rows 0 to `rows`."""
    shards: list[Shard] = []
    expected = 0
    while expected < rows:
        shard = read_shard(folder, len(shards), verify=False)
        if shard is None or shard.first_row != expected or shard.rows < 1:
            raise DamagedIndexError(
                f"{_path(folder, len(shards))}: missing or damaged (rows from {expected:,} on)",
                "Build the index again; intact shards are reused.",
            )
        shards.append(shard)
        expected += shard.rows
    return shards


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"
