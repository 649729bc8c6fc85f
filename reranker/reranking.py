"""Re-ranking: the best candidates of a first stage in a new order, that of one or several scorers.

The `depth` best of each query are scored and sorted; those below follow in the order of the first stage,
which also decides ties. The scores of the result strictly decrease, so that no tool sorts it differently:
ties are lowered by the least that a float32 allows, and below `depth` a score is the first stage's, shifted
to follow the last re-ranked one.

    one scorer, no weight    its scores
    several                  the mean of their scores, each scaled to 0..1 for each query (an ensemble, as in
                             HARP's table 3, which does not say how its own was joined)
    a weight w               w x that, scaled to 0..1, + (1 - w) x the first stage's scores, scaled to 0..1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat, tee
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.base.progress import progress
from linkseek.indexer.encoding.encode import OnRows
from linkseek.reranker.adaptive import score_adaptively
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.models.lexical import LexicalScorer
from linkseek.reranker.models.scoring import PairScorer
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.fusion import stretched
from linkseek.retriever.search.runs import strictly_decreasing
from linkseek.retriever.search.stages import stage

Long = Literal["first", "max"]
"""How a text that is longer than the model is read: its start, or all of it, with the best window's score."""

DEPTH = 100

AnyScorer = PairScorer | LexicalScorer
"""Both have an `identity`; the one reads texts, the other looks passages up in the index."""


class Reranker:
    """Scores the candidates of a ranking and sorts them."""

    def __init__(
        self,
        scorers: Sequence[AnyScorer],
        candidates: Candidates,
        *,
        depth: int = DEPTH,
        weight: float | None = None,
        long: Long = "max",
        neighbours: Callable[[int], Sequence[int]] | None = None,
    ) -> None:
        """scorers: 1 or more. depth: candidates of a query that are scored, 1 or more.

        weight: of the scorers in a sum with the first stage, from 0 (the first stage alone) to 1. neighbours:
        of a candidate, which join the candidates while they are scored; for one scorer, without weight.
        """
        self.scorers = scorers
        self.depth = depth
        self._candidates = candidates
        self._weight = weight
        self._long = long
        self._neighbours = neighbours

    def rerank(
        self, queries: Sequence[Query], ranking: Ranking, on_pairs: OnRows = lambda pairs: None
    ) -> Ranking:
        """The same candidates in a new order, a `Ranking` of the same shape; or neighbours among them.

        queries: those of the ranking, in its order. on_pairs: gets the number of pairs that were scored since
        its last call; the total is candidates to re-rank x scorers. Raises `InputError` for a score that is
        not a finite number, ValueError for other queries.
        """
        if ranking.query_ids != tuple(query.id for query in queries):
            raise ValueError("the ranking has other queries, or another order of them")
        if self._neighbours is not None:
            [scorer] = self.scorers
            score = partial(self._scores, scorer, queries, on_pairs=on_pairs)
            rows, scores = score_adaptively(ranking, score, self._neighbours, self.depth)
            if rows.shape[1] == 0:  # no query has candidates
                return ranking
            return _in_order(_followed(ranking, rows), np.where(rows >= 0, scores, -np.inf))
        best = ranking.top(self.depth)
        scored = [
            Ranking(best.query_ids, best.rows, self._scores(scorer, queries, best.rows, on_pairs))
            for scorer in self.scorers
        ]
        fused = scored[0].scores.astype(np.float64)  # [Q, D]
        if len(scored) > 1:
            fused = np.mean([stretched(one) for one in scored], axis=0)
        if self._weight is not None:
            of_scorers = stretched(Ranking(best.query_ids, best.rows, fused.astype(np.float32)))
            fused = self._weight * of_scorers + (1 - self._weight) * stretched(best)
        return _in_order(ranking, np.where(best.rows >= 0, fused, -np.inf))

    def __call__(self, queries: Sequence[Query], ranking: Ranking) -> Ranking:
        """As `rerank`, with a progress bar unless there is one query alone."""
        if len(queries) == 1:
            return self.rerank(queries, ranking)
        with progress("re-ranking", self.pairs(ranking), "pairs") as advance:  # may take minutes
            return self.rerank(queries, ranking, advance)

    def pairs(self, ranking: Ranking) -> int:
        """The number of pairs that `rerank` scores."""
        return int((ranking.top(self.depth).rows >= 0).sum()) * len(self.scorers)

    def _scores(
        self, scorer: AnyScorer, queries: Sequence[Query], rows: NDArray[np.int64], on_pairs: OnRows
    ) -> NDArray[np.float32]:
        """Scores [Q, D] of candidates by their rows [Q, D]; 0 in empty places."""
        if isinstance(scorer, LexicalScorer):
            return scorer.scores(queries, self._candidates, rows, on_pairs)
        starts: list[int] = []  # the first window of each candidate
        windows = 0

        def pairs() -> Iterator[tuple[str, str]]:
            nonlocal windows
            for query, rows_of_query in zip(queries, rows, strict=True):
                text = scorer.text_format.query(query.text)
                for row in rows_of_query[rows_of_query >= 0].tolist():
                    candidate = self._candidates.read(row)
                    head = scorer.text_format.head(candidate)
                    texts = [head + candidate.text]
                    if self._long == "max":
                        texts = scorer.windows(text, head, candidate.text)
                    starts.append(windows)
                    windows += len(texts)
                    yield from zip(repeat(text), texts)

        def on_windows(done: float) -> None:
            on_pairs(done * len(starts) / windows)

        first, second = tee(pairs())
        by_window = scorer.score((query for query, _ in first), (text for _, text in second), on_windows)
        scores = np.zeros(rows.shape, np.float32)  # [Q, D]
        if starts:
            scores[rows >= 0] = np.maximum.reduceat(by_window, starts)
        not_finite = np.argwhere(~np.isfinite(scores))
        if len(not_finite):
            query, place = not_finite[0]
            candidate = self._candidates.id(int(rows[query, place]))
            raise InputError(
                f'{scorer.identity["name"]}: the score of query "{queries[query].id}" with "{candidate}" is '
                f"{scores[query, place]} ({len(not_finite):,} such scores)",
                "The model's weights are damaged or overflow. Use another, or train it again.",
            )
        return scores


