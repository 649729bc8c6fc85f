"""Runs and judgements from files in the numbers of an index: rows of passages or of documents.

A test set judges passages or whole documents, and a foreign run ranks the one or the other; the ids
decide which. Ids that the index does not hold keep their place: an unknown passage in a run takes
up its rank, an unknown relevant document stays missing in the recall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError
from indexer.passages import Passage
from indexer.store.ids import hash_ids
from retriever.ranking import Ranking
from retriever.search.runs import run_ranking

Level = Literal["passages", "documents"]

FIRST_UNKNOWN = 1 << 40
"""Numbers from here on stand for ids that the index does not hold."""


class Passages(Protocol):
    """What is needed of `indexer.passages.PassageStore`."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Passage: ...

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """Passage ids of rows."""

    def rows_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Rows of passage ids, int64 [n], -1 for an unknown id."""

    def document_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of the documents of passages, int64 of the same shape."""


class DocumentIds(Protocol):
    """What is needed of `indexer.store.ids.IdTable`."""

    def rows(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The rows of document ids by their hashes, int32 [n]; -1 for unknown ones."""


@dataclass(frozen=True, slots=True)
class Judgements:
    """Query id -> number -> relevance. unknown: how many judged ids the index does not hold."""

    level: Level
    relevance: dict[str, dict[int, int]]
    unknown: int


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run from a file. unknown: how many of its ids the index does not hold."""

    level: Level
    ranking: Ranking
    unknown: int


class Numbers:
    """Ids of one index as numbers. The same unknown id always gets the same number."""

    def __init__(self, passages: Passages, document_ids: DocumentIds) -> None:
        self._passages = passages
        self._document_ids = document_ids
        self._unknown: dict[str, int] = {}

    def judgements(
        self, qrels: Mapping[str, Mapping[str, int]], query_ids: Sequence[str], name: str
    ) -> Judgements:
        """The judgements of these queries.

        Raises `InputError` if there are none, or none of the judged ids is in the index.
        """
        judged = [query for query in query_ids if query in qrels]
        if not judged:
            raise InputError(
                f"{name}: no judgement for any of the questions (it judges {_first(qrels)}; the "
                f"questions are {_first(query_ids)})",
                "Give the judgements that belong to the questions.",
            )
        ids = list(dict.fromkeys(id_ for query in judged for id_ in qrels[query]))
        level, numbers = self._resolve(ids, f"{name}: none of the judged ids is in the index")
        number_of = dict(zip(ids, numbers.tolist(), strict=True))
        relevance: dict[str, dict[int, int]] = {}
        for query in judged:
            values = relevance.setdefault(query, {})
            for id_, value in qrels[query].items():  # several ids (redirects) may be one document
                values[number_of[id_]] = max(value, values.get(number_of[id_], value))
        return Judgements(level, relevance, int((numbers >= FIRST_UNKNOWN).sum()))

    def run(
        self,
        run: Mapping[str, Mapping[str, float]],
        query_ids: Sequence[str],
        depth: int,
        name: str,
    ) -> ForeignRun:
        """The first `depth` results of these queries.

        Raises `InputError` if the run has none of the queries, or none of its ids is in the index.
        """
        present = [query for query in query_ids if query in run]
        if not present:
            raise InputError(
                f"{name}: the run has none of the questions (it has {_first(run)}; the "
                f"questions are {_first(query_ids)})",
                "Give a run of the same questions.",
            )
        ids = list(dict.fromkeys(id_ for query in present for id_ in run[query]))
        level, numbers = self._resolve(ids, f"{name}: none of the run's ids is in the index")
        number_of = dict(zip(ids, numbers.tolist(), strict=True))
        longest = max(len(run[query]) for query in present)
        ranking = run_ranking(
            run,
            query_ids,
            lambda ids: np.array([number_of[i] for i in ids], np.int64),
            min(depth, longest),
        )
        return ForeignRun(level, ranking, int((numbers >= FIRST_UNKNOWN).sum()))

    def _resolve(self, ids: list[str], nothing: str) -> tuple[Level, NDArray[np.int64]]:
        """Which of the two these ids are, and their numbers, int64 [n]."""
        rows = self._passages.rows_of(ids)  # [n]
        documents = self._document_ids.rows(hash_ids(ids)).astype(np.int64)  # [n]
        as_passages, as_documents = int((rows >= 0).sum()), int((documents >= 0).sum())
        if not as_passages and not as_documents:
            few = self._passages.ids(np.arange(min(3, len(self._passages))))
            raise InputError(
                f"{nothing} (the file has {_first(ids)}; the index has {_first(few)})",
                "Give the file that belongs to this index. White space and % in ids must be "
                "percent-encoded (%20, %25).",
            )
        level: Level = "passages" if as_passages >= as_documents else "documents"
        numbers = rows if level == "passages" else documents
        for place in np.flatnonzero(numbers < 0).tolist():
            next_number = FIRST_UNKNOWN + len(self._unknown)
            numbers[place] = self._unknown.setdefault(ids[place], next_number)
        return level, numbers


def relevant_results(ranking: Ranking, relevance: Mapping[str, Mapping[int, int]]) -> NDArray[np.bool_]:
    """Which results are relevant, bool [Q, k]; one that stands there twice, only at its better rank.

    relevance: query id -> number -> relevance, in the numbers of the ranking's rows; relevant is 1 and
    above.
    """
    found = np.zeros(ranking.rows.shape, np.bool_)  # [Q, k]
    for query, query_id in enumerate(ranking.query_ids):
        wanted = {number for number, value in relevance.get(query_id, {}).items() if value > 0}
        if not wanted:
            continue
        for rank, row in enumerate(ranking.rows[query].tolist()):
            if row in wanted:
                found[query, rank] = True
                wanted.remove(row)
    return found


def document_numbers(rows: NDArray[np.int64], passages: Passages) -> NDArray[np.int64]:
    """The documents of passages, int64 of the same shape; what is no row of a passage stays as it is."""
    known = (rows >= 0) & (rows < len(passages))
    return np.where(known, passages.document_rows(np.clip(rows, 0, len(passages) - 1)), rows)


def to_documents(ranking: Ranking, passages: Passages) -> Ranking:
    """A ranking of passages as one of documents: each stands where its best passage stood."""
    documents = document_numbers(ranking.rows, passages)  # [Q, k]
    by_document = np.argsort(documents, axis=1, kind="stable")  # [Q, k], best passage first
    ordered = np.take_along_axis(documents, by_document, axis=1)  # [Q, k]
    first = np.ones(documents.shape, np.bool_)  # [Q, k], in the order of by_document
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    best = np.empty_like(first)  # [Q, k], in the order of ranks
    np.put_along_axis(best, by_document, first, axis=1)
    best &= documents >= 0
    kept = np.argsort(~best, axis=1, kind="stable")  # [Q, k], the best ones to the left
    nothing = ~np.take_along_axis(best, kept, axis=1)  # [Q, k]
    documents = np.take_along_axis(documents, kept, axis=1)
    scores = np.take_along_axis(ranking.scores, kept, axis=1)
    documents[nothing], scores[nothing] = -1, -np.inf
    return Ranking(ranking.query_ids, documents, scores)


def _first(ids: Mapping[str, object] | Sequence[str]) -> str:
    few = [f'"{id_}"' for _, id_ in zip(range(3), ids, strict=False)]
    return ", ".join(few) + (", ..." if len(ids) > len(few) else "")
