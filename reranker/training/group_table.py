"""Groups from labelled pairs, or from a run with judgements, as a table that training reads in any order.

A group is a pair of `retriever.mining.pairs`: a query, its relevant text, and as hard negatives others that a
first stage ranks high, the best-ranked first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from linkseek.indexer.files.hashes import combined_sha256, file_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.tables import Row
from linkseek.reranker.pair_texts import UrlPlace
from linkseek.reranker.training.config import GroupSettings
from linkseek.reranker.training.run_groups import RowGroup, RunGroupTable, run_groups
from linkseek.retriever.mining.pairs import Pair, PairContext, read_pairs
from linkseek.retriever.training.lifecycle import existing
from linkseek.retriever.training.samples.sample_table import PairTable

T = TypeVar("T")

GroupTable = PairTable | RunGroupTable

Group = tuple[str, T, Sequence[T], str]
"""A query, its relevant text, others, and a place for messages; a text is a `PairContext` or a row."""


def data_sha256(settings: GroupSettings) -> str:
    """One hash of all data; of an index, the hash of its passages. Raises `InputError` for a missing file."""
    files = [path for path in (settings.run, settings.queries, settings.qrels) if path is not None]
    hashes = [file_sha256(path) for path in existing([*settings.pairs, *files])]
    if settings.index is not None:
        hashes.append(str(OpenIndex.open(settings.index).parts.passages.to_json()["fingerprint"]))
    return combined_sha256(hashes)


def open_groups(settings: GroupSettings, url: UrlPlace, folder: Path, sha256: str) -> GroupTable:
    """The groups of all queries as a table in the folder, written if it is missing.

    url: whether and where a document's address is read. sha256: of the data. Raises `InputError` naming file
    and pair for an invalid pair and for one whose relevant text is empty, and if no query has a negative.
    """
    if settings.pairs:
        stored = folder / f"groups-{sha256[:16]}.arrow"
        return PairTable.open(stored, _pairs(settings.pairs), "groups")
    assert settings.index
    index = OpenIndex.open(settings.index)
    stored = folder / f"groups-{sha256[:16]}-{settings.depth}-rows.arrow"
    table = RunGroupTable.open(stored, _run_rows(settings, index), "groups")
    table.read_from(index, url)
    return table


def _pairs(paths: Sequence[Path]) -> Iterator[tuple[Pair, Row]]:
    read = (
        (pair.query, pair.positive, _others(pair), f"{path.name}, pair {number:,}")
        for path in paths
        for number, pair in enumerate(read_pairs(path), start=1)
    )
    for query, positive, negatives, place in _usable(read, _is_blank):
        yield Pair(query, positive, hard_negatives=tuple(negatives)), {"place": place}


def _others(pair: Pair) -> list[PairContext]:
    """The negatives that are read, without copies of the relevant passage."""
    relevant = pair.positive.title, pair.positive.text
    return [c for c in pair.hard_negatives or pair.negatives if (c.title, c.text) != relevant]


def _run_rows(settings: GroupSettings, index: OpenIndex) -> Iterator[tuple[RowGroup, Row]]:
    texts, groups = run_groups(settings, index)
    are_documents = texts.candidates.level == "documents"
    is_blank = cache(lambda row: _is_blank(texts(row)))
    for query, positive, negatives, place in _usable(_with_text(groups, is_blank), is_blank):
        yield RowGroup(query, are_documents, positive, tuple(negatives)), {"place": place}


def _is_blank(context: PairContext) -> bool:
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
            "A re-ranker learns from both: linkseek negatives adds hard negatives.",
        )
    if lacking:
        print(f"{lacking:,} pairs without a passage that is not relevant are skipped", file=sys.stderr)
