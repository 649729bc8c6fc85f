"""The dev measure of bi-encoders: the average rank of the relevant passage.

DPR's "average rank" validation (Karpukhin et al. 2020), by which HLP chooses its checkpoints (section
4.3): for each query, all passages of all dev pairs are ranked, the relevant ones and some negatives of each
pair; equal passages count once. The best rank is 1. Passages with the score of the relevant one rank above
it, so a model that gives all texts the same vector is the worst, not the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers.util.distributed import distributed_evaluation

from linkseek.retriever.mining.pairs import Pair
from linkseek.retriever.models.biencoder import TextFormat

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_BLOCK = 1024


class AverageRank:
    """The measure of a model on pairs, each with its first `negatives` and `hard_negatives`."""

    def __init__(
        self, pairs: Sequence[Pair], text_format: TextFormat, *, negatives: int, hard_negatives: int
    ) -> None:
        self._queries = [text_format.query(pair.query) for pair in pairs]
        rows: dict[str, int] = {}
        gold = []
        for pair in pairs:
            contexts = (pair.positive, *pair.negatives[:negatives], *pair.hard_negatives[:hard_negatives])
            texts = [text_format.passage(context.title, context.text) for context in contexts]
            gold.append([rows.setdefault(text, len(rows)) for text in texts])
        self._passages = list(rows)
        self._gold = np.array([places[0] for places in gold], np.int64)  # [Q]

    def __call__(self, model: SentenceTransformer) -> float:
        """The mean rank, from 1 to the number of passages; in processes other than the first 0.

        All processes must call it: they share the encoding.
        """
        options: dict[str, Any] = {"prompt": "", "batch_size": 64, "show_progress_bar": False}
        with distributed_evaluation(model) as is_first:
            if not is_first:
                return 0.0
            queries = model.encode(self._queries, task="query", **options)  # [Q, d]
            passages = model.encode(self._passages, task="document", **options)  # [P, d]
            return float(gold_ranks(queries, passages, self._gold).mean())


def gold_ranks(
    queries: NDArray[np.float32], passages: NDArray[np.float32], gold: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rank of each query's passage, int64 [Q], from 1; queries [Q, d], passages [P, d], gold [Q].

    A score that is not a number counts as the best, so it is never to a model's advantage.
    """
    ranks = np.empty(len(queries), np.int64)
    for start in range(0, len(queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        scores = np.nan_to_num(queries[block] @ passages.T, nan=np.inf)  # [b, P]
        own = scores[np.arange(len(scores)), gold[block]]  # [b]
        ranks[block] = (scores >= own[:, None]).sum(axis=1)
    return ranks
