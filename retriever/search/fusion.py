"""Fusion: several rankings of the same queries -> one.

Both methods take rankings of any depth, with empty places. A ranking adds nothing to the score of a passage
that it lacks.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.errors import MismatchError
from linkseek.retriever.ranking import Paths, Ranking


def reciprocal_rank(rankings: Sequence[Ranking], k: int, constant: float = 60.0) -> Ranking:
    """Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): sum of 1 / (constant + rank).

    Ranks count from 1; scores do not matter. rankings: of the same queries in the same order,
    depths may differ. constant: above -1. Returns the k best, scores in float32 of a float64
    sum. Raises `MismatchError` if the queries differ.
    """
    return _sum(rankings, [reciprocal(ranking, constant) for ranking in rankings], k)


def reciprocal(ranking: Ranking, constant: float) -> NDArray[np.float64]:
    """1 / (constant + rank) for each place [Q, k]."""
    return np.broadcast_to(1.0 / (constant + np.arange(1, ranking.depth + 1)), ranking.rows.shape)


def weighted(rankings: Sequence[Ranking], weights: Sequence[float], k: int) -> Ranking:
    """Weighted sum of scores, each ranking's scores first stretched to [0, 1] for each query.

    The worst passage of a ranking gets 0 from it, like one that it lacks; where all scores of a query are
    equal (or there is one passage), all get 1. rankings: of the same queries in the same order, depths may
    differ. weights: one a ranking, not negative. Returns the k best, scores in float32 of a float64 sum.
    Raises `MismatchError` if the queries differ.
    """
    shares = [weight * stretched(ranking) for ranking, weight in zip(rankings, weights, strict=True)]
    return _sum(rankings, shares, k)


def stretched(ranking: Ranking) -> NDArray[np.float64]:
    """Min-max normalised scores [Q, k]; 0 in empty places."""
    scores, mask = ranking.scores.astype(np.float64), ranking.rows >= 0  # [Q, k]
    low = np.min(scores, axis=1, keepdims=True, where=mask, initial=np.inf)  # [Q, 1]
    high = np.max(scores, axis=1, keepdims=True, where=mask, initial=-np.inf)  # [Q, 1]
    span = np.where(high > low, high - low, 1.0)  # [Q, 1]
    stretched = np.where(high > low, (np.where(mask, scores, 0.0) - low) / span, 1.0)  # [Q, k]
    return np.where(mask, stretched, 0.0)


def _sum(rankings: Sequence[Ranking], shares: Sequence[NDArray[np.float64]], k: int) -> Ranking:
    """Add up the shares [Q, k_i] of equal rows, query by query, and rank."""
    query_ids = rankings[0].query_ids
    for number, ranking in enumerate(rankings[1:], start=2):
        if ranking.query_ids != query_ids:
            raise MismatchError(
                f"rankings 1 and {number} have different queries, or the same in another order",
                "Fuse rankings of the same queries.",
            )
    rows = np.concatenate([ranking.rows for ranking in rankings], axis=1)  # [Q, m]
    share = np.concatenate(shares, axis=1)  # [Q, m]
    # Stable: shares of a row stay in the order of the rankings, and so does the sum's rounding.
    order = np.argsort(rows, axis=1, kind="stable")  # [Q, m]
    rows, share = np.take_along_axis(rows, order, 1), np.take_along_axis(share, order, 1)
    first = np.ones(rows.shape, bool)  # [Q, m], where the shares of a passage begin
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    fused = np.zeros(rows.shape)  # [Q, m]
    if rows.size:  # the first place of every query is a beginning: no sum runs into the next query
        fused[first] = np.add.reduceat(share.ravel(), np.flatnonzero(first))
    rows = np.where(first, rows, -1)
    missing = ((0, 0), (0, max(k - rows.shape[1], 0)))
    rows = np.pad(rows, missing, constant_values=-1)
    return Ranking.of(query_ids, rows, np.pad(fused, missing), k, joined_paths(rankings))


def joined_paths(rankings: Sequence[Ranking]) -> tuple[Paths, ...]:
    """The paths of several rankings of the same queries; of a passage with several, the first ranking's."""
    with_paths = [ranking.paths for ranking in rankings if ranking.paths]
    return tuple(dict(ChainMap(*map(dict, paths))) for paths in zip(*with_paths, strict=True))
