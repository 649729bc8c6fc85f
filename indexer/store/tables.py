"""Arrow IPC files as memory-mapped tables: written as a stream, read by row or by range.

Documents, redirects and passages are stored this way. A table is one or more files with the same schema
("segments"), read as one. Writing keeps one batch in memory, reading only the pages that the kernel caches.
Single rows are read from the file by the offsets of Arrow's buffers, 13 us for six columns.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linkseek.indexer.program.errors import DamagedIndexError, raise_of_machine
from linkseek.indexer.program.limits import read_at_random, read_soon
from linkseek.indexer.store.artifacts import check_regular, damaged, link_or_copy

Row = dict[str, Any]

# Opening a table reads the header of every batch: 21 million passages are some 1,500 batches.
_BATCH_ROWS = 16_384
_BATCH_CHARACTERS = 16 << 20
_OFFSETS = struct.Struct("<ii")  # of a text, and of the next one
_FEW_ROWS = 64
"""Ranges of more rows have their column read ahead."""


class TableWriter:
    """Writes rows to one Arrow IPC file. Use as a context manager; the footer is written on exit."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._schema = schema
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)
        self._columns: list[list[Any]] = [[] for _ in schema]
        self._characters = 0
        self.rows = 0

    def write(self, row: Mapping[str, Any], size: int = 64) -> None:
        """Add one row; `size`, about its length in characters, decides when a batch is full."""
        for column, name in zip(self._columns, self._schema.names, strict=True):
            column.append(row[name])
        self.rows += 1
        self._characters += size
        if len(self._columns[0]) >= _BATCH_ROWS or self._characters >= _BATCH_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if self._columns[0]:
            arrays = map(pa.array, self._columns, self._schema.types)
            self._writer.write_batch(pa.RecordBatch.from_arrays(list(arrays), schema=self._schema))
        self._columns = [[] for _ in self._schema]
        self._characters = 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
                self._writer.close()
        finally:
            self._sink.close()


