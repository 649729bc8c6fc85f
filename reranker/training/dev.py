"""The dev measure: the mean reciprocal rank of the right text among the best that a first stage found.

MRR@10 as MS MARCO has it, of each query's right text beside its wrong ones. Texts with the score of the right
one stand before it, so a model that gives all of them the same score is the worst, not the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from indexer.encoding.batches import Parallel, Tokens, encode_texts
from reranker.training.loss import score
from reranker.training.texts import GroupTexts, PairTokenizer

MEASURE = "mrr"
CUT = 10
_BUDGET = 8_192  # padded tokens in a batch


class DevGroups:
    """The measure of a model that is being trained. rows: of the dev groups, as they are stored."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        tokenizer: PairTokenizer,
        texts: GroupTexts,
        *,
        bfloat16: bool = False,
    ) -> None:
        groups = [texts.first_pairs(row) for row in rows]
        self._sizes = [len(group) for group in groups]
        self._tokens = tokenizer.tokens([pair for group in groups for pair in group])
        self._tokenizer, self._bfloat16 = tokenizer, bfloat16

    def __call__(self, model: nn.Module, device: torch.device) -> float:
        """MRR@10, between 0 and 1."""
        was_training = model.training
        scoring = _Scoring(model.eval(), self._tokenizer, device, self._bfloat16)
        scores = encode_texts(scoring, self._tokens)[:, 0]  # [n]
        model.train(was_training)
        return mean_reciprocal_rank(scores, self._sizes)


class _Scoring:
    """A model in training as what `indexer.encoding.batches` calls."""

    dimension = 1
    token_budget = _BUDGET
    parallel = Parallel()

    def __init__(
        self, model: nn.Module, tokenizer: PairTokenizer, device: torch.device, bfloat16: bool
    ) -> None:
        self._model, self._tokenizer, self._device = model, tokenizer, device
        self._bfloat16 = bfloat16

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """The scores of one batch, float32 [B, 1]."""
        features = {name: value.to(self._device) for name, value in self._tokenizer.features(batch).items()}
        # here, since both hold for the thread that they are entered in
        with torch.no_grad(), torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            found: NDArray[np.float32] = score(self._model, features)[:, None].cpu().numpy()
        return found


def mean_reciprocal_rank(scores: NDArray[np.float32], sizes: Sequence[int], cut: int = CUT) -> float:
    """Of groups that lie behind each other, the right one's score first in each.

    A right one whose score is no number is the last, a wrong one with such a score stands before it.
    """
    starts = np.cumsum([0, *sizes])
    total = 0.0
    for start, end in pairwise(starts.tolist()):
        own, others = (
            np.nan_to_num(scores[start], nan=-np.inf),
            np.nan_to_num(scores[start + 1 : end], nan=np.inf),
        )
        rank = 1 + int((others >= own).sum())
        total += 1 / rank if rank <= cut else 0.0
    return total / len(sizes)
