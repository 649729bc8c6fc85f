"""Contrasts as a table that training reads in any order, and which of them an epoch has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.base.progress import progress
from indexer.store.artifacts import combined_sha256, file_sha256
from indexer.store.tables import Table, TableWriter
from reranker.contrasts import Contrast, TextPair, number_contrasts
from reranker.objectives.registry import all_objectives
from reranker.training.finetune_config import LossKind
from retriever.training.batches import Sample
from retriever.training.lifecycle import existing

_PAIR = pa.struct(
    [
        ("query", pa.string()),
        ("title", pa.string()),
        ("document", pa.string()),
        ("anchors", pa.list_(pa.list_(pa.int32()))),
    ]
)
CONTRAST_SCHEMA = pa.schema(
    [
        ("place", pa.string()),
        ("file", pa.int32()),
        ("objective", pa.string()),
        ("better", _PAIR),
        ("worse", pa.list_(_PAIR)),
    ]
)


class ContrastTable:
    """Stored contrasts by row, as samples."""

    def __init__(self, path: Path) -> None:
        """Open a table of `store_contrasts`. Raises `DamagedIndexError` if it is cut off."""
        self._table = Table([path], CONTRAST_SCHEMA)

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, row: int) -> Sample[Contrast]:
        values = self._table.row(int(row))
        worse = tuple(_text_pair(pair) for pair in values["worse"])
        contrast = Contrast(_text_pair(values["better"]), worse, values["objective"])
        return Sample(int(row), values["place"], contrast)

    def files(self) -> NDArray[np.int64]:
        """The file of each row, from 0, int64 [N]."""
        parts = [column.to_numpy() for (column,) in self._table.batches(["file"])]
        return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)

    def objectives(self) -> NDArray[np.str_]:
        """The objective of each row [N]."""
        parts = [column.to_pylist() for (column,) in self._table.batches(["objective"])]
        return np.array([name for part in parts for name in part], np.str_)


def _text_pair(values: Mapping[str, Any]) -> TextPair:
    anchors = tuple((start, end) for start, end in values["anchors"])
    return TextPair(values["query"], values["document"], values["title"], anchors)


def open_contrasts(paths: Sequence[Path], folder: Path) -> tuple[ContrastTable, str]:
    """The contrasts of some files as a table in the folder, written if it is missing, and their hash.

    Raises `InputError` naming file and line for an invalid contrast and an unknown objective; a file without
    contrasts is reported on stderr.
    """
    sha256 = combined_sha256([file_sha256(path) for path in existing(paths)])
    stored = folder / f"contrasts-{sha256[:16]}.arrow"
    if not stored.is_file():
        with progress("reading contrasts", unit="contrasts") as advance:
            store_contrasts(paths, stored, lambda: advance(1))
    return ContrastTable(stored), sha256


def store_contrasts(paths: Sequence[Path], target: Path, on_contrast: Callable[[], None]) -> None:
    """Write the contrasts of some files as one Arrow table, atomically."""
    known = all_objectives()
    temporary = target.with_name(target.name + ".tmp")
    with TableWriter(temporary, CONTRAST_SCHEMA) as writer:
        for file, path in enumerate(paths):
            before = writer.rows
            for line, contrast in number_contrasts(path, known):
                pairs = (contrast.better, *contrast.worse)
                row = {
                    "place": f"{path.name}, line {line:,}",
                    "file": file,
                    "objective": contrast.objective,
                    "better": asdict(contrast.better),
                    "worse": [asdict(pair) for pair in contrast.worse],
                }
                writer.write(row, sum(len(p.query) + len(p.title) + len(p.document) for p in pairs))
                on_contrast()
            if writer.rows == before:
                print(f"{path} has no contrasts and is skipped", file=sys.stderr)
    temporary.replace(target)


def draw_mix(files: NDArray[np.int64], weights: Sequence[float], seed: int) -> NDArray[np.int64]:
    """The rows of an epoch, int64 [n] ascending: with weights, as many as the scarcest file allows.

    files: int64 [N], of each row; one without a row does not count.
    """
    if not weights:
        return np.arange(len(files))
    counts = Counter(files.tolist())
    scarcest = min(count / weights[file] for file, count in counts.items())
    generator = np.random.default_rng(seed)
    chosen = [
        generator.permutation(np.flatnonzero(files == file))[: max(round(scarcest * weights[file]), 1)]
        for file in sorted(counts)
    ]
    return np.sort(np.concatenate(chosen))


def by_loss(
    objectives: NDArray[np.str_], rows: NDArray[np.int64], loss: LossKind | None
) -> dict[str, NDArray[np.int64]]:
    """Rows, int64 [n], by their loss: a batch has one (`retriever.training.batches`).

    objectives: of all rows [N]. loss: of all of them; by default each objective's own.
    """
    names, known = objectives[rows].tolist(), all_objectives()
    losses = np.array([loss or known[name].loss for name in names], np.str_)
    return {name: rows[losses == name] for name in sorted(set(losses.tolist()))}
