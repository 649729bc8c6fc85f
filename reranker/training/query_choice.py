"""Which queries are trained on; the rows of a query stay together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.errors import InputError


def query_numbers(queries: Iterable[str]) -> NDArray[np.int64]:
    """The number of each row's query, int64 [N], in the order in which queries first appear.

    queries: of all rows [N].
    """
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(text, len(number_of)) for text in queries], np.int64)


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


def first_queries(numbers: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The places of all rows of the first `limit` queries, int64 [n]. numbers: as `query_numbers`."""
    return np.flatnonzero(np.isin(numbers, np.unique(numbers)[:limit]))
