"""Groups from pairs, or from a run with judgements, to rows that training reaches in any order.

Either way a group is a row of `retriever.training.data`: a query, its right text, and wrong ones that a first
stage ranks high, the best-ranked first. What belongs together is the query: folds and shots never part the
rows of one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from indexer.base.progress import progress
from indexer.index import Index
from indexer.store.artifacts import combined_sha256, file_sha256
from reranker.candidates import Candidate, RunCandidates
from reranker.training.config import GroupSettings
from retriever.mining.pairs import Context, Pair, read_pairs
from retriever.queries import read_queries
from retriever.search.runs import check_questions, read_qrels, read_run
from retriever.training.data import PairRows, write_rows

URL_BEFORE_TITLE = " "
"""What stands between a document's address and its title."""


@dataclass(frozen=True)
class Split:
    """The rows that are trained on and those that choose the checkpoint, int64 [n] each."""

    train: NDArray[np.int64]
    dev: NDArray[np.int64]


def data_files(settings: GroupSettings) -> list[Path]:
    """The files that decide what is trained on. Raises `InputError` naming one that is not there."""
    files = [path for path in (settings.run, settings.queries, settings.qrels) if path is not None]
    return existing([*settings.pairs, *files])


def existing(paths: Sequence[Path]) -> list[Path]:
    """Raises `InputError` naming the first file that is not there."""
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file", "Check the paths of [data] and [dev].")
    return list(paths)


def data_sha256(settings: GroupSettings) -> str:
    """One hash of what is trained on; of an index, that of its passages."""
    hashes = [file_sha256(path) for path in data_files(settings)]
    if settings.index is not None:
        hashes.append(str(Index.open(settings.index).parts["passages"]["fingerprint"]))
    return combined_sha256(hashes)


def open_groups(settings: GroupSettings, url: bool, folder: Path, data_hash: str) -> PairRows:
    """The groups of all queries as a table in the folder; it is made if it is not there yet.

    url: whether a document's address is read before its title. Raises `InputError` naming file and pair for
    what is no labelled pair, for a right text that is empty and
    where no query has a wrong one.
    """
    stored = folder / f"groups-{data_hash[:16]}-{settings.depth}{'-url' if url else ''}.arrow"
    if not stored.is_file():
        with progress("reading groups", unit="groups") as advance:
            pairs = _from_pairs(settings.pairs) if settings.pairs else _from_run(settings, url)
            write_rows(_usable(pairs), stored, lambda: advance(1))
    return PairRows(stored)


def _usable(pairs: Iterable[tuple[Pair, str]]) -> Iterator[tuple[Pair, str]]:
    """Pairs with a right text and a wrong one; says on stderr how many lack the latter."""
    lacking = found = 0
    for pair, place in pairs:
        if not f"{pair.positive.title}{pair.positive.text}".strip():
            raise InputError(f"{place}: its right passage is empty", "Leave the pair out.")
        wrong = tuple(c for c in pair.hard_negatives or pair.negatives if f"{c.title}{c.text}".strip())
        if wrong:
            found += 1
            yield Pair(pair.query, pair.positive, hard_negatives=wrong), place
        lacking += not wrong
    if not found:
        raise InputError(
            f"none of {lacking:,} labelled pairs has a wrong passage beside its right one",
            "A re-ranker learns from both: python -m retriever.negatives adds those of a first stage.",
        )
    if lacking:
        print(f"{lacking:,} pairs have no wrong passage and are left out", file=sys.stderr)


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
    for query in queries:
        for right, wrong in judged_groups(run[query], qrels.get(query, {}), data.depth):
            if right in row_of:
                known = [id_ for id_ in (right, *wrong) if id_ in row_of]
                contexts = [_context(candidates.read(row_of[id_]), id_, url) for id_ in known]
                pair = Pair(text_of[query], contexts[0], hard_negatives=tuple(contexts[1:]))
                yield pair, f"{data.run.name}, query {query}"


def _context(candidate: Candidate, id_: str, url: bool) -> Context:
    address = candidate.url + URL_BEFORE_TITLE if url and candidate.url else ""
    return Context(address + candidate.title, candidate.text, id_)


def judged_groups(
    results: Iterable[str], judged: Mapping[str, int], depth: int
) -> Iterator[tuple[str, list[str]]]:
    """Each relevant id of a query beside the results that are not, those of higher relevance first.

    What is not judged is not relevant.
    """
    wrong = [id_ for id_ in islice(results, depth) if judged.get(id_, 0) <= 0]
    for id_ in sorted((id_ for id_, value in judged.items() if value > 0), key=lambda id_: -judged[id_]):
        yield id_, wrong


# --- which queries ---------------------------------------------------------------------------------


def query_numbers(rows: PairRows) -> NDArray[np.int64]:
    """The number of each row's query, int64 [N], in the order in which queries first appear."""
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(text, len(number_of)) for text in rows.queries()], np.int64)


def draw_queries(numbers: NDArray[np.int64], shots: int | None, seed: int) -> NDArray[np.int64]:
    """The places of so many queries' rows, int64 [n] ascending: fewer shots of a seed are a part of more.

    numbers: int64 [N], of each row's query. Raises `InputError` if there are not so many.
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


def fold_split(folds: NDArray[np.int64], held_out: int, count: int) -> Split:
    """One fold is ranked, the next one chooses the checkpoint, the others are trained on.

    folds: int64 [N], of each row.
    """
    dev = (held_out + 1) % count
    train = np.flatnonzero((folds != held_out) & (folds != dev))
    return Split(train, np.flatnonzero(folds == dev))
