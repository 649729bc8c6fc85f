"""Pairs as a table that training reads in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.tables import Row
from linkseek.retriever.mining.pairs import Pair, read_pairs
from linkseek.retriever.training.config import Kind
from linkseek.retriever.training.samples.sample_table import SampleTable


class PairTable(SampleTable[Pair]):
    """Stored pairs."""

    record = Pair
    columns = "query", "positive", "negatives", "hard_negatives", "objective"

    def queries(self) -> Iterable[str]:
        """The query of each row, in order."""
        return self._table.column("query")

    def sources(self, shots: int | None = None, seed: int = 1) -> dict[str, NDArray[np.int64]]:
        """The rows of each objective, int64 [n] ascending.

        shots: a limit on the rows of all sources together: the first of an order that depends on the seed
        alone, so that fewer shots are a part of more. Raises `InputError` if there are fewer rows.
        """
        columns = [column for (column,) in self._table.batches(["objective"])]
        encoded = pa.chunked_array(columns).dictionary_encode().combine_chunks()
        source = encoded.indices.to_numpy()  # [N]
        chosen = np.arange(len(source))
        if shots is not None:
            if shots > len(source):
                raise InputError(
                    f"data.shots is {shots:,}, and there are {len(source):,} pairs", "Ask for fewer."
                )
            chosen = np.sort(np.random.default_rng(seed).permutation(len(source))[:shots])
        numbers = {name: number for number, name in enumerate(encoded.dictionary.to_pylist())}
        rows_of = {name: chosen[source[chosen] == numbers[name]] for name in sorted(numbers)}
        return {name: rows for name, rows in rows_of.items() if len(rows)}

    def count(self, column: str) -> Counter[int]:
        """How many rows have how many negatives: column is "negatives" or "hard_negatives"."""
        counts: Counter[int] = Counter()
        for (lists,) in self._table.batches([column]):
            counts.update(np.diff(lists.offsets.to_numpy()).tolist())
        return counts


def open_pairs(paths: Sequence[Path], kind: Kind, path: Path) -> PairTable:
    """The pairs of some files as a table at a path, written if it is missing.

    Raises `InputError` naming file and pair for an invalid pair (`retriever.mining.pairs`), for a labelled
    pair in pre-training and for a mined one in fine-tuning.
    """

    def pairs() -> Iterator[tuple[Pair, Row]]:
        for file in paths:
            for number, pair in enumerate(read_pairs(file), start=1):
                _check_stage(pair, kind, f"{file}, pair {number:,}")
                yield pair, {"place": f"{file.name}, pair {number:,}"}

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
