"""Runs and judgements from files, in the numbers of an index: rows of passages or of documents.

A test set judges passages or whole documents, and the run of another system ranks either; the ids decide
which. Ids that the index does not contain keep their place: an unknown passage in a run takes up its rank, an
unknown relevant document stays missing in the recall.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.index import Level, OpenIndex
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.ranking import Ranking
from linkseek.retriever.search.runs import check_questions, resolve_columns, run_ranking

FIRST_UNKNOWN = 1 << 40
"""Numbers from here on stand for ids that the index does not contain."""


class Judgements(NamedTuple):
    """Query id -> number -> relevance. ids: how many are judged; unknown: of these, not in the index."""

    level: Level
    relevance: dict[str, dict[int, int]]
    unknown: int
    ids: int = 0


class ForeignRun(NamedTuple):
    """A run from a file.

    ranking: as deep as the evaluation; whole: all results, None if there are no more. ids: how many it ranks;
    unknown: of these, not in the index. queries: all of its query ids; present: of these, how many are
    questions.
    """

    level: Level
    ranking: Ranking
    whole: Ranking | None
    unknown: int
    ids: int
    queries: tuple[str, ...]
    present: int


class JudgedNumbers:
    """Ids of one index as numbers. The same unknown id always gets the same number."""

    def __init__(self, index: OpenIndex) -> None:
        self._index = index
        self._unknown: dict[str, int] = {}

    def judgements(
        self, qrels: Mapping[str, Mapping[str, int]], query_ids: Sequence[str], name: str
    ) -> Judgements:
        """The judgements of these queries.

        Raises `InputError` if no query has a judgement, or no judged id is in the index.
        """
        judged = [query for query in query_ids if query in qrels]
        if not judged:
            raise InputError(
                f"{name}: no judgement for any of the questions (it judges {first_ids(qrels)}; the "
                f"questions are {first_ids(query_ids)})",
                "Give the judgements that belong to the questions.",
            )
        ids = list(dict.fromkeys(id_ for query in judged for id_ in qrels[query]))
        level, number_of, unknown = self._resolve(ids, f"{name}: none of the judged ids is in the index")
        relevance: dict[str, dict[int, int]] = {}
        for query in judged:
            values = relevance.setdefault(query, {})
            for id_, value in qrels[query].items():  # several ids (redirects) may be one document
                values[number_of[id_]] = max(value, values.get(number_of[id_], value))
        return Judgements(level, relevance, unknown, len(ids))

    def run(
        self, run: Mapping[str, Mapping[str, float]], query_ids: Sequence[str], depth: int, name: str
    ) -> ForeignRun:
        """The results of these queries.

        Raises `InputError` if the run has none of the queries, or none of its ids is in the index.
        """
        check_questions(run, query_ids, name)
        present = [query for query in query_ids if query in run]
        ids = list(dict.fromkeys(id_ for query in present for id_ in run[query]))
        level, number_of, unknown = self._resolve(ids, f"{name}: none of the run's ids is in the index")
        longest = max(len(run[query]) for query in present)

        def ranking(k: int) -> Ranking:
            return run_ranking(run, query_ids, lambda ids: np.array([number_of[i] for i in ids], np.int64), k)

        whole = ranking(longest) if longest > depth else None
        first = ranking(min(depth, longest))
        return ForeignRun(level, first, whole, unknown, len(ids), tuple(run), len(present))

    def _resolve(self, ids: list[str], nothing: str) -> tuple[Level, dict[str, int], int]:
        """The level of these ids, their numbers by id, and how many the index does not contain.

        nothing: the message of the `InputError` if it contains none of them.
        """
        resolved = resolve_columns(self._index, ids)
        rows = resolved.rows.tolist()
        unknown = [id_ for id_, row in zip(ids, rows, strict=True) if row < 0]
        if len(unknown) == len(ids):
            few = self._index.passages.ids(np.arange(min(3, len(self._index.passages))))
            raise InputError(
                f"{nothing} (the file has {first_ids(ids)}; the index has {first_ids(few)})",
                "Give what belongs to this index. In files, white space and % in ids are percent-encoded "
                "(%20, %25).",
            )
        for id_ in unknown:
            self._unknown.setdefault(id_, FIRST_UNKNOWN + len(self._unknown))
        number_of = {id_: self._unknown[id_] if row < 0 else row for id_, row in zip(ids, rows, strict=True)}
        return resolved.level, number_of, len(unknown)


def relevant_results(ranking: Ranking, relevance: Mapping[str, Mapping[int, int]]) -> NDArray[np.bool_]:
    """Which results are relevant, bool [Q, k]; a result that occurs twice, only at its better rank.

    relevance: query id -> number -> relevance, in the numbers of the ranking's rows; relevant is 1 and
    above.
    """
    relevant = np.zeros(ranking.rows.shape, np.bool_)  # [Q, k]
    for query, query_id in enumerate(ranking.query_ids):
        unseen = {number for number, value in relevance.get(query_id, {}).items() if value > 0}
        if not unseen:
            continue
        for rank, row in enumerate(ranking.rows[query].tolist()):
            if row in unseen:
                relevant[query, rank] = True
                unseen.remove(row)
    return relevant


def document_numbers(rows: NDArray[np.int64], passages: PassageStore) -> NDArray[np.int64]:
    """The documents of passages, int64 of the same shape; numbers that are no row of a passage stay."""
    known = (rows >= 0) & (rows < len(passages))
    return np.where(known, passages.document_rows(np.clip(rows, 0, len(passages) - 1)), rows)


def to_documents(ranking: Ranking, passages: PassageStore) -> Ranking:
    """A ranking of passages as one of documents: each has the rank order and score of its best passage."""
    documents = document_numbers(ranking.rows, passages)  # [Q, k]
    by_document = np.argsort(documents, axis=1, kind="stable")  # [Q, k], best passage first
    ordered = np.take_along_axis(documents, by_document, axis=1)  # [Q, k]
    first = np.ones(documents.shape, np.bool_)  # [Q, k], in the order of by_document
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    best = np.empty_like(first)  # [Q, k], in the order of ranks
    np.put_along_axis(best, by_document, first, axis=1)
    best &= documents >= 0
    to_left = np.argsort(~best, axis=1, kind="stable")  # [Q, k]
    nothing = ~np.take_along_axis(best, to_left, axis=1)  # [Q, k]
    documents = np.take_along_axis(documents, to_left, axis=1)
    scores = np.take_along_axis(ranking.scores, to_left, axis=1)
    documents[nothing], scores[nothing] = -1, -np.inf
    return Ranking(ranking.query_ids, documents, scores)


def first_ids(ids: Mapping[str, object] | Sequence[str]) -> str:
    """The first three ids, for messages."""
    few = [f'"{id_}"' for _, id_ in zip(range(3), ids, strict=False)]
    return ", ".join(few or ["none"]) + (", ..." if len(ids) > len(few) else "")
