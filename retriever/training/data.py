"""Pairs from files to rows that training can reach in any order, and to batches.

Files are read once, checked, and stored as one Arrow table, so that millions of pairs need no memory.
A batch holds pairs of one source only (`objective`: dual links and co-mentions are never mixed, as in
HLP), over all processes together; the library's samplers give each process batches of its own, which
may be of different sources, so batches are made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.base.errors import InputError
from indexer.store.tables import Row, Table, TableWriter
from retriever.mining.pairs import Pair, read_pairs
from retriever.training.config import Kind

_CONTEXT = pa.struct([("title", pa.string()), ("text", pa.string()), ("id", pa.string())])
PAIR_SCHEMA = pa.schema(
    [
        ("place", pa.string()),
        ("source", pa.string()),
        ("query", pa.string()),
        ("positive", _CONTEXT),
        ("negatives", pa.list_(_CONTEXT)),
        ("hard_negatives", pa.list_(_CONTEXT)),
    ]
)


def store_pairs(paths: Sequence[Path], kind: Kind, target: Path, on_pair: Callable[[], None]) -> None:
    """Write the pairs of some files as one Arrow table; it is there whole or not at all.

    Raises `InputError` naming file and pair for what is no pair (`retriever.mining.pairs`), for a labelled
    pair in pre-training and for a mined one in fine-tuning.
    """

    def pairs() -> Iterator[tuple[Pair, str]]:
        for path in paths:
            for number, pair in enumerate(read_pairs(path), start=1):
                check_stage(pair, kind, f"{path}, pair {number:,}")
                yield pair, f"{path.name}, pair {number:,}"

    write_rows(pairs(), target, on_pair)


def write_rows(pairs: Iterable[tuple[Pair, str]], target: Path, on_pair: Callable[[], None]) -> None:
    """Write pairs, each with its place for messages, as one Arrow table; it is there whole or not at all."""
    temporary = target.with_name(target.name + ".tmp")
    with TableWriter(temporary, PAIR_SCHEMA) as writer:
        for pair, place in pairs:
            writer.write(_row(pair, place), _size(pair))
            on_pair()
    temporary.replace(target)


def check_stage(pair: Pair, kind: Kind, place: str) -> None:
    """Raises `InputError` for a pair that belongs to the other stage."""
    if kind == "pretrain" and not pair.objective:
        raise InputError(
            f'{place}: no "objective", so it is a labelled pair, and this is pre-training',
            'Labelled pairs are for [stage] kind = "finetune", whose defaults are others; '
            "pairs for pre-training come from python -m retriever.mine.",
        )
    if kind == "finetune" and pair.objective:
        raise InputError(
            f'{place}: mined by the objective "{pair.objective}", and this is fine-tuning',
            'Mined pairs are for [stage] kind = "pretrain", whose defaults are others; '
            "labelled pairs come from python -m retriever.negatives, or DPR.",
        )


def _row(pair: Pair, place: str) -> Row:
    return {
        "place": place,
        "source": pair.objective,
        "query": pair.query,
        "positive": asdict(pair.positive),
        "negatives": [asdict(context) for context in pair.negatives],
        "hard_negatives": [asdict(context) for context in pair.hard_negatives],
    }


def _size(pair: Pair) -> int:
    contexts = (pair.positive, *pair.negatives, *pair.hard_negatives)
    return len(pair.query) + sum(len(context.text) for context in contexts)


class PairRows:
    """Stored pairs by row; a row is a dictionary of `PAIR_SCHEMA` and its number, `row`."""

    def __init__(self, path: Path) -> None:
        """Open what `store_pairs` wrote. Raises `DamagedIndexError` if it is cut off."""
        self._table = Table([path], PAIR_SCHEMA)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self._table.row(int(row)) | {"row": int(row)}

    def queries(self) -> Iterator[str]:
        """The query of each row, in order."""
        for (column,) in self._table.batches(["query"]):
            yield from column.to_pylist()

    def sources(self, shots: int | None = None, seed: int = 1) -> dict[str, NDArray[np.int64]]:
        """The rows of each source, int64 [n] ascending.

        shots: so many rows at most, of all sources together: the first of an order that depends on
        the seed alone, so that fewer shots are a part of more. Raises `InputError` if there are fewer.
        """
        number_of: dict[str, int] = {}
        pieces = []
        for (column,) in self._table.batches(["source"]):
            encoded = column.dictionary_encode()
            numbers = [number_of.setdefault(n, len(number_of)) for n in encoded.dictionary.to_pylist()]
            pieces.append(np.array(numbers, np.int32)[encoded.indices.to_numpy()])
        source = np.concatenate(pieces)  # [N]
        chosen = np.arange(len(source))
        if shots is not None:
            if shots > len(source):
                raise InputError(
                    f"data.shots is {shots:,}, and there are {len(source):,} pairs", "Ask for fewer."
                )
            chosen = np.sort(np.random.default_rng(seed).permutation(len(source))[:shots])
        found = {name: chosen[source[chosen] == number_of[name]] for name in sorted(number_of)}
        return {name: rows for name, rows in found.items() if len(rows)}

    def count(self, column: str) -> Counter[int]:
        """How many rows have how many negatives: column is "negatives" or "hard_negatives"."""
        counts: Counter[int] = Counter()
        for (lists,) in self._table.batches([column]):
            counts.update(np.diff(lists.offsets.to_numpy()).tolist())
        return counts


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
        """batch: rows in a batch over all processes. Raises `InputError` if that cannot be divided."""
        if batch % processes:
            raise InputError(
                f"training.batch is {batch}, and {processes} processes cannot have equal parts of it",
                "Choose a multiple of the number of processes.",
            )
        self._sources = dict(sources)
        self._batch, self._seed = batch, seed
        self._process, self._processes = process, processes
        self.epoch = 0

    def __len__(self) -> int:
        return sum(map(len, (self._starts(rows) for rows in self._sources.values())))

    def _starts(self, rows: NDArray[np.int64]) -> range:
        return range(0, len(rows) - len(rows) % self._processes, self._batch)

    @property
    def rows(self) -> int:
        """How many rows an epoch has, over all processes."""
        return sum(len(rows) - len(rows) % self._processes for rows in self._sources.values())

    def __iter__(self) -> Iterator[list[int]]:
        generator = np.random.default_rng((self._seed, self.epoch))
        batches = []
        for rows in self._sources.values():
            shuffled = generator.permutation(rows)
            batches += [shuffled[start : start + self._batch] for start in self._starts(rows)]
        for number in generator.permutation(len(batches)):
            whole = batches[number]
            part = len(whole) // self._processes
            yield whole[self._process * part : (self._process + 1) * part].tolist()
