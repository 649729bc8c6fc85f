"""The dev measure of re-rankers: the mean reciprocal rank of the first relevant text of each query.

MRR@10 as MS MARCO has it, of each query's relevant texts and its hard negatives. Texts with the score of a
relevant one rank above it, so a model that gives all of them the same score is the worst, not the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from linkseek.indexer.encoding.batches import Parallel, Tokens, encode_texts
from linkseek.reranker.training.group_inputs import GroupTexts, PairTokenizer
from linkseek.reranker.training.group_loss import read_scores
from linkseek.retriever.mining.pairs import Pair

CUT = 10


class DevGroups:
    """The measure of a model in training on labelled pairs."""

    name = "the re-ranker in training"
    dimension = 1
    token_budget = 8_192  # padded tokens in a batch
    parallel = Parallel()

    def __init__(
        self, model: nn.Module, device: torch.device, pairs: Sequence[Pair], tokenizer: PairTokenizer,
        texts: GroupTexts,
    ) -> None:  # fmt: skip
        by_query: dict[str, list[Pair]] = {}
        for pair in pairs:
            by_query.setdefault(pair.query, []).append(pair)
        groups = [texts.dev_pairs(pairs) for pairs in by_query.values()]
        self._sizes = [len(group) for group in groups]
        self._relevant = [len(pairs) for pairs in by_query.values()]
        self._tokens = tokenizer.tokens([pair for group in groups for pair in group])
        self._model, self._device, self._tokenizer = model, device, tokenizer

    def __call__(self) -> float:
        """MRR@10, between 0 and 1."""
        was_training = self._model.training
        self._model.eval()
        scores = encode_texts(self, self._tokens)[:, 0]  # [n]
        self._model.train(was_training)
        return mean_reciprocal_rank(scores, self._sizes, self._relevant)

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """The scores of one batch, float32 [B, 1], as `indexer.encoding.batches` calls it."""
        features = {name: value.to(self._device) for name, value in self._tokenizer.features(batch).items()}
        with torch.no_grad():  # here, since it holds for the thread that it is entered in
            scores: NDArray[np.float32] = read_scores(self._model, features)[0][:, None].cpu().numpy()
        return scores

    def text_of(self, tokens: Tokens) -> str:
        """The words of a pair."""
        return self._tokenizer.text_of(tokens)


def mean_reciprocal_rank(
    scores: NDArray[np.float32], sizes: Sequence[int], relevant: Sequence[int], cut: int = CUT
) -> float:
    """MRR of groups in a row, each with its relevant texts first.

    A relevant text whose score is not a number ranks last, below other texts with such a score.
    """
    starts = np.cumsum([0, *sizes])
    total = 0.0
    for (start, end), count in zip(pairwise(starts.tolist()), relevant, strict=True):
        best = np.nan_to_num(scores[start : start + count], nan=-np.inf).max()
        others = np.nan_to_num(scores[start + count : end], nan=np.inf)
        rank = 1 + int((others >= best).sum())
        total += 1 / rank if rank <= cut else 0.0
    return total / len(sizes)