class Table:
    """The rows of one or more Arrow IPC files, memory-mapped, numbered from 0 across the files.

    Everything is validated before it is read, since Arrow would follow an altered offset out of its buffer:
    every method below raises `DamagedIndexError` naming the file if it was altered at that place.
    """

    def __init__(self, paths: Sequence[Path], schema: pa.Schema) -> None:
        """Open files in order. Raises `DamagedIndexError` for one that is missing, cut or foreign."""
        self._schema = schema
        self._paths = paths
        self._batches = [batch for path in paths for batch in _open_batches(path, schema)]
        sizes: list[int] = [batch.rows.num_rows for batch in self._batches]
        *self._starts, self._rows = accumulate(sizes, initial=0)

    def __reduce__(self) -> tuple[type[Table], tuple[Sequence[Path], pa.Schema]]:
        """Pickled as the paths of its files, which another process opens."""
        return Table, (self._paths, self._schema)

    def __len__(self) -> int:
        return self._rows

    def row(self, row: int) -> Row:
        """One row as a dictionary. Raises IndexError outside [0, len)."""
        batch, place = self._find(row)
        return {name: cell(place) for name, cell in zip(self._schema.names, batch.cells, strict=True)}

    def value(self, name: str, row: int) -> Any:
        """One cell as a Python object. Raises IndexError outside [0, len)."""
        batch, place = self._find(row)
        return batch.cells[self._schema.names.index(name)](place)

    def _find(self, row: int) -> tuple[_Batch, int]:
        """The batch of a row, and the row's number in it."""
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} of a table of {self._rows} rows")
        number = bisect_right(self._starts, row) - 1
        return self._batches[number], row - self._starts[number]

    def rows(self) -> Iterator[Row]:
        """All rows in order, one batch in memory at a time."""
        for batch in self.record_batches():
            yield from batch.to_pylist()

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in order, as Arrow's batches without a copy."""
        for batch in self._batches:
            for column in batch.columns:
                batch.valid(batch.file.read_ahead(column))
            yield batch.rows

    def column(self, name: str, start: int = 0, stop: int | None = None) -> Iterable[Any]:
        """The values of one column for rows [start, stop), as Python objects."""
        for piece in self._ranges(name, start, stop):
            yield from piece.to_pylist()

    def array(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """One column of numbers for rows [start, stop)."""
        empty = np.empty(0, self._schema.field(name).type.to_pandas_dtype())
        return np.concatenate([empty, *(piece.to_numpy() for piece in self._ranges(name, start, stop))])

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.Array, ...]]:
        """The named columns batch by batch, as Arrow arrays without a copy."""
        for batch in self._batches:
            yield tuple(batch.valid(batch.file.read_ahead(batch.rows.column(name))) for name in columns)

    def chosen(self, rows: NDArray[np.int64]) -> Iterator[Row]:
        """Some rows, int64 [n] ascending, one batch in memory at a time; for many, much faster than `row`.

        Raises IndexError outside [0, len).
        """
        if len(rows) and (rows[0] < 0 or rows[-1] >= self._rows):
            raise IndexError(f"rows {rows[0]} to {rows[-1]} of a table of {self._rows} rows")
        for start, batch in zip(self._starts, self.record_batches(), strict=True):
            low, high = np.searchsorted(rows, (start, start + batch.num_rows))
            if low < high:
                yield from batch.take(pa.array(rows[low:high] - start)).to_pylist()

    def sample(self, count: int) -> list[Row]:
        """At most `count` rows, evenly spaced."""
        return list(self.chosen(np.unique(np.linspace(0, self._rows - 1, count).astype(np.int64))))

    def kept(self, mask: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        """The rows of a mask, bool [len], batch by batch."""
        for start, batch in zip(self._starts, self.record_batches(), strict=True):
            rows = batch.filter(pa.array(mask[start : start + batch.num_rows]))
            if rows.num_rows:
                yield rows

    def _ranges(self, name: str, start: int, stop: int | None) -> Iterator[pa.Array]:
        """The pieces of a column that contain rows [start, stop)."""
        stop = self._rows if stop is None else min(stop, self._rows)
        number = max(bisect_right(self._starts, start) - 1, 0)
        for first, batch in zip(self._starts[number:], self._batches[number:], strict=True):
            if first >= stop:
                break
            low, high = max(start - first, 0), min(stop - first, batch.rows.num_rows)
            column = batch.rows.column(name)
            if high - low > _FEW_ROWS:
                batch.file.read_ahead(column)
            yield batch.valid(column.slice(low, max(high - low, 0)))


class _Batch:
    """Rows of a mapped file."""

    def __init__(self, rows: pa.RecordBatch, file: _MappedFile) -> None:
        self.rows = rows
        self.columns: list[pa.Array] = rows.columns
        self.file = file

    @cached_property
    def cells(self) -> list[Callable[[int], Any]]:
        """A function for each column, from a place to its cell."""
        return [self.file.reader(column) or partial(self._cell, column) for column in self.columns]

    def _cell(self, column: pa.Array, place: int) -> Any:
        return self.valid(column.slice(place, 1))[0].as_py()

    def valid(self, data: pa.Array) -> pa.Array:
        """`data`, of a column, after a check that it can be read."""
        try:
            _check_values(data)
        except pa.ArrowInvalid as error:
            raise _altered(self.file.path, str(error)) from None
        return data


def _check_values(data: pa.Array) -> None:
    """Raises ArrowInvalid unless every value of a slice can be read.

    For a slice of lists, Arrow validates either no values or the values of all rows, which takes
    milliseconds.
    """
    if not pa.types.is_nested(data.type):
        data.validate(full=True)
        return
    data.validate()
    if pa.types.is_struct(data.type):
        children = data.flatten()
    else:
        offsets = data.offsets.to_numpy()  # [rows + 1]
        if (np.diff(offsets) < 0).any():
            raise pa.ArrowInvalid("a list ends before it begins")
        values = [data.keys, data.items] if pa.types.is_map(data.type) else [data.values]
        children = (
            [child.slice(offsets[0], offsets[-1] - offsets[0]) for child in values] if len(data) else []
        )
    for child in children:
        _check_values(child)


def _altered(path: Path, reason: str) -> DamagedIndexError:
    """The error for a file that was altered."""
    return damaged(path, f"altered ({' '.join(reason.split())[:200]})")


def copy_segments(
    paths: Sequence[Path],
    schema: pa.Schema,
    keep: NDArray[np.bool_],
    target: Callable[[int], Path],
    joined_rows: int = 0,
) -> int:
    """Write the kept rows (bool [rows]) of segments as new segments, and return their number.

    A segment that keeps all of its rows is linked.

    target: the path of a new segment, which must not exist. joined_rows: neighbouring segments with at most
    this many rows together become one. Raises `DamagedIndexError` as `Table` does. Memory: a batch.
    """
    groups: list[list[tuple[Path, Table, NDArray[np.bool_]]]] = []  # each becomes a segment
    row = rows = 0
    for path in paths:
        table = Table([path], schema)
        mask = keep[row : row + len(table)]
        row, kept = row + len(table), int(mask.sum())
        if kept and (not groups or rows + kept > joined_rows):
            groups.append([])
            rows = 0
        if kept:
            groups[-1].append((path, table, mask))
            rows += kept
    for number, group in enumerate(groups):
        if len(group) == 1 and group[0][2].all():
            link_or_copy(group[0][0], target(number))
            continue
        with pa.OSFile(str(target(number)), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in _larger(batch for _, table, mask in group for batch in table.kept(mask)):
                writer.write_batch(batch)
    return len(groups)


def _larger(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, since an open table has a header for each."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        rows, size = sum(b.num_rows for b in pending), sum(b.nbytes for b in pending)
        if rows >= _BATCH_ROWS or size >= _BATCH_CHARACTERS:
            yield from pa.Table.from_batches(pending).combine_chunks().to_batches()
            pending = []
    if pending:
        yield from pa.Table.from_batches(pending).combine_chunks().to_batches()


class _MappedFile:
    """A memory-mapped file whose pages are read one by one, unless they are asked for in advance.

    Arrow's own mapping reads every batch when it is opened, and the system up to megabytes around a page:
    10 GB before the first answer from 21 million passages.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self._file)
        self._map = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)
        read_at_random(self._map)
        self.buffer = pa.py_buffer(self._map)

    def reader(self, column: pa.Array) -> Callable[[int], Any] | None:
        """A function from a place in a column to its cell, which reads the file; None for other types.

        A file that was cut off since it was opened is then an error; its mapping would end the process.
        """
        nulls, *buffers = column.buffers()
        if nulls is not None or column.offset:
            return None
        places = [(0, 0) if b is None or not b.size else self._place(b) for b in buffers]
        if any(start < 0 or start + size > self.buffer.size for start, size in places):
            return None  # decompressed, or altered
        if pa.types.is_string(column.type):
            offsets, texts = places
            return partial(self._text, offsets[0], *texts)
        return partial(self._number, places[0][0]) if pa.types.is_int32(column.type) else None

    def _place(self, buffer: pa.Buffer) -> tuple[int, int]:
        """Where a buffer begins in the file, and its size."""
        return buffer.address - self.buffer.address, buffer.size

    def _text(self, offsets: int, start: int, size: int, place: int) -> str:
        first, last = _OFFSETS.unpack(self._read(offsets + 4 * place, 8))
        if not 0 <= first <= last <= size:
            raise _altered(self.path, f"a text from {first} to {last} of {size}")
        try:
            return self._read(start + first, last - first).decode()
        except UnicodeDecodeError as error:
            raise _altered(self.path, f"no UTF8: {error.reason}") from None

    def _number(self, numbers: int, place: int) -> int:
        return int.from_bytes(self._read(numbers + 4 * place, 4), "little", signed=True)

    def _read(self, start: int, size: int) -> bytes:
        if start < 0:
            data = b""
        elif hasattr(os, "pread"):
            data = os.pread(self._file, size, start)
        else:  # Windows, which lets nobody cut off a mapped file
            data = self._map[start : start + size]
        if len(data) < size:
            raise _altered(self.path, f"{size} bytes at {start} are not in the file")
        return data

    def read_ahead(self, column: pa.Array) -> pa.Array:
        """The column itself, which the system begins to read as a whole."""
        for buffer in column.buffers():
            start = buffer.address - self.buffer.address if buffer is not None else -1
            if 0 <= start < self.buffer.size:  # buffers that are empty or in altered files may be elsewhere
                read_soon(self._map, start, start + buffer.size)
        return column


def _open_batches(path: Path, schema: pa.Schema) -> list[_Batch]:
    check_regular(path)
    try:
        file = _MappedFile(path)
        reader = pa.ipc.open_file(file.buffer)
        batches = [_Batch(reader.get_batch(n), file) for n in range(reader.num_record_batches)]
        if not reader.schema.equals(schema):
            raise DamagedIndexError(
                f"{path}: columns {reader.schema.names}, expected {schema.names}",
                "The file is of another version or was replaced; build the index again.",
            )
        return batches
    except (pa.ArrowException, ValueError, OSError) as error:
        raise_of_machine(error)
        raise DamagedIndexError(
            f"{path}: not an intact Arrow file ({error})", "Build the index again."
        ) from error
