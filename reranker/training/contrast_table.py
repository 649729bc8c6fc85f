"""Contrasts as a table that training reads in any order, and which of them an epoch has.

Each text is stored once, in a table next to it: PROP's contrasts compare two word sets of one document, and a
document of PHP is worse than others in many contrasts.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.store.artifacts import temporary_path
from linkseek.indexer.store.tables import Row, Table, TableWriter
from linkseek.reranker.contrasts import Contrast, TextPair, number_contrasts
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.reranker.training.config import LossKind
from linkseek.retriever.training.batches import Sample
from linkseek.retriever.training.lifecycle import existing
from linkseek.retriever.training.sample_table import SampleTable

_PAIR = pa.struct(
    [
        ("query", pa.int32()),
        ("title", pa.string()),
        ("document", pa.int32()),
        ("anchors", pa.list_(pa.list_(pa.int32()))),
    ]
)


_TEXTS = pa.schema([("text", pa.string())])


class ContrastTable(SampleTable[Contrast]):
    """Stored contrasts, queries and documents as rows of texts. file: the number of the one they are in."""

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

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._texts = Table([_texts_of(path)], _TEXTS)

    def __getitem__(self, row: int) -> Sample[Contrast]:
        values = self._table.row(int(row))
        for pair in (values["better"], *values["worse"]):
            pair |= {key: self._texts.value("text", pair[key]) for key in ("query", "document")}
        return Sample(int(row), values["place"], self.record.validate_python(values))

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
    stored = folder / f"contrasts-{sha256[:16]}.rows.arrow"
    return ContrastTable.open(stored, _rows(paths, _texts_of(stored)), "contrasts"), sha256


def _texts_of(path: Path) -> Path:
    return path.with_name(path.name.replace(".rows.", ".texts."))


def _rows(paths: Sequence[Path], texts: Path) -> Iterator[tuple[Row, int]]:
    """The rows of a `ContrastTable`, whose texts are written at a path before it ends."""
    known, temporary = CONTRASTS.objectives, temporary_path(texts)
    rows: dict[bytes, int] = {}  # of texts, by their hashes

    def row_of(text: str) -> int:
        key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if key not in rows:
            rows[key] = writer.rows
            writer.write({"text": text}, len(text))
        return rows[key]

    def numbered(pair: TextPair) -> Row:
        numbers = {"query": row_of(pair.query), "document": row_of(pair.document)}
        return numbers | {"title": pair.title, "anchors": pair.anchors}

    with TableWriter(temporary, _TEXTS) as writer:
        for file, path in enumerate(paths):
            line = 0
            for line, contrast in number_contrasts(path, known):
                row = {"place": f"{path.name}, line {line:,}", "file": file, "objective": contrast.objective}
                worse = [numbered(pair) for pair in contrast.worse]
                yield row | {"better": numbered(contrast.better), "worse": worse}, 64 * len(worse)
            if not line:
                print(f"{path} has no contrasts and is skipped", file=sys.stderr)
    temporary.replace(texts)


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
    names, known = objectives[rows].tolist(), CONTRASTS.objectives
    losses = np.array([loss or known[name].loss for name in names], np.str_)
    return {name: rows[losses == name] for name in sorted(set(losses.tolist()))}
