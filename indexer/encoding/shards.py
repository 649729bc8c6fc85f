"""Vectors in shards: float16 arrays of a fixed range of rows each, checksummed, memory-mapped.

    NNNNN.npy   float16 [rows, d], readable by numpy alone; or for tokens, uint8: their codes [T, c], then
        where those of each row end, int64 [rows]
    NNNNN.json  first_row, rows, dimension (of tokens, c), sha256 of the .npy file; written last

A shard is written completely or not at all, so that encoding can resume.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.token_codes import TokenCodes
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import DamagedIndexError, InputError, raise_of_machine
from linkseek.indexer.program.limits import allow_open_files, read_at_random
from linkseek.indexer.store.artifacts import damaged, open_array, read_json, write_atomically, write_json

_END = np.dtype("<i8")


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows [first_row, first_row + rows) of an index, and the SHA-256 of their file.

    dimension: numbers of a vector, or of tokens, bytes of the code of one.
    """

    path: Path
    first_row: int
    rows: int
    sha256: str
    dimension: int = 0

    def open(self) -> NDArray[np.float16]:
        """The vectors, float16 [rows, d], memory-mapped."""
        return open_array(self.path)

    def blocks(self, rows: int = 65_536) -> Iterator[NDArray[np.float16]]:
        """The vectors a block of rows at a time."""
        vectors = self.open()
        for start in range(0, len(vectors), rows):
            yield vectors[start : start + rows]


V = TypeVar("V")


