"""Samples as a table that training reads in any order.

Files are read once, checked, and stored as one Arrow table, so that millions of records need no memory. The
columns follow from the fields of the record: texts, whole numbers, truth values, tuples of these, and further
dataclasses.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args, get_type_hints

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from linkseek.indexer.program.progress import progress
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.tables import Row, Table, TableWriter
from linkseek.retriever.training.samples.sample_batches import Sample

T = TypeVar("T")

_TYPES = {str: pa.string(), int: pa.int32(), bool: pa.bool_()}
_TEXTS = pa.schema([("text", pa.string())])


class SampleTable(Generic[T]):
    """Stored records by row, as samples.

    record: the dataclass. columns: the fields that are stored; the others get their defaults. origin: what is
    stored about a record besides. shared: names of texts, at any depth, that records have in common: each
    text is stored once, in a table next to this one.
    """

    record: ClassVar[type]
    columns: ClassVar[Collection[str]]
    origin: ClassVar[Mapping[str, type]] = {"place": str}
    shared: ClassVar[Collection[str]] = ()

    def __init__(self, path: Path) -> None:
        """Open a table that is there. Raises `DamagedIndexError` if it is cut off."""
        self._table = Table([path], self.schema())
        self._texts = Table([_texts_of(path)], _TEXTS) if self.shared else None

    @classmethod
    def schema(cls) -> pa.Schema:
        """The columns: the origin, then the fields."""
        hints = get_type_hints(cls.record)
        columns = {**cls.origin, **{name: hints[name] for name in cls.columns}}
        return pa.schema([(name, _arrow_type(name, hint, cls.shared)) for name, hint in columns.items()])

    @classmethod
    def open(cls, path: Path, records: Iterable[tuple[T, Row]], unit: str) -> Self:
        """The table at a path; if it is missing, it is written atomically.

        records: each with its origin. unit: what they are called.
        """
        if not path.is_file():
            rows, texts = temporary_path(path), temporary_path(_texts_of(path))
            with ExitStack() as stack:
                writer = stack.enter_context(TableWriter(rows, cls.schema()))
                row_of = _row_of(stack.enter_context(TableWriter(texts, _TEXTS))) if cls.shared else None
                advance = stack.enter_context(progress(f"reading {unit}", unit=unit))
                for record, origin in records:
                    data = orjson.dumps(record)
                    values = orjson.loads(data)
                    writer.write(origin | _replaced(values, cls.shared, row_of), len(data))
                    advance(1)
            if cls.shared:
                texts.replace(_texts_of(path))
            rows.replace(path)
        return cls(path)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, row: int) -> Sample[T]:
        return self._sample(int(row), self._table.row(int(row)))

    def samples(self, rows: NDArray[np.int64], without: Collection[str] = ()) -> Iterator[Sample[T]]:
        """Those of some rows, int64 [n] ascending, in order. without: fields that keep their defaults."""
        for row, values in zip(rows.tolist(), self._table.chosen(rows), strict=True):
            yield self._sample(row, {name: values[name] for name in values if name not in without})

    def _sample(self, row: int, values: Row) -> Sample[T]:
        if self._texts:
            values = _replaced(values, self.shared, partial(self._texts.value, "text"))
        return Sample(row, values["place"], _adapter(self.record).validate_python(values))


@cache
def _adapter(record: type) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def _arrow_type(name: str, hint: Any, shared: Collection[str]) -> pa.DataType:
    """The type of a field; a shared text is the row of a table."""
    if hint in _TYPES:
        return _TYPES[int if name in shared else hint]
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint).items()
        return pa.struct([(inner, _arrow_type(inner, of_inner, shared)) for inner, of_inner in hints])
    return pa.list_(_arrow_type(name, get_args(hint)[0], shared))


def _texts_of(path: Path) -> Path:
    return path.with_suffix(f".texts{path.suffix}")


def _row_of(writer: TableWriter) -> Callable[[str], int]:
    """A function from a text to its row in a table, which is written when it is first asked for."""
    rows: dict[bytes, int] = {}  # by the hashes of the texts

    def row_of(text: str) -> int:
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if key not in rows:
            rows[key] = writer.rows
            writer.write({"text": text}, len(text))
        return rows[key]

    return row_of


def _replaced(value: Any, names: Collection[str], by: Callable[[Any], Any] | None) -> Any:
    """Nested values, with the values of some names replaced."""
    if by is None:
        return value
    if isinstance(value, dict):
        items = value.items()
        return {name: by(own) if name in names else _replaced(own, names, by) for name, own in items}
    if isinstance(value, list):
        return [_replaced(own, names, by) for own in value]
    return value
