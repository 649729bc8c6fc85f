"""Which queries are trained on: few shots, and folds. Rows of one query are never separated."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from retriever.training.pair_table import PairTable


def query_numbers(table: PairTable) -> NDArray[np.int64]:
    """The number of each row's query, int64 [N], in the order in which queries first appear."""
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(text, len(number_of)) for text in table.queries()], np.int64)


def draw_queries(numbers: NDArray[np.int64], shots: int | None, seed: int) -> NDArray[np.int64]:
    """The places of that many queries' rows, int64 [n] ascending: fewer shots of a seed are a part of more.

    numbers: int64 [N], of each row's query. Raises `InputError` if there are fewer.
    """
    queries = np.unique(numbers)
    if shots is None:
        return np.arange(len(numbers))
    if shots > len(queries):
        raise InputError(f"data.shots is {shots:,}, and there are {len(queries):,} queries", "Ask for fewer.")
    chosen = np.random.default_rng(seed).permutation(queries)[:shots]
    return np.flatnonzero(np.isin(numbers, chosen))


def fold_of_each(queries: Iterable[str], count: int, seed: int) -> dict[str, int]:
    """The fold of each query, in [0, count): folds of equal size, by the queries and the seed alone.

    Raises `InputError` if there are fewer queries than folds.
    """
    distinct = list(dict.fromkeys(queries))
    if len(distinct) < count:
        raise InputError(f"folds.count is {count}, and there are {len(distinct)} queries", "Ask for fewer.")
    order = np.random.default_rng(seed).permutation(len(distinct)).tolist()
    return {distinct[query]: place % count for place, query in enumerate(order)}


def fold_split(
    folds: NDArray[np.int64], held_out: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are trained on and those that choose the checkpoint, int64 [n] each.

    One fold is ranked, the next one chooses, the others are trained on. folds: int64 [N], of each row.
    """
    dev = (held_out + 1) % count
    train = np.flatnonzero((folds != held_out) & (folds != dev))
    return train, np.flatnonzero(folds == dev)
