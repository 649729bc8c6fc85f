"""Contrasts as a table that training reads in any order, and which of them an epoch has.

Each text is stored once: PROP's contrasts compare two word sets of one document, and a
document of PHP is worse than others in many contrasts.

Contrasts to the inputs of a cross-encoder with two heads: groups of pairs, masked and as they are.

The inputs of a sample depend on the seed, the epoch and its row alone: neither on its batch or process nor on
what came before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.program.errors import log_line
from linkseek.indexer.store.tables import Row
from linkseek.reranker.contrasts import Contrast, TextPair, number_contrasts
from linkseek.reranker.models.cross_encoder import token_rows
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.reranker.training.config import LossKind
from linkseek.reranker.training.group_data import Features, GroupCollator, Pairs, PairTokenizer, Reader
from linkseek.reranker.training.masks import NOT_PREDICTED, Masks
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.training.lifecycle import existing
from linkseek.retriever.training.samples.pair_inputs import draw
from linkseek.retriever.training.samples.sample_table import Sample, SampleTable


class ContrastTable(SampleTable[Contrast]):
    """Stored contrasts. file: the number of the file that a contrast is from."""

    record = Contrast
    fields = "objective", "better", "worse"
    columns: ClassVar[Mapping[str, pa.DataType]] = {
        **dict.fromkeys(("place", "objective"), pa.string()),
        "file": pa.int32(),
    }
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
            place = f"{path.name}, line {line:,}"
            yield contrast, {"place": place, "objective": contrast.objective, "file": file}
        if not line:
            log_line(f"{path} has no contrasts and is skipped")


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
    """Rows, int64 [n], by their loss: a batch has one (`retriever.training.samples.sample_table.Batches`).

    objectives: the objectives of all rows [N]. loss: the same loss for all; by default each objective's own.
    """
    names, known = objectives[rows].tolist(), CONTRASTS.objectives
    losses = np.array([loss or known[name].loss for name in names], np.str_)
    return {name: rows[losses == name] for name in sorted(set(losses.tolist()))}


LABELS, MASKED_IDS = "labels", "masked_ids"
"""Among the features: the tokens to predict, -100 elsewhere; the masked tokens of a second pass."""

_MASKING = 1  # separates the key of a row's masks from the key of its worse pairs


@dataclass(frozen=True)
class ContrastTexts:
    """How a contrast is read. negatives: a limit on the worse pairs; None: all."""

    format: TextFormat
    negatives: int | None
    seed: int

    def text_pairs(self, sample: Sample[Contrast], epoch: int) -> list[TextPair]:
        """The better pair and the worse ones, drawn anew for each epoch if there are more than needed."""
        worse: Sequence[TextPair] = sample.record.worse
        if self.negatives:
            worse = draw(worse, self.negatives, (self.seed, epoch, sample.row))
        return [sample.record.better, *worse]

    def pairs(self, sample: Sample[Contrast], epoch: int) -> Pairs:
        """The same as (query, text)."""
        return [
            (self.format.query(pair.query), self.format.passage(pair.title, pair.document))
            for pair in self.text_pairs(sample, epoch)
        ]


class ContrastCollator(GroupCollator):
    """Samples to the inputs of one step; all samples of a batch have one loss.

    As `GroupCollator`, with `loss`, and with LABELS among the features. If pairs are masked alike in a group,
    the scored pairs are masked; otherwise MASKED_IDS are read in addition.
    """

    def __init__(
        self,
        tokenizer: PairTokenizer,
        texts: ContrastTexts,
        masks: Masks | None,
        loss: LossKind | None = None,
        mini_batch: int = 0,
    ) -> None:
        """masks: None if nothing is masked. loss: by default the objective's."""
        super().__init__(tokenizer, texts.pairs, mini_batch)
        self._contrasts, self._masks, self._loss = texts, masks, loss

    def __call__(self, samples: Sequence[Sample[Contrast]], epoch: int) -> dict[str, Any]:
        """The inputs of one batch."""
        loss = self._loss or CONTRASTS.objectives[samples[0].record.objective].loss
        return super().__call__(samples, epoch) | {"loss": loss}

    def _reader(self, samples: Sequence[Sample[Contrast]], epoch: int, groups: Sequence[Pairs]) -> Reader:
        if self._masks is None:
            return super()._reader(samples, epoch, groups)
        encodings = self._tokenizer.encodings([pair for group in groups for pair in group])
        tokens = token_rows(encodings)
        masked: list[Any] = []
        for sample, group in zip(samples, groups, strict=True):
            own = encodings[len(masked) : len(masked) + len(group)]
            generator = np.random.default_rng((self._contrasts.seed, epoch, sample.row, _MASKING))
            pairs = self._contrasts.text_pairs(sample, epoch)
            masks_query = CONTRASTS.objectives[sample.record.objective].masks_query
            masked += self._masks.group(own, pairs, masks_query, generator)
        one_pass = self._masks.alike

        def features(piece: slice) -> Features:
            own = zip(tokens[piece], masked[piece], strict=True)
            seen = [np.where(np.asarray(before) < 0, ~ids, ids) for before, (ids, _) in own]
            hidden = self._tokenizer.features(seen)
            scored = hidden if one_pass else self._tokenizer.features(tokens[piece])
            labels = torch.full_like(scored["input_ids"], NOT_PREDICTED)
            for row, (_, predicted) in enumerate(masked[piece]):
                labels[row, : len(predicted)] = torch.from_numpy(predicted)
            second_pass = {} if one_pass else {MASKED_IDS: hidden["input_ids"]}
            return scored | second_pass | {LABELS: labels}

        return features