class Reranking:
    """A pipeline of two stages, which can also be run one after the other: `first`, then `rerank`."""

    def __init__(self, first: Pipeline, reranker: Reranker) -> None:
        self.first = first
        self.depth = reranker.depth
        self._reranker = reranker

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best of each query, out of the first stage's best `depth`, or k if that is more."""
        return self.rerank(queries, self.first(queries, max(k, self.depth)), k)

    def rerank(self, queries: Sequence[Query], ranking: Ranking, k: int) -> Ranking:
        """The k best of the first stage's ranking, which should be `depth` deep, or k if that is more."""
        with stage("rerank"):
            return self._reranker(queries, ranking).top(k)


def _followed(ranking: Ranking, rows: NDArray[np.int64]) -> Ranking:
    """Candidates [Q, n], and after them those of a ranking [Q, k] that are not among them: [Q, max(n, k)].

    The scores of the first n are 0. Wherever one of the first n places is empty, nothing follows.
    """
    filled = np.full((len(rows), max(rows.shape[1], ranking.depth)), -1)
    scores = np.full(filled.shape, -np.inf, np.float32)
    for place, (of_query, following) in enumerate(zip(rows, ranking.rows, strict=True)):
        kept = (following >= 0) & ~np.isin(following, of_query)
        count = min(int(kept.sum()), filled.shape[1] - rows.shape[1])
        after = slice(rows.shape[1], rows.shape[1] + count)
        filled[place, : rows.shape[1]], filled[place, after] = of_query, following[kept][:count]
        scores[place, : rows.shape[1]], scores[place, after] = 0, ranking.scores[place][kept][:count]
    return Ranking(ranking.query_ids, filled, scores, ranking.paths)


def _in_order(ranking: Ranking, scores: NDArray[np.float64]) -> Ranking:
    """A ranking [Q, k] with its first D columns sorted by new scores [Q, D]; -inf in empty places."""
    depth = scores.shape[1]
    order = np.argsort(-scores, axis=1, kind="stable")  # [Q, D]
    rows, below = ranking.rows.copy(), ranking.scores[:, depth:].astype(np.float64)  # [Q, k], [Q, k - D]
    rows[:, :depth] = np.take_along_axis(rows[:, :depth], order, axis=1)
    best = np.take_along_axis(scores, order, axis=1)  # [Q, D]
    if below.shape[1]:
        filled = rows[:, depth:] >= 0  # [Q, k - D]
        shift = np.where(filled[:, :1], best[:, -1:] - np.where(filled, below, 0.0)[:, :1], 0.0)  # [Q, 1]
        below = np.where(filled, below, 0.0) + shift
    joined = np.clip(np.concatenate([best, below], axis=1), -3e38, 3e38)  # [Q, k]
    decreasing = strictly_decreasing(joined.astype(np.float32))
    kept = np.where(rows >= 0, decreasing, np.float32(-np.inf))  # [Q, k]
    return Ranking(ranking.query_ids, rows, kept, ranking.paths)
