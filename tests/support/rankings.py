"""Rankings for tests, written as lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkseek.retriever.ranking import Ranking


def ranking_of(query_ids: Sequence[str], results: Sequence[Sequence[tuple[int, float]]], k: int) -> Ranking:
    """A ranking from a list of (row, score) for each query, of any lengths and in any order."""
    rows = np.full((len(query_ids), k), -1, np.int64)  # [Q, k]
    scores = np.full((len(query_ids), k), -np.inf, np.float32)  # [Q, k]
    for query, pairs in enumerate(results):
        best = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:k]
        for rank, (row, score) in enumerate(best):
            rows[query, rank], scores[query, rank] = row, score
    return Ranking(tuple(query_ids), rows, scores)
