"""Vectors in shards: float16 arrays of a fixed range of rows each, checksummed, memory-mapped.

    NNNNN.npy   float16 [rows, d], readable by numpy alone
    NNNNN.json  first_row, rows, dimension, sha256 of the .npy file; written last

A shard is written completely or not at all, so that encoding can resume.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import DamagedIndexError, InputError
from indexer.files.hashes import file_sha256
from indexer.store.artifacts import (
    link_or_copy,
    open_array,
    read_json,
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


def shard_count(rows: int, shard_rows: int) -> int:
    """The number of shards for a number of rows."""
    return -(-rows // shard_rows)


def write_shard(folder: Path, number: int, first_row: int, vectors: NDArray[Any]) -> Shard:
    """Store vectors [rows, d] as float16. Raises `InputError` if one is not finite as float16."""
    with np.errstate(over="ignore"):  # reported below
        halves = vectors.astype(np.float16)
    if not np.isfinite(halves).all():
        row = first_row + int(np.argmin(np.isfinite(halves).all(axis=1)))
        raise InputError(
            f"the encoder's vector of passage {row:,} is not finite or beyond float16's 65,504",
            "Its weights are damaged, or it is not meant for half precision: use another --encoder.",
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
    except (DamagedIndexError, KeyError, TypeError, OSError):
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
