"""The exact best rows of questions, by passes over all vectors; also what recall is measured by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.search.faiss_tools import Hits

_MANY = 64  # questions, from which products of matrices are faster than FAISS's scan of each
_SCAN_ROWS = 8192  # that are multiplied at a time
_MARGIN = 32  # results whose order rounding may change


def exhaustive_search(
    blocks: Iterable[NDArray[np.floating[Any]]],
    queries: NDArray[np.float32],
    k: int,
    on_rows: Callable[[float], None] = lambda rows: None,
) -> Hits:
    """The k best rows by inner product in float32: (rows int64 [Q, k], scores float32 [Q, k]), best first.

    blocks: all vectors in order, float16 or float32 [b, d] each. queries: float32 [Q, d]. Of equal scores the
    lower row wins. Rows -1 and scores -inf in place of missing results, as of vectors that are no numbers.
    """
    best = [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    first = 0
    for block in blocks:
        scores = queries @ block.astype(np.float32, copy=False).T  # [Q, b]
        for number, (rows, kept) in enumerate(best):
            worst = kept[-1] if len(kept) == k else -np.inf
            better = np.flatnonzero(scores[number] > worst)
            if len(better):
                rows = np.concatenate([rows, better + first])
                kept = np.concatenate([kept, scores[number, better]])
                order = np.argsort(-kept, kind="stable")[:k]
                best[number] = rows[order], kept[order]
        first += len(block)
        on_rows(len(block))
    found = np.full((len(queries), k), -1, np.int64)
    found_scores = np.full((len(queries), k), -np.inf, np.float32)
    for number, (rows, kept) in enumerate(best):
        found[number, : len(rows)], found_scores[number, : len(kept)] = rows, kept
    return found, found_scores


def exact_search(index: Any, stored: NDArray[np.float16], queries: NDArray[np.float32], k: int) -> Hits:
    """The k best rows of a FAISS index of these vectors: (rows int64 [Q, k], scores float32 [Q, k]).

    index: finds candidates by inner product. stored: float16 [N, d], at least k. queries: float32 [Q, d]. Of
    equal scores the lower row wins. A few questions are scanned by FAISS; for many, products of matrices read
    the vectors once. The scores of both are rounded differently. So the best rows of either are scored once
    more, each by itself: results do not depend on how many questions are asked together.
    """
    depth = min(k + _MARGIN, len(stored))
    if len(queries) < _MANY:
        candidates = index.search(queries, depth)[1]
    else:
        blocks = (stored[start : start + _SCAN_ROWS] for start in range(0, len(stored), _SCAN_ROWS))
        candidates, _ = exhaustive_search(blocks, queries, depth)
    rows, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    for number, own in enumerate(np.sort(candidates, axis=1)):
        own_scores = np.einsum("cd,d->c", stored[own].astype(np.float32), queries[number])
        missing = (own < 0) | np.isnan(own_scores)
        own_scores[missing] = -np.inf
        best = np.argsort(-own_scores, kind="stable")[:k]
        rows[number], scores[number] = np.where(missing, -1, own)[best], own_scores[best]
    return rows, scores


def recall(found: NDArray[np.int64], expected: NDArray[np.int64]) -> float:
    """The share of the expected rows that was found, [Q, k] each; the mean over the questions."""
    shares = [np.isin(wanted, rows).mean() for rows, wanted in zip(found, expected, strict=True)]
    return float(np.mean(shares))
