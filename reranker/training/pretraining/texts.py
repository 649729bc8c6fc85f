"""Contrasts to what a cross-encoder with two heads reads: groups of pairs, masked beside as they are.

What a row gives depends on the seed, the epoch and the row alone: neither on the batch nor on the process
that it is in, nor on what came before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from reranker.contrasts import TextPair
from reranker.models.cross_encoder import token_rows
from reranker.objectives.registry import all_objectives
from reranker.training.config import LossKind
from reranker.training.pretraining.masks import NOT_PREDICTED, Masks
from reranker.training.texts import Features, GroupCollator, Pairs, PairTokenizer, Reader, drawn
from retriever.models.biencoder import TextFormat

LABELS, MASKED_IDS = "labels", "masked_ids"
"""Among the features: the tokens that are predicted, -100 elsewhere; what the model sees of a second pass."""

_MASKING = 1  # in the key of a row's draws, beside those of its worse pairs


@dataclass(frozen=True)
class ContrastTexts:
    """How a contrast is read. negatives: how many worse pairs at most; None: all."""

    format: TextFormat
    negatives: int | None
    seed: int

    def text_pairs(self, row: Mapping[str, Any], epoch: int) -> list[TextPair]:
        """The better pair and the worse ones, drawn for each epoch anew where there are more than wanted."""
        worse = row["worse"]
        if self.negatives:
            worse = drawn(worse, self.negatives, (self.seed, epoch, row["row"]))
        return [
            TextPair(p["query"], p["document"], p["title"], tuple((s, e) for s, e in p["anchors"]))
            for p in (row["better"], *worse)
        ]

    def pairs(self, row: Mapping[str, Any], epoch: int) -> Pairs:
        """The same as (query, text)."""
        return [
            (self.format.query(pair.query), self.format.passage(pair.title, pair.document))
            for pair in self.text_pairs(row, epoch)
        ]


class ContrastCollator(GroupCollator):
    """Rows to the input of one step; the rows of a batch have one loss.

    As `GroupCollator`, with `loss`, and with labels among the features. If pairs are masked alike in a group,
    what is scored is masked; otherwise MASKED_IDS are read besides.
    """

    def __init__(
        self,
        tokenizer: PairTokenizer,
        texts: ContrastTexts,
        masks: Masks | None,
        loss: LossKind | None = None,
        mini_batch: int = 0,
    ) -> None:
        """masks: None if nothing is. loss: by default that of the objective."""
        super().__init__(tokenizer, texts, mini_batch)
        self._contrasts, self._masks, self._loss = texts, masks, loss

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """One batch."""
        loss = self._loss or all_objectives()[rows[0]["objective"]].loss
        return super().__call__(rows) | {"loss": loss}

    def _reader(self, rows: Sequence[Mapping[str, Any]], groups: Sequence[Pairs]) -> Reader:
        if self._masks is None:
            return super()._reader(rows, groups)
        encodings = self._tokenizer.encodings([pair for group in groups for pair in group])
        tokens = token_rows(encodings)
        masked: list[Any] = []
        for row, group in zip(rows, groups, strict=True):
            own = encodings[len(masked) : len(masked) + len(group)]
            generator = np.random.default_rng((self._contrasts.seed, self.epoch, row["row"], _MASKING))
            pairs = self._contrasts.text_pairs(row, self.epoch)
            masks_query = all_objectives()[row["objective"]].masks_query
            masked += self._masks.group(own, pairs, masks_query, generator)
        one_pass = self._masks.alike

        def features(piece: slice) -> Features:
            own = zip(tokens[piece], masked[piece], strict=True)
            seen = [np.where(np.asarray(before) < 0, ~ids, ids) for before, (ids, _) in own]
            hidden = self._tokenizer.features(seen)
            found = hidden if one_pass else self._tokenizer.features(tokens[piece])
            labels = torch.full_like(found["input_ids"], NOT_PREDICTED)
            for row, (_, predicted) in enumerate(masked[piece]):
                labels[row, : len(predicted)] = torch.from_numpy(predicted)
            besides = {} if one_pass else {MASKED_IDS: hidden["input_ids"]}
            return found | besides | {LABELS: labels}

        return features
