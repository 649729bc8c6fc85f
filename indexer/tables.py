"""Arrow IPC files as memory-mapped tables: written as a stream, read by row or by range.

Documents, redirects and passages are stored this way. A table is one or more files with the same
schema ("segments"), read as one. Only the batch being filled is in memory while writing; while
reading, only the pages that the kernel keeps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from indexer.errors import DamagedIndexError

Row = dict[str, Any]

_BATCH_ROWS = 4096
_BATCH_CHARACTERS = 4 << 20


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
    """The rows of one or more Arrow IPC files, memory-mapped, numbered from 0 across the files."""

    def __init__(self, paths: Sequence[Path], schema: pa.Schema) -> None:
        """Open files in order. Raises `DamagedIndexError` for one that is missing, cut or foreign."""
        self._batches: list[pa.RecordBatch] = []
        self._starts: list[int] = []
        rows = 0
        for path in paths:
            for batch in _open_batches(path, schema):
                self._starts.append(rows)
                self._batches.append(batch)
                rows += batch.num_rows
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def row(self, row: int) -> Row:
        """One row as a dictionary. Raises IndexError outside [0, len)."""
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} of a table of {self._rows} rows")
        number = bisect_right(self._starts, row) - 1
        offset = row - self._starts[number]
        return self._batches[number].slice(offset, 1).to_pylist()[0]  # type: ignore[no-any-return]

    def value(self, name: str, row: int) -> Any:
        """One cell as a Python object. Raises IndexError outside [0, len)."""
        if not 0 <= row < self._rows:
            raise IndexError(f"row {row} of a table of {self._rows} rows")
        number = bisect_right(self._starts, row) - 1
        return self._batches[number].column(name)[row - self._starts[number]].as_py()

    def rows(self) -> Iterator[Row]:
        """All rows in order, one batch in memory at a time."""
        for batch in self._batches:
            yield from batch.to_pylist()

    def column(self, name: str, start: int = 0, stop: int | None = None) -> Iterable[Any]:
        """The values of one column for rows [start, stop), as Python objects."""
        for batch in self._ranges(start, stop):
            yield from batch.column(name).to_pylist()

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.Array, ...]]:
        """The named columns batch by batch, as Arrow arrays without a copy."""
        for batch in self._batches:
            yield tuple(batch.column(name) for name in columns)

    def _ranges(self, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        stop = self._rows if stop is None else min(stop, self._rows)
        number = max(bisect_right(self._starts, start) - 1, 0)
        while number < len(self._batches) and self._starts[number] < stop:
            first = self._starts[number]
            batch = self._batches[number]
            low, high = max(start - first, 0), min(stop - first, batch.num_rows)
            yield batch.slice(low, high - low)
            number += 1


def _open_batches(path: Path, schema: pa.Schema) -> list[pa.RecordBatch]:
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path), "r"))
        if not reader.schema.equals(schema):
            raise DamagedIndexError(
                f"{path}: columns {reader.schema.names}, expected {schema.names}",
                "The file is of another version or was replaced; build the index again.",
            )
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]
    except (pa.ArrowInvalid, OSError) as error:
        raise DamagedIndexError(
            f"{path}: not a whole Arrow file ({error})", "Build the index again."
        ) from error
