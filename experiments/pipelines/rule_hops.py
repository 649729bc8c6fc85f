"""Hops: passages that the best ones link to get a share of their score. For questions of several steps.

The passage that answers such a question often shares no word with it, but the first passage of the chain
does, and links to it. The rule: a passage c that one of the first n passages, s, leads to gets

    score(c) = max(own(c), share * score(s) + (1 - share) * own(c))

where own is the score of the first stage scaled to 0..1 for each question. c never passes s, so the first
result stays the first, and a question of one step loses next to nothing. A passage that the first stage
did not return has an own score below 0, by the similarity of its vector to the question's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from linkseek.app.pipelines.hop_kinds import HopBase, leads
from linkseek.indexer.index import OpenIndex
from linkseek.plugins import OpenPipeline, PipelineParts, with_first_stage
from linkseek.retriever.learned.hop_graph import LINKS, Articles, Edges, GraphName, Similarity, open_edges
from linkseek.retriever.ranking import Paths, Pipeline, Query, Ranking, Step
from linkseek.retriever.search.explanation import FIRST_STAGE, Explanation, Part, place_of
from linkseek.retriever.search.fusion import stretched
from linkseek.retriever.search.query_vectors import encoded_once
from linkseek.retriever.search.stages import stage

_FAR = 0.5
"""How far below the last result the least similar passage is, of a scale on which the first is at 1."""


Graphs = Annotated[
    list[GraphName],
    Field(min_length=1, max_length=2),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]


class RuleHopsEntry(HopBase):
    """Passages that the best ones link to get a share of their score."""

    chosen_by = ("hop", "rule")
    hop: Literal["rule"]
    """the kind of the table"""
    over: Graphs = Field([LINKS])
    """`links`, a control of `controls`, or both"""
    sources: Annotated[int, Field(ge=1, le=1_000)] = 3
    """how many passages are followed, in each step"""
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """of the linking passage's score"""
    steps: Annotated[int, Field(ge=1, le=4)] = 1
    """how many links in a row are followed"""

    @property
    def reads_links(self) -> bool:
        return LINKS in self.over

    def describe(self, index: OpenIndex) -> str:
        return f"{self.of}, and what its first {self.sources} {leads(self.over)}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        similarity = self.similarity(parts)
        first = parts.pipeline(self.of)
        hops = RuleHops(
            first,
            [open_edges(parts.index, over, self.edges) for over in self.over],
            Articles(parts.index, similarity),
            similarity,
            depth=self.depth,
            sources=self.sources,
            share=self.share,
            steps=self.steps,
        )
        return OpenPipeline(hops, explain=with_first_stage(hops.explain, self.of, first, self.depth))


class _Followed(NamedTuple):
    """By row, for one question: scores, paths, own scores, and scores of the passages that lead there."""

    scores: dict[int, float]
    paths: Paths
    own: dict[int, float]
    given: dict[int, float]


class RuleHops:
    """A pipeline of a first stage and the rule."""

    def __init__(
        self,
        first: Pipeline,
        edges: Sequence[Edges],
        articles: Articles,
        similarity: Similarity,
        *,
        depth: int = 100,
        sources: int = 3,
        share: float = 0.5,
        steps: int = 1,
    ) -> None:
        """edges: of one or several graphs. depth: results of the first stage. sources: n of each step.

        share: see above, from 0 (the first stage alone) to 1. steps: how many links in a row are followed.
        """
        self._first, self._edges, self._articles, self._similarity = first, edges, articles, similarity
        self._depth, self._sources, self._share, self._steps = depth, sources, share, steps

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query, with their paths."""
        with encoded_once():
            return self._search(queries, k)

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """The shares of the linking passage and of the passage's own score (`Explain`)."""
        with encoded_once():
            first = self._first([query], max(k, self._depth))
            [followed] = self._followed([query], first)
        place = place_of(_ranking(first, [followed], k), row)
        if place is None:
            return None
        own, given = followed.own[row], followed.given.get(row)
        weight = 1.0 if given is None else 1 - self._share
        before = place_of(first, row)
        factors = {"rank": float(before[0]), "score": before[1]} if before else {}
        meaning = "its own score" if before else "its own score, by similarity: the first stage lacks it"
        parts = [Part(FIRST_STAGE, weight * own, meaning, factors | {"scaled": own, "weight": weight})]
        if given is not None:
            factors = {"scaled": given, "weight": self._share}
            parts.insert(0, Part("linking passage", self._share * given, "its score", factors))
        return Explanation.of(place, parts)

    def _search(self, queries: Sequence[Query], k: int) -> Ranking:
        first = self._first(queries, max(k, self._depth))
        with stage("follow links"):
            return _ranking(first, self._followed(queries, first), k)

    def _followed(self, queries: Sequence[Query], first: Ranking) -> list[_Followed]:
        vectors = self._similarity.questions([query.text for query in queries])  # [Q, d]
        own = stretched(first)  # [Q, k]
        return [
            self._follow(dict(zip(rows[rows >= 0].tolist(), scores.tolist(), strict=False)), vector)
            for rows, scores, vector in zip(first.rows, own, vectors, strict=True)
        ]

    def _follow(self, own: dict[int, float], question: NDArray[np.float32]) -> _Followed:
        """own: scores of the results of one question, best first."""
        scores, paths, visited = dict(own), dict[int, tuple[Step, ...]](), set[int]()
        given: dict[int, float] = {}
        ranked = self._articles.ranked(list(own))
        for _ in range(self._steps):
            order = sorted(scores, key=lambda row: (-scores[row], row))[: self._sources]
            possible = [
                (source, edge)
                for source in order
                if source not in visited
                for edges in self._edges
                for edge in edges(source)
            ]
            rows = self._articles.best([edge for _, edge in possible], ranked, question)
            leads = [(source, edge.link, row) for (source, edge), row in zip(possible, rows, strict=True)]
            visited.update(order)
            new = dict.fromkeys(row for _, _, row in leads if row >= 0 and row not in own)
            own |= self._outside(list(own), list(new), question)
            scores |= {row: own[row] for row in new}
            before, paths_before = dict(scores), dict(paths)
            for source, link, row in leads:
                if row < 0:
                    continue
                score = self._share * before[source] + (1 - self._share) * own[row]
                if score > scores[row]:
                    scores[row], given[row] = score, before[source]
                    paths[row] = (*paths_before.get(source, ()), Step(source, link))
        return _Followed(scores, paths, own, given)

    def _outside(self, inside: list[int], rows: list[int], question: NDArray[np.float32]) -> dict[int, float]:
        """Own scores of passages that the first stage did not return: 0 for the most similar one, or less."""
        if not rows or not inside:
            return dict.fromkeys(rows, 0.0)
        known = self._similarity.passages(inside) @ question  # [m]
        values = self._similarity.passages(rows) @ question  # [n]
        span = max(float(known.max() - known.min()), 1e-9)
        scaled = np.minimum((values - known.max()) / span, 0) * _FAR
        return dict(zip(rows, scaled.tolist(), strict=True))


def _ranking(first: Ranking, followed: Sequence[_Followed], k: int) -> Ranking:
    found = [(list(one.scores), list(one.scores.values())) for one in followed]
    return Ranking.of_candidates(first.query_ids, found, k, tuple(one.paths for one in followed))