class OpenShards(ABC, Generic[V]):
    """Shards by row, memory-mapped when first read, without read-ahead."""

    def __init__(self, shards: Sequence[Shard], dimension: int | None = None) -> None:
        """dimension: the dimension of all shards; by default the first shard's."""
        self._shards = shards
        self._dimension = dimension or (shards[0].dimension if shards else 0)
        self._first = np.array([shard.first_row for shard in shards])
        self._open: dict[int, V] = {}
        allow_open_files()

    def _shard(self, number: int) -> V:
        if number not in self._open:
            array = open_array(self._shards[number].path)
            read_at_random(array.base)
            self._open[number] = self._checked(self._shards[number], array)
        return self._open[number]

    @abstractmethod
    def _checked(self, shard: Shard, array: NDArray[Any]) -> V:
        """A shard, given its file. Raises `DamagedIndexError` if it does not fit."""

    def _places(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], V, NDArray[np.int64]]]:
        """Each shard with some of the rows: their places in `rows`, the shard, and its own row numbers."""
        numbers = np.searchsorted(self._first, rows, side="right") - 1  # [n]
        order = np.argsort(numbers, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            if len(places):
                number = int(numbers[places[0]])
                yield places, self._shard(number), rows[places] - self._first[number]


class ShardRows(OpenShards[NDArray[np.float16]]):
    """The vectors of all shards by row."""

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, numbers of a vector)."""
        return sum(shard.rows for shard in self._shards), self._dimension

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[np.float16]:
        """As `take`; of a range of rows, read from start to end."""
        if not isinstance(rows, slice):
            return self.take(rows)
        start, stop, _ = rows.indices(len(self))
        block = np.empty((max(stop - start, 0), self._dimension), np.float16)
        for shard in self._shards:
            low, high = (min(max(row - shard.first_row, 0), shard.rows) for row in (start, stop))
            if low < high:
                place = shard.first_row + low - start
                block[place : place + high - low] = self._checked(shard, shard.open())[low:high]
        return block

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float16]:
        """The vectors of rows, float16 [n, d]. Raises `DamagedIndexError` for a shard that does not fit."""
        taken = np.empty((len(rows), self._dimension), np.float16)
        for places, array, own in self._places(rows):
            taken[places] = array[own]
        return taken

    def _checked(self, shard: Shard, array: NDArray[Any]) -> NDArray[np.float16]:
        if array.shape != (shard.rows, self._dimension) or array.dtype != np.float16:
            problem = f"not {shard.rows:,} x {self._dimension} numbers in float16"
            raise damaged(shard.path, problem, shard.path.parent.parent)
        return array


def interleaved(
    is_first: NDArray[np.bool_],
    first: NDArray[np.float16] | TokenCodes,
    second: NDArray[np.float16] | TokenCodes,
) -> NDArray[np.float16] | TokenCodes:
    """Vectors [n, d], or codes, of rows that are of `first` where a mask [n] says so, else of `second`."""
    places = np.concatenate([np.flatnonzero(is_first), np.flatnonzero(~is_first)]).tolist()
    if isinstance(first, TokenCodes) and isinstance(second, TokenCodes):
        width = max(first.codes.shape[1], second.codes.shape[1])  # 0 of no rows
        ordered = dict(zip(places, [*first, *second], strict=True))
        return TokenCodes.of([ordered[place] for place in range(len(places))], width)
    vectors: NDArray[np.float16] = np.concatenate([first, second])[np.argsort(places)]
    return vectors


def joined_shards(several: Iterable[Sequence[Shard]]) -> list[Shard]:
    """The shards of several indexes as one list: rows count on from one index to the next."""
    joined, first = list[Shard](), 0
    for shards in several:
        joined += [replace(shard, first_row=first + shard.first_row) for shard in shards]
        first += sum(shard.rows for shard in shards)
    return joined


def token_count(shard: Shard) -> int:
    """The tokens of a shard."""
    return int(shard.open().size - _END.itemsize * shard.rows) // shard.dimension


def shard_count(rows: int, shard_rows: int) -> int:
    """The number of shards for a number of rows."""
    return -(-rows // shard_rows)


class TokenShards(OpenShards[TokenCodes]):
    """The codes of the tokens of passages, by row."""

    def take(self, rows: NDArray[np.int64]) -> TokenCodes:
        """The codes of rows, in their order. Raises `DamagedIndexError` for a shard that does not fit."""
        codes: list[NDArray[np.uint8]] = [np.empty((0, 0), np.uint8)] * len(rows)
        for places, shard, own in self._places(rows):
            for place, row in zip(places.tolist(), own.tolist(), strict=True):
                codes[place] = shard[row]
        return TokenCodes.of(codes, self._dimension)

    def _checked(self, shard: Shard, array: NDArray[Any]) -> TokenCodes:
        last = array.size - _END.itemsize * shard.rows  # where the ends begin
        fits = array.dtype == np.uint8 and array.ndim == 1 and last >= 0
        ends = np.array(array[last:]).view(_END) if fits else np.empty(0, _END)
        if not fits or not _ends_fit(ends, shard.rows, last, self._dimension):
            raise damaged(shard.path, f"not the codes of {shard.rows:,} passages", shard.path.parent.parent)
        return TokenCodes(array[:last].reshape(-1, self._dimension), ends)


def write_shard(folder: Path, number: int, first_row: int, vectors: NDArray[Any] | TokenCodes) -> Shard:
    """Store vectors [rows, d] as float16, or the codes of tokens.

    Raises `InputError` if a vector is not finite as float16. `encode_texts` has refused those that are not
    finite in float32.
    """
    if isinstance(vectors, TokenCodes):
        flat = np.concatenate([vectors.codes.ravel(), vectors.ends.astype(_END).view(np.uint8)])
        return _write(_path(folder, number), first_row, flat, len(vectors), vectors.codes.shape[1])
    with np.errstate(over="ignore"):  # reported below
        halves = vectors.astype(np.float16)
    if not np.isfinite(halves).all():
        row = first_row + int(np.argmin(np.isfinite(halves).all(axis=1)))
        raise InputError(
            f"the encoder's vector of passage {row:,} is not finite or beyond float16's 65,504",
            "Indexes store vectors in half precision: use another --encoder, or one that scales its vectors.",
        )
    return _write(_path(folder, number), first_row, halves, *halves.shape)


def _write(path: Path, first_row: int, array: NDArray[Any], rows: int, dimension: int) -> Shard:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomically(path, buffer.getvalue())
    shard = Shard(path, first_row, rows, file_sha256(path), dimension)
    write_json(
        path.with_suffix(".json"),
        {"first_row": first_row, "rows": rows, "dimension": dimension, "sha256": shard.sha256},
    )
    return shard


def _ends_fit(ends: NDArray[np.int64], rows: int, size: int, width: int) -> bool:
    lengths = np.diff(ends, prepend=0)
    return len(ends) == rows and bool((lengths >= 0).all()) and int(ends[-1] if rows else 0) * width == size


def read_shard(folder: Path, number: int, *, verify: bool = True) -> Shard | None:
    """A finished shard; None if it is missing or (with `verify`) its file was altered."""
    path = _path(folder, number)
    try:
        entry = read_json(path.with_suffix(".json"))
        shard = Shard(path, entry["first_row"], entry["rows"], entry["sha256"], entry["dimension"])
        if verify and file_sha256(path) != shard.sha256:
            return None
    except (DamagedIndexError, KeyError, TypeError, OSError) as error:
        raise_of_machine(error)
        return None
    return shard


def open_shards(folder: Path, rows: int) -> list[Shard]:
    """All shards of a folder in order. Raises `DamagedIndexError` unless they contain rows 0 to `rows`."""
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
