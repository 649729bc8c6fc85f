"""Adaptive re-ranking (MacAvaney et al. 2022): neighbours of good candidates join them, in the same budget.

A first stage is limited to what it finds, and a re-ranker to that. Here it scores in turns the next
candidates of the first stage, and the neighbours of the best that it has scored so far (algorithm 1 of the
paper), until it has scored as many as without them.

Symbols: Q queries, n candidates of a query that are scored, b in a turn.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.pipelines.controls import OF_PASSAGE, similar_passages
from linkseek.app.pipelines.pipeline_kinds import RerankEntry
from linkseek.indexer.encoding.encode import OnRows
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.plugins import PipelineParts
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.reranking import DEPTH, AnyScorer, Long, Reranker, RerankingStages, in_order
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import Explanation, place_of

_INCOMING = 1_000  # links to an article that are read: some have hundreds of thousands
_KEPT = 1 << 17  # passages whose neighbours are remembered
_TURNS = 8
"""Turns that the budget is spent in: at 100 candidates, 13 at a time (16 in the paper)."""


class AdaptiveEntry(RerankEntry):
    """Re-ranks with one model the best results of another pipeline, and their neighbours."""

    chosen_by = ("neighbours", "GRAPH")
    neighbours: Literal["links", "bm25"]
    """passages that `links` connect with good candidates join them, in the place of the last of the `depth`;
    as a control, similar passages by `bm25`"""

    @property
    def reads_links(self) -> bool:
        return self.neighbours == "links"

    def describe(self, index: OpenIndex) -> str:
        joined = {"links": "with passages linked to them", "bm25": "with passages like them"}
        return f"{super().describe(index)}, {joined[self.neighbours]}"

    def reranker(self, parts: PipelineParts, name: str) -> Reranker:
        if len(self.rerank) > 1 or self.weight is not None:
            problem = f"[{name}]: neighbours with {'weight' if len(self.rerank) == 1 else 'several models'}"
            raise UsageError(problem, "Neighbours have no scores of the first stage: give one model alone.")
        scorer = parts.scorer(self.rerank[0], self.device, self.precision)
        near = passage_neighbours(parts.index, self.neighbours)
        return AdaptiveReranker(scorer, Candidates(parts.index), near, self.depth, self.long)


class AdaptiveReranker(Reranker):
    """Scores candidates and their neighbours by one model, which decides alone."""

    def __init__(
        self,
        scorer: AnyScorer,
        candidates: Candidates,
        neighbours: Callable[[int], Sequence[int]],
        depth: int = DEPTH,
        long: Long = "max",
    ) -> None:
        """neighbours: of a candidate, the nearest first. depth: candidates of a query that are scored."""
        super().__init__([scorer], candidates, depth=depth, long=long)
        self._neighbours = neighbours

    def rerank(
        self, queries: Sequence[Query], ranking: Ranking, on_pairs: OnRows = lambda pairs: None
    ) -> Ranking:
        """As `Reranker.rerank`, with neighbours among the candidates."""
        score = partial(self._scores, self.scorers[0], queries, on_pairs=on_pairs)
        rows, scores = score_adaptively(ranking, score, self._neighbours, self.depth)
        if rows.shape[1] == 0:  # no query has candidates
            return ranking
        return in_order(_followed(ranking, rows), np.where(rows >= 0, scores, -np.inf))

    def stages(self, query: Query, before: Ranking, k: int) -> RerankingStages:
        return RerankingStages(before, [], self.rerank([query], before).top(k))

    def explain(self, query: Query, row: int, stages: RerankingStages) -> Explanation | None:
        place = place_of(stages.after, row)
        if place is None or (place[0] > self.depth and place_of(stages.before, row)):
            return super().explain(query, row, stages)
        return Explanation.of(place, [self._model(0, query, row, place[1], {})])


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


def _followed(ranking: Ranking, rows: NDArray[np.int64]) -> Ranking:
    """Candidates [Q, n], followed by the other candidates of a ranking [Q, k]: [Q, max(n, k)].

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


def passage_neighbours(index: OpenIndex, neighbours: str) -> Callable[[int], list[int]]:
    """A function that gives the up to 16 nearest neighbours of a passage, by rows; for any thread.

    By links, passages of other articles: first the dual links of the passage (HLP, section 3.2), then the
    first passages of the articles that it links to, in reading order, then its co-mentions, those with the
    most articles in common first (through articles of any in-degree, where HLP's skip hubs). Of the links to
    its article the first 1,000 count. By BM25, the passages that are most similar to its text.
    """
    return lru_cache(_KEPT)(_linked(index)) if neighbours == "links" else similar_passages(index)


def _linked(index: OpenIndex) -> Callable[[int], list[int]]:
    links, offsets = index.links, np.asarray(index.passages.offsets)

    def targets(row: int) -> list[int]:
        own = links.from_passage(row)
        return list(dict.fromkeys(links.target[own.start : own.stop].tolist()))

    def neighbours(row: int) -> list[int]:
        document = int(index.passages.document_rows(np.array([row]))[0])
        of_passage = [target for target in targets(row) if target != document]
        incoming = np.unique(links.passage[links.to_document(document)[:_INCOMING]]).astype(np.int64)
        sources = index.passages.document_rows(incoming)
        dual = incoming[np.isin(sources, of_passage)].tolist()
        first = [int(offsets[target]) for target in of_passage if offsets[target] < offsets[target + 1]]
        others = incoming[~np.isin(sources, [*of_passage, document])].tolist()
        shared = Counter({other: len({*targets(other)} & {*of_passage}) for other in others})
        mentions = [other for other, common in shared.most_common() if common]
        return list(dict.fromkeys([*dual, *first, *mentions]))[:OF_PASSAGE]

    return neighbours
