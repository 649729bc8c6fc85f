"""The one record that flows from searchers through fusion and re-ranking to measures and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

MAX_QUESTION_CHARACTERS = 10_000
"""Several times the limit of any encoder; a longer text was pasted by mistake."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question. `answers` are short texts, one of which a relevant passage contains; empty if unknown."""

    id: str
    text: str
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One step from passage to passage: the row of the passage that it leaves, and the link it follows.

    link: its number in the index's link graph; -1 for a step to a passage that BM25 finds similar.
    """

    source: int
    link: int = -1


Paths = Mapping[int, tuple[Step, ...]]
"""The steps that led to passages of one query, first step first, by the passage's row; others have none."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best passages of Q queries, best first.

    rows: int64 [Q, k], passage rows; -1 where there is nothing (only at a row's end).
    scores: float32 [Q, k], higher is better, -inf where there is nothing; equal scores are in
    ascending order of rows.
    paths: how passages were reached, for each query; () if the pipeline follows no links.
    """

    query_ids: tuple[str, ...]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    paths: tuple[Paths, ...] = ()

    @classmethod
    def of(
        cls,
        query_ids: Sequence[str],
        rows: NDArray[np.integer],
        scores: NDArray[np.floating],
        k: int | None = None,
        paths: tuple[Paths, ...] = (),
    ) -> Ranking:
        """Make a ranking from unsorted results [Q, m]: sorted, ties by row, cut to k columns.

        A row of -1 or a score that is not a number counts as nothing.
        """
        nothing = (rows < 0) | np.isnan(scores)  # [Q, m]
        all_rows = np.where(nothing, -1, rows).astype(np.int64)  # [Q, m]
        all_scores = np.where(nothing, -np.inf, scores).astype(np.float32)  # [Q, m]
        order = np.lexsort((all_rows, -all_scores, nothing), axis=1)[:, :k]  # [Q, k]
        best_rows = np.take_along_axis(all_rows, order, axis=1)
        return cls(tuple(query_ids), best_rows, np.take_along_axis(all_scores, order, axis=1), paths)

    @classmethod
    def of_candidates(
        cls,
        query_ids: Sequence[str],
        found: Sequence[tuple[Any, Any]],
        k: int,
        paths: tuple[Paths, ...] = (),
    ) -> Ranking:
        """Make a ranking from the rows and the scores of each query's candidates, [n] each, however many."""
        width = max(k, *(len(rows) for rows, _ in found), 0)
        rows = np.full((len(found), width), -1)  # [Q, m]
        scores = np.full((len(found), width), -np.inf)  # [Q, m]
        for number, (own, values) in enumerate(found):
            rows[number, : len(own)], scores[number, : len(own)] = own, values
        return cls.of(query_ids, rows, scores, k, paths)

    @property
    def depth(self) -> int:
        """k, the number of columns."""
        return int(self.rows.shape[1])

    def top(self, k: int) -> Ranking:
        """The first k columns."""
        return Ranking(self.query_ids, self.rows[:, :k], self.scores[:, :k], self.paths)

    def query(self, number: int) -> Ranking:
        """One of the queries."""
        return self.block(number, 1)

    def block(self, start: int, size: int) -> Ranking:
        """`size` queries from number `start` on."""
        some = slice(start, start + size)
        return Ranking(self.query_ids[some], self.rows[some], self.scores[some], self.paths[some])

    def path(self, query: int, row: int) -> tuple[Step, ...]:
        """The steps that led to a passage; () for one that the first stage returned."""
        return self.paths[query].get(row, ()) if self.paths else ()

    def results(self, query: int) -> list[tuple[int, float]]:
        """(row, score) of one query, best first, without the empty places."""
        mask = self.rows[query] >= 0
        rows, scores = self.rows[query][mask], self.scores[query][mask]
        return list(zip(rows.tolist(), scores.tolist(), strict=True))


class Pipeline(Protocol):
    """A function from questions to the best passages of each."""

    def __call__(self, queries: Sequence[Query], k: int, /) -> Ranking:
        """Q queries, k -> a `Ranking` of these queries in their order, with at most k columns."""
