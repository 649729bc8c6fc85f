"""Groups from labelled pairs, or from a run with judgements, as a table that training reads in any order.

A group is a pair of `retriever.mining.pairs`: a query, its relevant text, and as hard negatives others that a
first stage ranks high, the best-ranked first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from indexer.files.hashes import combined_sha256, file_sha256
from indexer.index import Index
from reranker.candidates import RunCandidates
from reranker.training.config import GroupSettings
from retriever.mining.pairs import Context, Pair, read_pairs
from retriever.queries import read_queries
from retriever.search.runs import check_questions, read_qrels, read_run
from retriever.training.lifecycle import existing
from retriever.training.pair_table import PairTable, table_rows

URL_BEFORE_TITLE = " "
"""The text between a document's address and its title."""


def data_sha256(settings: GroupSettings) -> str:
    """One hash of all data; of an index, that of its passages. Raises `InputError` for a missing file."""
    files = [path for path in (settings.run, settings.queries, settings.qrels) if path is not None]
    hashes = [file_sha256(path) for path in existing([*settings.pairs, *files])]
    if settings.index is not None:
        hashes.append(str(Index.open(settings.index).parts["passages"]["fingerprint"]))
    return combined_sha256(hashes)


def open_groups(settings: GroupSettings, url: bool, folder: Path, sha256: str) -> PairTable:
    """The groups of all queries as a table in the folder, written if it is missing.

    url: whether a document's address is read before its title. sha256: of the data. Raises `InputError`
    naming file and pair for an invalid pair and an empty relevant text, and if no query has a negative.
    """
    stored = folder / f"groups-{sha256[:16]}-{settings.depth}{'-url' if url else ''}.arrow"
    pairs = _from_pairs(settings.pairs) if settings.pairs else _from_run(settings, url)
    return PairTable.open(stored, table_rows(_usable(pairs)), "groups")


def _usable(pairs: Iterable[tuple[Pair, str]]) -> Iterator[tuple[Pair, str]]:
    """Pairs with a relevant text and a negative; how many lack the latter is printed on stderr."""
    lacking = usable = 0
    for pair, place in pairs:
        if not f"{pair.positive.title}{pair.positive.text}".strip():
            raise InputError(f"{place}: its relevant passage is empty", "Remove the pair.")
        given = pair.hard_negatives or pair.negatives
        negatives = tuple(c for c in given if f"{c.title}{c.text}".strip())
        if negatives:
            usable += 1
            yield Pair(pair.query, pair.positive, hard_negatives=negatives), place
        else:
            lacking += 1
    if not usable:
        raise InputError(
            f"none of {lacking:,} labelled pairs has a passage that is not relevant",
            "A re-ranker learns from both: linkseek negatives adds those of a first stage.",
        )
    if lacking:
        print(f"{lacking:,} pairs without a passage that is not relevant are skipped", file=sys.stderr)


def _from_pairs(paths: Sequence[Path]) -> Iterator[tuple[Pair, str]]:
    for path in paths:
        for number, pair in enumerate(read_pairs(path), start=1):
            yield pair, f"{path.name}, pair {number:,}"


def _from_run(data: GroupSettings, url: bool) -> Iterator[tuple[Pair, str]]:
    assert data.index and data.run and data.queries and data.qrels
    run, qrels = read_run(data.run), read_qrels(data.qrels)
    text_of = {query.id: query.text for query in read_queries(data.queries)}
    check_questions(run, text_of, str(data.run))
    queries = [query for query in run if query in text_of]
    ids = list(dict.fromkeys(id_ for query in queries for id_ in (*run[query], *qrels.get(query, {}))))
    candidates = RunCandidates(Index.open(data.index), ids, str(data.run))
    row_of = {id_: row for row, id_ in enumerate(ids) if candidates.known[row]}

    def context(id_: str) -> Context:
        candidate = candidates.read(row_of[id_])
        address = candidate.url + URL_BEFORE_TITLE if url and candidate.url else ""
        return Context(address + candidate.title, candidate.text, id_)

    for query in queries:
        for relevant, others in judged_groups(run[query], qrels.get(query, {}), data.depth):
            if relevant in row_of:
                negatives = tuple(context(id_) for id_ in others if id_ in row_of)
                yield (
                    Pair(text_of[query], context(relevant), hard_negatives=negatives),
                    f"{data.run.name}, query {query}",
                )


def judged_groups(
    results: Iterable[str], judged: Mapping[str, int], depth: int
) -> Iterator[tuple[str, list[str]]]:
    """Each relevant id of a query with the results that are not relevant, higher relevance first.

    Results that are not judged are not relevant.
    """
    others = [id_ for id_ in islice(results, depth) if judged.get(id_, 0) <= 0]
    for id_ in sorted((id_ for id_, value in judged.items() if value > 0), key=lambda id_: -judged[id_]):
        yield id_, others


# --- which queries are trained on: few shots and folds; rows of one query are never separated ----------


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


def fold_split(
    folds: NDArray[np.int64], held_out: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are trained on and those that choose the checkpoint, int64 [n] each.

    One fold is ranked, the next one chooses, the others are trained on. folds: int64 [N], of each row.
    """
    dev = (held_out + 1) % count
    train = np.flatnonzero((folds != held_out) & (folds != dev))
    return train, np.flatnonzero(folds == dev)
