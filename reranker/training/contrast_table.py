"""Contrasts as a table that training reads in any order, and which of them an epoch has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from indexer.files.hashes import combined_sha256, file_sha256
from indexer.store.tables import Row
from reranker.contrasts import Contrast, number_contrasts
from reranker.objectives.registry import all_objectives
from reranker.training.config import LossKind
from retriever.training.lifecycle import existing
from retriever.training.sample_table import SampleTable

_PAIR = pa.struct(
    [
        ("query", pa.string()),
        ("title", pa.string()),
        ("document", pa.string()),
        ("anchors", pa.list_(pa.list_(pa.int32()))),
    ]
)


class ContrastTable(SampleTable[Contrast]):
    """Stored contrasts. file: the number of the one they come from."""

    record = TypeAdapter(Contrast)
    schema = pa.schema(
        [
            ("place", pa.string()),
            ("file", pa.int32()),
            ("objective", pa.string()),
            ("better", _PAIR),
            ("worse", pa.list_(_PAIR)),
        ]
    )

    def files(self) -> NDArray[np.int64]:
        """The file of each row, from 0, int64 [N]."""
        return self._table.array("file").astype(np.int64)

    def objectives(self) -> NDArray[np.str_]:
        """The objective of each row [N]."""
        return np.array(list(self._table.column("objective")), np.str_)


def open_contrasts(paths: Sequence[Path], folder: Path) -> tuple[ContrastTable, str]:
    """The contrasts of some files as a table in the folder, written if it is missing, and their hash.

    Raises `InputError` naming file and line for an invalid contrast and an unknown objective; a file without
    contrasts is reported on stderr.
    """
    sha256 = combined_sha256([file_sha256(path) for path in existing(paths)])
    stored = folder / f"contrasts-{sha256[:16]}.arrow"
    return ContrastTable.open(stored, _rows(paths), "contrasts"), sha256


def _rows(paths: Sequence[Path]) -> Iterator[tuple[Row, int]]:
    known = all_objectives()
    for file, path in enumerate(paths):
        line = 0
        for line, contrast in number_contrasts(path, known):
            pairs = (contrast.better, *contrast.worse)
            size = sum(len(p.query) + len(p.title) + len(p.document) for p in pairs)
            yield asdict(contrast) | {"place": f"{path.name}, line {line:,}", "file": file}, size
        if not line:
            print(f"{path} has no contrasts and is skipped", file=sys.stderr)


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
