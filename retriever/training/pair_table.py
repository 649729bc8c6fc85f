"""Pairs as a table that training reads in any order.

Files are read once, checked, and stored as one Arrow table, so that millions of pairs need no memory.
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
from indexer.store.tables import Table, TableWriter
from retriever.mining.pairs import Context, Pair, read_pairs
from retriever.training.batches import Sample
from retriever.training.config import Kind

_CONTEXT = pa.struct([("title", pa.string()), ("text", pa.string()), ("id", pa.string())])
PAIR_SCHEMA = pa.schema(
    [
        ("place", pa.string()),
        ("query", pa.string()),
        ("positive", _CONTEXT),
        ("negatives", pa.list_(_CONTEXT)),
        ("hard_negatives", pa.list_(_CONTEXT)),
        ("objective", pa.string()),
    ]
)


def store_pairs(paths: Sequence[Path], kind: Kind, target: Path, on_pair: Callable[[], None]) -> None:
    """Write the pairs of some files as one Arrow table, atomically.

    Raises `InputError` naming file and pair for an invalid pair (`retriever.mining.pairs`), for a labelled
    pair in pre-training and for a mined one in fine-tuning.
    """

    def pairs() -> Iterator[tuple[Pair, str]]:
        for path in paths:
            for number, pair in enumerate(read_pairs(path), start=1):
                _check_stage(pair, kind, f"{path}, pair {number:,}")
                yield pair, f"{path.name}, pair {number:,}"

    write_pair_table(pairs(), target, on_pair)


def write_pair_table(pairs: Iterable[tuple[Pair, str]], target: Path, on_pair: Callable[[], None]) -> None:
    """Write pairs, each with its place for messages, as one Arrow table, atomically."""
    temporary = target.with_name(target.name + ".tmp")
    with TableWriter(temporary, PAIR_SCHEMA) as writer:
        for pair, place in pairs:
            row = {
                "place": place,
                "query": pair.query,
                "positive": asdict(pair.positive),
                "negatives": [asdict(context) for context in pair.negatives],
                "hard_negatives": [asdict(context) for context in pair.hard_negatives],
                "objective": pair.objective,
            }
            contexts = (pair.positive, *pair.negatives, *pair.hard_negatives)
            writer.write(row, len(pair.query) + sum(len(context.text) for context in contexts))
            on_pair()
    temporary.replace(target)


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


class PairTable:
    """Stored pairs by row, as samples."""

    def __init__(self, path: Path) -> None:
        """Open a table of `store_pairs`. Raises `DamagedIndexError` if it is cut off."""
        self._table = Table([path], PAIR_SCHEMA)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, row: int) -> Sample[Pair]:
        values = self._table.row(int(row))
        pair = Pair(
            values["query"],
            Context(**values["positive"]),
            _contexts(values["negatives"]),
            _contexts(values["hard_negatives"]),
            values["objective"],
        )
        return Sample(int(row), values["place"], pair)

    def queries(self) -> Iterator[str]:
        """The query of each row, in order."""
        for (column,) in self._table.batches(["query"]):
            yield from column.to_pylist()

    def sources(self, shots: int | None = None, seed: int = 1) -> dict[str, NDArray[np.int64]]:
        """The rows of each objective, int64 [n] ascending.

        shots: a limit on the rows of all sources together: the first of an order that depends on the seed
        alone, so that fewer shots are a part of more. Raises `InputError` if there are fewer rows.
        """
        number_of: dict[str, int] = {}
        numbers = []
        for (column,) in self._table.batches(["objective"]):
            encoded = column.dictionary_encode()
            own = [number_of.setdefault(name, len(number_of)) for name in encoded.dictionary.to_pylist()]
            numbers.append(np.array(own, np.int32)[encoded.indices.to_numpy()])
        source = np.concatenate(numbers)  # [N]
        chosen = np.arange(len(source))
        if shots is not None:
            if shots > len(source):
                raise InputError(
                    f"data.shots is {shots:,}, and there are {len(source):,} pairs", "Ask for fewer."
                )
            chosen = np.sort(np.random.default_rng(seed).permutation(len(source))[:shots])
        rows_of = {name: chosen[source[chosen] == number_of[name]] for name in sorted(number_of)}
        return {name: rows for name, rows in rows_of.items() if len(rows)}

    def count(self, column: str) -> Counter[int]:
        """How many rows have how many negatives: column is "negatives" or "hard_negatives"."""
        counts: Counter[int] = Counter()
        for (lists,) in self._table.batches([column]):
            counts.update(np.diff(lists.offsets.to_numpy()).tolist())
        return counts


def _contexts(values: Sequence[Mapping[str, Any]]) -> tuple[Context, ...]:
    return tuple(Context(**value) for value in values)
