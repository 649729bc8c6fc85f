"""Groups from labelled pairs, or from a run with judgements, as a table that training reads in any order.

A group is a pair of `retriever.mining.pairs`: a query, its relevant text, and as hard negatives others that a
first stage ranks high, the best-ranked first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.index import Index
from linkseek.indexer.store.tables import Row
from linkseek.reranker.pair_texts import UrlPlace
from linkseek.reranker.training.config import GroupSettings
from linkseek.reranker.training.run_groups import RunGroupTable, run_groups
from linkseek.retriever.mining.pairs import Context, Pair, read_pairs
from linkseek.retriever.training.lifecycle import existing
from linkseek.retriever.training.pair_table import PairTable, table_rows

T = TypeVar("T")

GroupTable = PairTable | RunGroupTable

Group = tuple[str, T, Sequence[T], str]
"""A query, its relevant text, others, and a place for messages; a text is a `Context` or a row."""


def data_sha256(settings: GroupSettings) -> str:
    """One hash of all data; of an index, that of its passages. Raises `InputError` for a missing file."""
    files = [path for path in (settings.run, settings.queries, settings.qrels) if path is not None]
    hashes = [file_sha256(path) for path in existing([*settings.pairs, *files])]
    if settings.index is not None:
        hashes.append(str(Index.open(settings.index).parts["passages"]["fingerprint"]))
    return combined_sha256(hashes)


def open_groups(settings: GroupSettings, url: UrlPlace, folder: Path, sha256: str) -> GroupTable:
    """The groups of all queries as a table in the folder, written if it is missing.

    url: whether and where a document's address is read. sha256: of the data. Raises `InputError` naming file
    and pair for an invalid pair and for one whose relevant text is empty, and if no query has a negative.
    """
    if settings.pairs:
        stored = folder / f"groups-{sha256[:16]}.arrow"
        return PairTable.open(stored, table_rows(_pairs(settings.pairs)), "groups")
    assert settings.index
    index = Index.open(settings.index)
    stored = folder / f"groups-{sha256[:16]}-{settings.depth}-rows.arrow"
    table = RunGroupTable.open(stored, _run_rows(settings, index), "groups")
    table.read_from(index, url)
    return table


def _pairs(paths: Sequence[Path]) -> Iterator[tuple[Pair, str]]:
    read = (
        (pair.query, pair.positive, _others(pair), f"{path.name}, pair {number:,}")
        for path in paths
        for number, pair in enumerate(read_pairs(path), start=1)
    )
    for query, positive, negatives, place in _usable(read, _is_blank):
        yield Pair(query, positive, hard_negatives=tuple(negatives)), place


def _others(pair: Pair) -> list[Context]:
    """The negatives that are read, without copies of the relevant passage."""
    relevant = pair.positive.title, pair.positive.text
    return [c for c in pair.hard_negatives or pair.negatives if (c.title, c.text) != relevant]


def _run_rows(settings: GroupSettings, index: Index) -> Iterator[tuple[Row, int]]:
    texts, groups = run_groups(settings, index)
    are_documents = texts.candidates.level == "documents"
    is_blank = cache(lambda row: _is_blank(texts(row)))
    for query, positive, negatives, place in _usable(_with_text(groups, is_blank), is_blank):
        row = {"place": place, "query": query, "documents": are_documents}
        yield row | {"positive": positive, "hard_negatives": negatives}, len(query) + len(negatives)


def _is_blank(context: Context) -> bool:
    return not f"{context.title}{context.text}".strip()


def _with_text(groups: Iterable[Group[int]], is_blank: Callable[[int], bool]) -> Iterator[Group[int]]:
    """Groups whose relevant text is not empty; published collections, such as Cranfield, judge some that are.

    How many were empty is printed on stderr.
    """
    empty = 0
    for group in groups:
        if is_blank(group[1]):
            empty += 1
        else:
            yield group
    if empty:
        print(f"{empty:,} judgements of empty texts are skipped", file=sys.stderr)


def _usable(groups: Iterable[Group[T]], is_blank: Callable[[T], bool]) -> Iterator[Group[T]]:
    """Groups with a relevant text and a negative; how many lack the latter is printed on stderr."""
    lacking = usable = 0
    for query, positive, given, place in groups:
        if is_blank(positive):
            raise InputError(f"{place}: its relevant passage is empty", "Remove the pair.")
        negatives = [negative for negative in given if not is_blank(negative)]
        if negatives:
            usable += 1
            yield query, positive, negatives, place
        else:
            lacking += 1
    if not usable:
        raise InputError(
            f"none of {lacking:,} labelled pairs has a passage that is not relevant",
            "A re-ranker learns from both: linkseek negatives adds those of a first stage.",
        )
    if lacking:
        print(f"{lacking:,} pairs without a passage that is not relevant are skipped", file=sys.stderr)


# --- which queries are trained on: few shots and folds; rows of one query are never separated ----------


_FOLDS = "Expected FOLD <tab> QUERY (its id or text) in every line, and three folds or more: 0, 1, 2, ..."


def query_numbers(table: GroupTable) -> NDArray[np.int64]:
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
