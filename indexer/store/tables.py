"""Arrow IPC files as memory-mapped tables: written as a stream, read by row or by range.

Documents, redirects and passages are stored this way. A table is one or more files with the same
schema ("segments"), read as one. Only the batch being filled is in memory while writing; while
reading, only the pages that the kernel keeps.
"""

from __future__ import annotations

import os
import struct
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.base.errors import DamagedIndexError

Row = dict[str, Any]


class _Place(NamedTuple):
    """Where a column of a batch lies in its file: numbers, or the offsets of texts and then the texts."""

    layout: struct.Struct
    first: int
    texts: int
    length: int


_OFFSETS = struct.Struct("ii")
_LAYOUTS = {
    pa.string(): _OFFSETS,
    pa.int8(): struct.Struct("b"),
    pa.int32(): struct.Struct("i"),
    pa.int64(): struct.Struct("q"),
}
"""How the first array of a column is laid out, of texts their offsets; others are left to Arrow."""

# Opening a table reads the head of every batch: 21 million passages are some 1,500 batches.
_BATCH_ROWS = 16_384
_BATCH_CHARACTERS = 16 << 20


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
            arrays = [
                pa.array(column, type=field.type)
                for column, field in zip(self._columns, self._schema, strict=True)
            ]
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._columns = [[] for _ in self._schema]
        self._characters = 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._flush()
                self._writer.close()
        finally:
            self._sink.close()


class Table:
    """The rows of one or more Arrow IPC files, memory-mapped, numbered from 0 across the files.

    What is read is looked through first, since Arrow follows an altered offset to wherever it leads:
    every method below raises `DamagedIndexError` naming the file if it was altered at that place.
    """

    def __init__(self, paths: Sequence[Path], schema: pa.Schema) -> None:
        """Open files in order. Raises `DamagedIndexError` for one that is missing, cut or foreign."""
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._paths: list[Path] = []  # of the batches
        self._starts: list[int] = []
        self._numbers = {name: number for number, name in enumerate(schema.names)}
        self._places: list[tuple[int, list[_Place | None]]] = []  # of the batches: descriptor, and columns
        rows = 0
        for path in paths:
            batches, base = _open_batches(path, schema)
            descriptor = _descriptor(path, self)
            for batch in batches:
                self._starts.append(rows)
                self._batches.append(batch)
                self._paths.append(path)
                self._places.append((descriptor, _find_columns(batch, base)))
                rows += batch.num_rows
        self._rows = rows

    def __reduce__(self) -> tuple[type[Table], tuple[list[Path], pa.Schema]]:
        """Another process opens the same files."""
        return Table, (list(dict.fromkeys(self._paths)), self._schema)

    def __len__(self) -> int:
        return self._rows

    def row(self, row: int) -> Row:
        """One row as a dictionary. Raises IndexError outside [0, len)."""
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} of a table of {self._rows} rows")
        number = bisect_right(self._starts, row) - 1
        row -= self._starts[number]
        file, places = self._places[number]
        return {
            name: self._cell(number, row, column, file, place)
            for column, (name, place) in enumerate(zip(self._numbers, places, strict=True))
        }

    def value(self, name: str, row: int) -> Any:
        """One cell as a Python object. Raises IndexError outside [0, len)."""
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} of a table of {self._rows} rows")
        number, column = bisect_right(self._starts, row) - 1, self._numbers[name]
        file, places = self._places[number]
        return self._cell(number, row - self._starts[number], column, file, places[column])

    def _cell(self, number: int, row: int, column: int, file: int, place: _Place | None) -> Any:
        """One cell of a batch, read from the file itself where the column is laid out plainly.

        A row is a few bytes in each of many places. To map a page for each of them, and Arrow's slices and
        checks, which are made for more than one value, take several times as long.
        """
        if place is None:
            return self._whole(number, self._batches[number].column(column).slice(row, 1))[0].as_py()
        try:
            layout, first, texts, length = place
            if layout is not _OFFSETS:
                return layout.unpack(os.pread(file, layout.size, first + layout.size * row))[0]
            start, end = _OFFSETS.unpack(os.pread(file, _OFFSETS.size, first + 4 * row))
            if not 0 <= start <= end <= length:
                raise ValueError(f"a text from {start} to {end} of {length} bytes")
            return os.pread(file, end - start, texts + start).decode() if length else ""
        except (ValueError, struct.error, OSError) as error:
            raise self._altered(number, error) from None

    def rows(self) -> Iterator[Row]:
        """All rows in order, one batch in memory at a time."""
        for number, batch in enumerate(self._batches):
            for column in batch.columns:
                self._whole(number, column)
            yield from batch.to_pylist()

    def column(self, name: str, start: int = 0, stop: int | None = None) -> Iterable[Any]:
        """The values of one column for rows [start, stop), as Python objects."""
        for piece in self._ranges(name, start, stop):
            yield from piece.to_pylist()

    def array(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """One column of numbers for rows [start, stop)."""
        pieces = [piece.to_numpy() for piece in self._ranges(name, start, stop)]
        if not pieces:
            return np.empty(0, self._schema.field(name).type.to_pandas_dtype())
        return np.concatenate(pieces)

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.Array, ...]]:
        """The named columns batch by batch, as Arrow arrays without a copy."""
        for number, batch in enumerate(self._batches):
            yield tuple(self._whole(number, batch.column(name)) for name in columns)

    def _whole(self, number: int, data: pa.Array) -> pa.Array:
        """`data`, of a column of a batch, if it can be read."""
        # Of lists, Arrow looks through those of the other rows as well: milliseconds for one row.
        full = len(data) == self._batches[number].num_rows or not pa.types.is_nested(data.type)
        try:
            data.validate(full=full)
        except pa.ArrowInvalid as error:
            raise self._altered(number, error) from None
        return data

    def _altered(self, number: int, error: Exception) -> DamagedIndexError:
        reason = " ".join(str(error).split())[:200]
        return DamagedIndexError(
            f"{self._paths[number]}: altered ({reason})",
            f"Remove the folder {self._paths[number].parent} and build the index again.",
        )

    def _ranges(self, name: str, start: int, stop: int | None) -> Iterator[pa.Array]:
        """The pieces of a column that hold rows [start, stop)."""
        stop = self._rows if stop is None else min(stop, self._rows)
        number = max(bisect_right(self._starts, start) - 1, 0)
        while number < len(self._batches) and self._starts[number] < stop:
            first = self._starts[number]
            batch = self._batches[number]
            low, high = max(start - first, 0), min(stop - first, batch.num_rows)
            yield self._whole(number, batch.column(name).slice(low, max(high - low, 0)))
            number += 1


