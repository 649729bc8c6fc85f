"""The dev measure: at which rank the right passage is found, on average.

DPR's "average rank" validation (Karpukhin et al. 2020), by which HLP chooses its checkpoints (section
4.3): all passages of all dev pairs are ranked for each query, the right ones and so many negatives of
each pair. A passage that stands there twice counts once. The best rank is 1; passages with the score of
the right one stand before it, so a model that gives all texts the same vector is the worst, not the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sentence_transformers.base.evaluation import BaseEvaluator

from retriever.mining.pairs import Pair, read_pairs
from retriever.training.config import DevSettings
from retriever.training.texts import PairTexts

MEASURE = "average_rank"
_BLOCK = 1024


def read_dev_pairs(paths: Sequence[Path], most: int) -> list[Pair]:
    """The first pairs of some files."""
    return list(islice(chain.from_iterable(map(read_pairs, paths)), most))


class AverageRank(BaseEvaluator):
    """The measure, as sentence-transformers' trainer asks for it."""

    def __init__(
        self, pairs: Sequence[Pair], texts: PairTexts, settings: DevSettings, batch: int = 64
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.primary_metric = MEASURE
        self._batch = batch
        self._queries = [texts.query(pair.query) for pair in pairs]
        pool: dict[str, int] = {}
        gold = []
        for pair in pairs:
            given = (*pair.negatives[: settings.negatives], *pair.hard_negatives[: settings.hard_negatives])
            for context in (pair.positive, *given):
                text = texts.format.passage(context.title, context.text)
                place = pool.setdefault(text, len(pool))
                if context is pair.positive:
                    gold.append(place)
        self._passages = list(pool)
        self._gold = np.array(gold, np.int64)  # [Q]

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """{"average_rank": ...}, between 1 and the number of passages."""
        options: dict[str, Any] = {
            "prompt": "", "batch_size": self._batch, "show_progress_bar": False, "convert_to_numpy": True
        }  # fmt: skip
        queries = model.encode(self._queries, task="query", **options)  # [Q, d]
        passages = model.encode(self._passages, task="document", **options)  # [P, d]
        return {MEASURE: float(gold_ranks(queries, passages, self._gold).mean())}


def gold_ranks(
    queries: NDArray[np.float32], passages: NDArray[np.float32], gold: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rank of each query's passage, int64 [Q], from 1; queries [Q, d], passages [P, d], gold [Q].

    A score that is no number counts as the best, so it is never to a model's advantage.
    """
    ranks = np.empty(len(queries), np.int64)
    for start in range(0, len(queries), _BLOCK):
        block = slice(start, start + _BLOCK)
        scores = np.nan_to_num(queries[block] @ passages.T, nan=np.inf)  # [b, P]
        own = scores[np.arange(len(scores)), gold[block]]  # [b]
        ranks[block] = (scores >= own[:, None]).sum(axis=1)
    return ranks
