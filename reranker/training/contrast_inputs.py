"""Contrasts to the inputs of a cross-encoder with two heads: groups of pairs, masked and as they are.

The inputs of a sample depend on the seed, the epoch and its row alone: neither on its batch or process nor on
what came before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.models.cross_encoder import token_rows
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.reranker.training.config import LossKind
from linkseek.reranker.training.group_inputs import Features, GroupCollator, Pairs, PairTokenizer, Reader
from linkseek.reranker.training.masks import NOT_PREDICTED, Masks
from linkseek.retriever.models.biencoder import TextFormat
from linkseek.retriever.training.samples.pair_inputs import draw
from linkseek.retriever.training.samples.sample_table import Sample

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
        """The better pair and the worse ones, drawn anew for each epoch where there are more than wanted."""
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
        """One batch."""
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
