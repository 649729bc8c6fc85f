"""Samples as a table that training reads in any order.

Files are read once, checked, and stored as one Arrow table, so that millions of records need no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from linkseek.indexer.base.progress import progress
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.tables import Row, Table, TableWriter
from linkseek.retriever.training.batches import Sample

T = TypeVar("T")


class SampleTable(Generic[T]):
    """Stored records by row, as samples. schema: `place`, and fields of the record."""

    record: ClassVar[TypeAdapter[Any]]
    schema: ClassVar[pa.Schema]

    def __init__(self, path: Path) -> None:
        """Open a table that is there. Raises `DamagedIndexError` if it is cut off."""
        self._table = Table([path], self.schema)

    @classmethod
    def open(cls, path: Path, rows: Iterable[tuple[Row, int]], unit: str) -> Self:
        """The table at a path; if it is missing, it is written atomically.

        rows: each with its number of characters. unit: what they are called.
        """
        if not path.is_file():
            temporary, label = temporary_path(path), f"reading {unit}"
            with TableWriter(temporary, cls.schema) as writer, progress(label, unit=unit) as advance:
                for row, size in rows:
                    writer.write(row, size)
                    advance(1)
            temporary.replace(path)
        return cls(path)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, row: int) -> Sample[T]:
        return self._sample(int(row), self._table.row(int(row)))

    def samples(self, rows: NDArray[np.int64]) -> Iterator[Sample[T]]:
        """Those of some rows, int64 [n] ascending, in order."""
        for row, values in zip(rows.tolist(), self._table.chosen(rows), strict=True):
            yield self._sample(row, values)

    def _sample(self, row: int, values: Row) -> Sample[T]:
        return Sample(row, values["place"], self.record.validate_python(values))
