"""Re-ranking: the best candidates of a first stage in a new order, by one or several scorers.

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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat, tee
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.encode import OnRows
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.progress import progress
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.models.scoring import IndexScorer, PairScorer
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.explanation import (
    FIRST_STAGE,
    Explanation,
    Part,
    Sentence,
    best_sentence,
    place_of,
    value_of,
)
from linkseek.retriever.search.fusion import stretched
from linkseek.retriever.search.runs import strictly_decreasing
from linkseek.retriever.search.stages import stage

Long = Literal["first", "max"]
"""How a text that is longer than the model is read: its start, or all of it, with the best window's score."""

DEPTH = 100

AnyScorer = PairScorer | IndexScorer
"""Both have an `identity`; the one reads texts, the other looks passages up in the index."""


class RerankingStages(NamedTuple):
    """A query before and after re-ranking. scored: the candidates by each scorer."""

    before: Ranking
    scored: list[Ranking]
    after: Ranking


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
    ) -> None:
        """scorers: 1 or more. depth: candidates of a query that are scored, 1 or more.

        weight: the scorers' weight in a sum with the first stage, from 0 (only the first stage) to 1.
        """
        self.scorers = scorers
        self.depth = depth
        self._candidates = candidates
        self._weight = weight
        self._long = long

    def rerank(
        self, queries: Sequence[Query], ranking: Ranking, on_pairs: OnRows = lambda pairs: None
    ) -> Ranking:
        """The same candidates in a new order, a `Ranking` of the same shape.

        queries: the ranking's, in its order. on_pairs: gets the number of pairs that were scored since
        its last call; the total is candidates to re-rank x scorers. Raises `InputError` for a score that is
        not a finite number, ValueError for other queries.
        """
        if ranking.query_ids != tuple(query.id for query in queries):
            raise ValueError("the ranking has other queries, or another order of them")
        best = ranking.top(self.depth)
        fused = self._fused(best, self._scored(queries, best, on_pairs))
        return in_order(ranking, np.where(best.rows >= 0, fused, -np.inf))

    def _scored(
        self, queries: Sequence[Query], best: Ranking, on_pairs: OnRows = lambda pairs: None
    ) -> list[Ranking]:
        """Candidates with the scores of each scorer, in the order of the first stage."""
        return [
            Ranking(best.query_ids, best.rows, self._scores(scorer, queries, best.rows, on_pairs))
            for scorer in self.scorers
        ]

    def _fused(self, best: Ranking, scored: Sequence[Ranking]) -> NDArray[np.float64]:
        """The new scores [Q, D] of candidates. scored: by each scorer."""
        fused = _mean(scored)
        if self._weight is not None:
            fused = self._weight * self._scaled(best, scored) + (1 - self._weight) * stretched(best)
        return fused

    def _scaled(self, best: Ranking, scored: Sequence[Ranking]) -> NDArray[np.float64]:
        """The scores of all scorers together, scaled to 0..1, [Q, D]."""
        return stretched(Ranking(best.query_ids, best.rows, _mean(scored).astype(np.float32)))

    def explain(self, query: Query, row: int, stages: RerankingStages) -> Explanation | None:
        """What first stage and models add to the score of a passage (`Explain`).

        stages: the stages of this query. The part named "first stage", if there is one, has the rank there.
        """
        place = place_of(stages.after, row)
        if place is None:
            return None
        before = place_of(stages.before, row)
        facts = {"rank": float(before[0]), "score": before[1]} if before else {}
        if place[0] > self.depth and before:
            kept = Part(FIRST_STAGE, before[1], f"only the first {self.depth} are re-ranked", facts)
            return Explanation.of(place, [kept], rest="moved below the re-ranked ones")
        best, weight = stages.before.top(self.depth), self._weight
        raw = [value_of(result.scores, result, row) for result in stages.scored]
        scaled = [value_of(stretched(result), result, row) for result in stages.scored]
        if len(raw) == 1:
            models = [self._model(0, query, row, raw[0], {"score": raw[0]})]
        else:
            models = [
                self._model(n, query, row, scaled[n] / len(raw), {"score": raw[n], "scaled": scaled[n]})
                for n in range(len(raw))
            ]
        if weight is None:
            return Explanation.of(place, models)
        mean, own = sum(part.added for part in models), value_of(stretched(best), best, row)
        scaled_mean = value_of(self._scaled(best, stages.scored), best, row)
        factors = {"scaled": scaled_mean, "weight": weight}
        first = Part(FIRST_STAGE, (1 - weight) * own, "", {**facts, "scaled": own, "weight": 1 - weight})
        if len(models) == 1:
            part = replace(models[0], added=weight * scaled_mean, factors={**models[0].factors, **factors})
        else:
            whole = Explanation(place[0], mean, tuple(models))
            part = Part("mean of the models", weight * scaled_mean, "", factors | {"score": mean}, of=whole)
        return Explanation.of(place, [part, first])

    def shares(self, stages: RerankingStages) -> dict[int, list[float]]:
        """As `Reranking.shares`. stages: the stages of a query."""
        best = stages.before.top(self.depth)
        both = np.stack([self._scaled(best, stages.scored)[0], stretched(best)[0]], axis=1)  # [D, 2]
        return {row: pair for row, pair in zip(best.rows[0].tolist(), both.tolist(), strict=True) if row >= 0}

    def stages(self, query: Query, before: Ranking, k: int) -> RerankingStages:
        """The input of `explain`. before: the ranking of the first stage."""
        after = self.rerank([query], before).top(k)
        return RerankingStages(before, self._scored([query], before.top(self.depth)), after)

    def _model(self, number: int, query: Query, row: int, added: float, factors: dict[str, float]) -> Part:
        scorer, of = self.scorers[number], None
        if isinstance(scorer, IndexScorer) and (
            parts := scorer.explain(query, self._candidates.index_row(row))
        ):
            of = Explanation.of((1, sum(part.added for part in parts)), parts)
        name = str(scorer.identity["name"])
        return Part(name, added, "", factors, self._best_sentence(scorer, query.text, row), of)

    def _best_sentence(self, scorer: AnyScorer, question: str, row: int) -> Sentence | None:
        """The sentence that a model scores best below the passage's title; None for scores of words."""
        if isinstance(scorer, IndexScorer):
            return None
        candidate, form = self._candidates.read(row), scorer.text_format
        head, text = form.head(candidate), form.query(question)
        return best_sentence(
            candidate.text, lambda some: scorer.score(repeat(text, len(some)), [head + one for one in some])
        )

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
        if isinstance(scorer, IndexScorer):
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
        self._explained: tuple[tuple[Query, int], RerankingStages] | None = None

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best of each query, out of the first stage's best `depth`, or k if that is more."""
        return self.rerank(queries, self.first(queries, max(k, self.depth)), k)

    def rerank(self, queries: Sequence[Query], ranking: Ranking, k: int) -> Ranking:
        """The k best of the first stage's ranking, which should be `depth` deep, or k if that is more."""
        with stage("rerank"):
            return self._reranker(queries, ranking).top(k)

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """As `Reranker.explain`; the stages of the last query are kept, for its other passages."""
        return self._reranker.explain(query, row, self._stages(query, k))

    def shares(self, query: Query, k: int) -> dict[int, list[float]]:
        """Passage row -> its scaled scores by the model and the first stage, for re-ranked passages."""
        return self._reranker.shares(self._stages(query, k))

    def _stages(self, query: Query, k: int) -> RerankingStages:
        kept, key = self._explained, (query, k)
        if kept is None or kept[0] != key:
            before = self.first([query], max(k, self.depth))
            kept = self._explained = key, self._reranker.stages(query, before, k)
        return kept[1]


def _mean(scored: Sequence[Ranking]) -> NDArray[np.float64]:
    """The scores of one scorer, or the mean of the scaled scores of several, [Q, D]."""
    if len(scored) == 1:
        return scored[0].scores.astype(np.float64)
    return np.asarray(np.mean([stretched(result) for result in scored], axis=0))


def in_order(ranking: Ranking, scores: NDArray[np.float64]) -> Ranking:
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
