"""Contrasts as a table that training reads in any order, and which of them an epoch has.

Each text is stored once: PROP's contrasts compare two word sets of one document, and a
document of PHP is worse than others in many contrasts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.store.tables import Row
from linkseek.reranker.contrasts import Contrast, number_contrasts
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.reranker.training.config import LossKind
from linkseek.retriever.training.lifecycle import existing
from linkseek.retriever.training.samples.sample_table import SampleTable


class ContrastTable(SampleTable[Contrast]):
    """Stored contrasts. file: the number of the file that a contrast is from."""

    record = Contrast
    columns = "objective", "better", "worse"
    origin: ClassVar[Mapping[str, type]] = {"place": str, "file": int}
    shared = "query", "document"

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
    return ContrastTable.open(stored, _contrasts(paths), "contrasts"), sha256


def _contrasts(paths: Sequence[Path]) -> Iterator[tuple[Contrast, Row]]:
    for file, path in enumerate(paths):
        line = 0
        for line, contrast in number_contrasts(path, CONTRASTS.objectives):
            yield contrast, {"place": f"{path.name}, line {line:,}", "file": file}
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
    """Rows, int64 [n], by their loss: a batch has one (`retriever.training.samples.sample_table`).

    objectives: of all rows [N]. loss: of all of them; by default each objective's own.
    """
    names, known = objectives[rows].tolist(), CONTRASTS.objectives
    losses = np.array([loss or known[name].loss for name in names], np.str_)
    return {name: rows[losses == name] for name in sorted(set(losses.tolist()))}
