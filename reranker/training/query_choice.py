"""Which queries are trained on: few shots, and folds; the rows of a query stay together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.files.sources import open_source, read_lines

_FOLDS = "Expected FOLD <tab> QUERY (its id or text) in every line, and three folds or more: 0, 1, 2, ..."


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


def fold_of_each(queries: Iterable[str], count: int, seed: int) -> dict[str, int]:
    """The fold of each query, in [0, count): folds of equal size, by the queries and the seed alone.

    Raises `InputError` if there are fewer queries than folds.
    """
    distinct = list(dict.fromkeys(queries))
    if len(distinct) < count:
        raise InputError(f"folds.count is {count}, and there are {len(distinct)} queries", "Ask for fewer.")
    order = np.random.default_rng(seed).permutation(len(distinct)).tolist()
    return {distinct[query]: place % count for place, query in enumerate(order)}


def read_folds(path: Path, queries: Iterable[str], text_of: Mapping[str, str]) -> dict[str, int]:
    """The fold of each query by a file of lines FOLD <tab> QUERY, as in FOLDER/folds.tsv.

    queries: that need a fold. text_of: of the run's queries, by id. A line names a query by id or text; those
    of other queries are skipped. Raises `InputError` naming file and line for any other line and a query in
    two folds, and for a query without a fold, a fold without a query, and fewer than three folds.
    """
    queries = list(queries)
    named = {" ".join(text.split()): text for text in (*queries, *text_of.values())} | dict(text_of)
    fold_of: dict[str, int] = {}
    _, stream = open_source(path)
    with stream:
        for number, line in read_lines(stream):
            fold, _, name = line.decode("utf-8", "replace").partition("\t")
            name = " ".join(name.split())
            if not (fold.isascii() and fold.isdecimal() and name):
                raise InputError(f"{path}, line {number:,}: not a query of a fold: {line[:60]!r}", _FOLDS)
            query = named.get(name)
            if query is not None and fold_of.setdefault(query, int(fold)) != int(fold):
                raise InputError(
                    f"{path}, line {number:,}: {name!r} is also in fold {fold_of[query]}", _FOLDS
                )
    without = next((query for query in queries if query not in fold_of), None)
    if without is not None:
        raise InputError(f"{path}: no fold for the query {without!r}", _FOLDS)
    used = {fold_of[query] for query in queries}
    if len(used) < 3 or used != set(range(max(fold_of.values()) + 1)):
        raise InputError(f"{path}: the judged queries are in the folds {sorted(used)}", _FOLDS)
    return fold_of


def fold_split(
    folds: NDArray[np.int64], held_out: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are trained on and those that choose the checkpoint, int64 [n] each.

    One fold is ranked, the next one chooses, the others are trained on. folds: int64 [N], of each row.
    """
    dev = (held_out + 1) % count
    train = np.flatnonzero((folds != held_out) & (folds != dev))
    return train, np.flatnonzero(folds == dev)