def _descriptor(path: Path, table: Table) -> int:
    """A descriptor of a file, closed when the table is gone."""
    descriptor = os.open(path, os.O_RDONLY)
    weakref.finalize(table, os.close, descriptor)
    return descriptor


def _find_columns(batch: pa.RecordBatch, base: int) -> list[_Place | None]:
    """Where the columns of a batch lie in the file that is mapped at `base`; None for those left to Arrow."""
    places: list[_Place | None] = []
    for column in batch.columns:
        layout = _LAYOUTS.get(column.type)
        validity, numbers, *texts = column.buffers() if layout else (None, None)
        if layout is None or validity is not None or numbers is None or column.offset:
            places.append(None)  # not plain, or with values missing
            continue
        texts = [buffer for buffer in texts if buffer is not None]
        rest = (texts[0].address - base, texts[0].size) if texts else (0, 0)
        places.append(_Place(layout, numbers.address - base, *rest))
    return places


def _open_batches(path: Path, schema: pa.Schema) -> tuple[list[pa.RecordBatch], int]:
    """The batches of a file, and the address at which it is mapped into memory."""
    try:
        mapped = pa.memory_map(str(path), "r")
        base = mapped.read_buffer().address if mapped.size() else 0
        mapped.seek(0)
        reader = pa.ipc.open_file(mapped)
        if not reader.schema.equals(schema):
            raise DamagedIndexError(
                f"{path}: columns {reader.schema.names}, expected {schema.names}",
                "The file is of another version or was replaced; build the index again.",
            )
        return [reader.get_batch(number) for number in range(reader.num_record_batches)], base
    except (pa.ArrowException, ValueError, OSError) as error:
        raise DamagedIndexError(
            f"{path}: not a whole Arrow file ({error})", "Build the index again."
        ) from error
