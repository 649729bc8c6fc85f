"""Adaptive re-ranking (MacAvaney et al. 2022): neighbours of good candidates join them, in the same budget.

A first stage is limited to what it finds, and a re-ranker to that. Here it scores in turns the next
candidates of the first stage, and the neighbours of the best that it has scored so far (algorithm 1 of the
paper), until it has scored as many as without them.

Symbols: Q queries, n candidates of a query that are scored, b in a turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.ranking import Ranking

_TURNS = 8
"""Turns that the budget is spent in: at 100 candidates, 13 at a time (16 in the paper)."""


def score_adaptively(
    ranking: Ranking,
    score: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    neighbours: Callable[[int], Sequence[int]],
    budget: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The candidates that were scored, and their scores: (int64 [Q, n], float32 [Q, n]), -1 in empty places.

    score: of candidates [Q, b], with -1 in empty places. neighbours: of a candidate, the nearest first.
    budget: the largest n.
    """
    queries = [_Scored(rows[rows >= 0].tolist(), neighbours, budget) for rows in ranking.rows]
    for turn in count():
        chosen = [query.next(-(-budget // _TURNS), from_frontier=turn % 2 == 1) for query in queries]
        width = max(map(len, chosen), default=0)
        if width == 0:
            break
        rows = _padded(chosen, width, -1, np.int64)
        scores = score(rows)
        for query, of_query, values in zip(queries, chosen, scores, strict=True):
            query.add(of_query, values[: len(of_query)].tolist())
    width = max((len(query.scores) for query in queries), default=0)
    rows = _padded([list(query.scores) for query in queries], width, -1, np.int64)
    return rows, _padded([list(query.scores.values()) for query in queries], width, 0, np.float32)


class _Scored:
    """One query: its scored candidates, and the next ones to score."""

    def __init__(self, rows: list[int], neighbours: Callable[[int], Sequence[int]], budget: int) -> None:
        self.scores: dict[int, float] = {}
        self._first, self._neighbours, self._budget = deque(rows), neighbours, budget
        self._frontier: dict[int, float] = {}
        """neighbours that are not scored, with the best score of a candidate that they are neighbours of"""

    def next(self, most: int, *, from_frontier: bool) -> list[int]:
        """Up to `most` candidates of the frontier, topped up from the first stage, or of the latter."""
        most = min(most, self._budget - len(self.scores))
        chosen: list[int] = []
        if from_frontier or not self._first:
            chosen = sorted(self._frontier, key=lambda row: -self._frontier[row])[:most]
        while self._first and len(chosen) < most:
            row = self._first.popleft()
            if row not in self.scores and row not in chosen:
                chosen.append(row)
        return chosen

    def add(self, rows: Sequence[int], scores: Sequence[float]) -> None:
        """Scores of candidates that `next` has given."""
        self.scores.update(zip(rows, scores, strict=True))
        for row in rows:
            self._frontier.pop(row, None)
        for row, score in zip(rows, scores, strict=True):
            for neighbour in self._neighbours(row):
                if neighbour not in self.scores:
                    self._frontier[neighbour] = max(score, self._frontier.get(neighbour, score))


def _padded(lists: Sequence[Sequence[float]], width: int, value: float, kind: type[Any]) -> NDArray[Any]:
    padded = np.full((len(lists), width), value, kind)
    for row, of_row in zip(padded, lists, strict=True):
        row[: len(of_row)] = of_row
    return padded
