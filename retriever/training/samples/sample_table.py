"""Samples as a table, and the order in which training reads them.

Files are read once, checked, and stored as one table, so that millions of records need no memory. A record is
a line of JSON of its fields.

A batch contains samples of one source only (dual links and co-mentions are never mixed, as in HLP), over all
processes together. The libraries' samplers give each process batches of its own, which may be of different
sources, so batches are made here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.progress import progress
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.tables import Row, Table, TableWriter
from linkseek.retriever.mining.pairs import Pair, read_pairs
from linkseek.retriever.training.config import Kind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sample(Generic[T]):
    """One stored record. row: its number. place: its file and line, for messages."""

    row: int
    place: str
    record: T


class Batches:
    """The batches of each epoch: lists of rows of one source, this process's part of each.

    Rows are shuffled within their source and batches among each other, by (seed, epoch) alone. A
    source's last batch may be smaller; with several processes it is cut to the same size for each.
    """

    def __init__(
        self,
        sources: Mapping[str, NDArray[np.int64]],
        batch: int,
        seed: int,
        *,
        process: int = 0,
        processes: int = 1,
    ) -> None:
        """batch: rows in a batch over all processes. Raises `InputError` if processes cannot share it."""
        if batch % processes:
            raise InputError(
                f"training.batch is {batch}, which {processes} processes cannot divide equally",
                "Choose a multiple of the number of processes.",
            )
        self._sources = dict(sources)
        self._batch, self._seed = batch, seed
        self._process, self._processes = process, processes
        self.rows = sum(len(rows) - len(rows) % processes for rows in self._sources.values())
        """Rows in an epoch, over all processes."""
        if not self.rows:
            raise InputError("less data than processes", "Use fewer processes, or more data.")

    def __len__(self) -> int:
        return sum(len(self._starts(rows)) for rows in self._sources.values())

    @property
    def size(self) -> int:
        """Rows in a full batch, over all processes."""
        return min(self._batch, self.rows)

    def _starts(self, rows: NDArray[np.int64]) -> range:
        return range(0, len(rows) - len(rows) % self._processes, self._batch)

    def epoch(self, epoch: int) -> Iterator[list[int]]:
        """The batches of an epoch, counted from 0."""
        generator = np.random.default_rng((self._seed, epoch))
        batches = []
        for rows in self._sources.values():
            shuffled = generator.permutation(rows)
            batches += [shuffled[start : start + self._batch] for start in self._starts(rows)]
        for number in generator.permutation(len(batches)):
            share = len(batches[number]) // self._processes
            yield batches[number][self._process * share : (self._process + 1) * share].tolist()


_TEXT, _NUMBER = pa.string(), pa.int32()
_TEXTS = pa.schema([("text", _TEXT)])


class SampleTable(Generic[T]):
    """Stored records by row, as samples.

    record: the dataclass. fields: the stored fields; the others get their defaults. columns: further facts
    stored about a record, which can be read separately; text or numbers. shared: names of texts, at any
    depth, that records have in common: each text is stored once, in a table next to this one.
    """

    record: ClassVar[type]
    fields: ClassVar[Sequence[str]]
    columns: ClassVar[Mapping[str, pa.DataType]] = {"place": _TEXT}
    shared: ClassVar[Collection[str]] = ()

    def __init__(self, path: Path) -> None:
        """Open a table that is there. Raises `DamagedIndexError` if it is cut off."""
        self._table = Table([path], self._schema())
        self._texts = Table([_texts_of(path)], _TEXTS) if self.shared else None

    @classmethod
    def _schema(cls) -> pa.Schema:
        return pa.schema([*cls.columns.items(), ("record", _TEXT)])

    @classmethod
    def open(cls, path: Path, records: Iterable[tuple[T, Row]], unit: str) -> Self:
        """The table at a path; if it is missing, it is written atomically.

        records: each with its columns. unit: the word for them.
        """
        if not path.is_file():
            rows, texts = temporary_path(path), temporary_path(_texts_of(path))
            with ExitStack() as stack:
                writer = stack.enter_context(TableWriter(rows, cls._schema()))
                row_of = _row_of(stack.enter_context(TableWriter(texts, _TEXTS))) if cls.shared else None
                advance = stack.enter_context(progress(f"reading {unit}", unit=unit))
                for record, columns in records:
                    data = orjson.dumps({name: getattr(record, name) for name in cls.fields})
                    if row_of:
                        data = orjson.dumps(_replaced(orjson.loads(data), cls.shared, row_of))
                    writer.write({**columns, "record": data.decode()}, len(data))
                    advance(1)
            if cls.shared:
                texts.replace(_texts_of(path))
            rows.replace(path)
        return cls(path)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, row: int) -> Sample[T]:
        values = orjson.loads(self._table.value("record", int(row)))
        return Sample(int(row), self._table.value("place", int(row)), self._read(values))

    def queries(self) -> Iterable[str]:
        """The query of each row, in order, where that is a column."""
        return self._table.column("query")

    def _read(self, values: Any) -> Any:
        """The record of its fields, as JSON has them."""
        if self._texts:
            values = _replaced(values, self.shared, partial(self._texts.value, "text"))
        return _adapter(self.record).validate_python(values)


_adapter: Callable[[type], TypeAdapter[Any]] = cache(TypeAdapter)


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


def _replaced(value: Any, names: Collection[str], by: Callable[[Any], Any]) -> Any:
    """Nested values, with the values of some names replaced."""
    if isinstance(value, dict):
        items = value.items()
        return {name: by(own) if name in names else _replaced(own, names, by) for name, own in items}
    if isinstance(value, list):
        return [_replaced(own, names, by) for own in value]
    return value


class PairTable(SampleTable[Pair]):
    """Stored pairs."""

    record = Pair
    fields = "query", "positive", "negatives", "hard_negatives", "objective"
    columns: ClassVar[Mapping[str, pa.DataType]] = {
        **dict.fromkeys(("place", "query", "objective"), _TEXT),
        **dict.fromkeys(("negatives", "hard_negatives"), _NUMBER),
    }

    @staticmethod
    def row(pair: Pair, place: str) -> tuple[Pair, Row]:
        """A pair with its columns."""
        numbers = {"negatives": len(pair.negatives), "hard_negatives": len(pair.hard_negatives)}
        return pair, {"place": place, "query": pair.query, "objective": pair.objective, **numbers}

    def sources(self, shots: int | None = None, seed: int = 1) -> dict[str, NDArray[np.int64]]:
        """The rows of each objective, int64 [n] ascending.

        shots, seed: as in `draw_shots`, from the rows of all sources together.
        """
        columns = [column for (column,) in self._table.batches(["objective"])]
        encoded = pa.chunked_array(columns).dictionary_encode().combine_chunks()
        source = encoded.indices.to_numpy()  # [N]
        chosen = draw_shots(len(source), shots, seed, "pairs")
        numbers = {name: number for number, name in enumerate(encoded.dictionary.to_pylist())}
        rows_of = {name: chosen[source[chosen] == numbers[name]] for name in sorted(numbers)}
        return {name: rows for name, rows in rows_of.items() if len(rows)}

    def count(self, column: str) -> Counter[int]:
        """How many rows have how many negatives: column is "negatives" or "hard_negatives"."""
        return Counter(self._table.array(column).tolist())


def draw_shots(count: int, shots: int | None, seed: int, unit: str) -> NDArray[np.int64]:
    """The numbers of `shots` of `count` samples, int64 [n] ascending; fewer shots of a seed are a subset of
    more.

    unit: the word for a sample. Raises `InputError` if there are fewer.
    """
    if shots is None:
        return np.arange(count)
    if shots > count:
        raise InputError(f"data.shots is {shots:,}, and there are {count:,} {unit}", "Ask for fewer.")
    return np.sort(np.random.default_rng(seed).permutation(count)[:shots])


def open_pairs(paths: Sequence[Path], kind: Kind, path: Path) -> PairTable:
    """The pairs of some files as a table at a path, written if it is missing.

    Raises `InputError` naming file and pair for an invalid pair (`retriever.mining.pairs`), for a labelled
    pair in pre-training and for a mined one in fine-tuning.
    """

    def pairs() -> Iterator[tuple[Pair, Row]]:
        for file in paths:
            for number, pair in enumerate(read_pairs(file), start=1):
                _check_stage(pair, kind, f"{file}, pair {number:,}")
                yield PairTable.row(pair, f"{file.name}, pair {number:,}")

    return PairTable.open(path, pairs(), "pairs")


def _check_stage(pair: Pair, kind: Kind, place: str) -> None:
    if kind == "pretrain" and not pair.objective:
        raise InputError(
            f'{place}: no "objective", so it is a labelled pair, and this is pre-training',
            'Labelled pairs are for [stage] kind = "finetune", whose defaults are others; '
            "pairs for pre-training come from linkseek mine.",
        )
    if kind == "finetune" and pair.objective:
        raise InputError(
            f'{place}: mined by the objective "{pair.objective}", and this is fine-tuning',
            'Mined pairs are for [stage] kind = "pretrain", whose defaults are others; '
            "labelled pairs come from linkseek negatives, or DPR.",
        )
