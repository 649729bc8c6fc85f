"""Hops by a trained model: results of a first stage, and passages that they lead to, ranked by trees.

For questions of several steps. The first result of the first stage stays the first, so that questions of one
step keep it. A model that distinguishes the kinds of questions (`question_kinds`) replaces at most two of
five results of the first stage, and at most one if the question seems to have one step. Where nothing leads
anywhere, as in a corpus without links, the ranking of the first stage stays.

A model is a JSON file: `boosted_trees` over the features of `hop_features`. Files of "linkseek hops 1" have
no `several_steps`.

{"format": "linkseek hops 2", "features": ["score", ...], "trained": {...}, "graphs": ["links"],
 "sources": 10, "several_steps": {...}, "trees": [{...}, ...]}
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from linkseek.indexer.index import OpenIndex
from linkseek.retriever.learned.boosted_trees import BoostedTrees, TreeFile
from linkseek.retriever.learned.hop_features import HopCandidates, HopFeatures, hop_meaning
from linkseek.retriever.learned.hop_graph import Articles, Edges, GraphName, Similarity
from linkseek.retriever.learned.learned_fusion import feature_parts
from linkseek.retriever.learned.question_kinds import SEVERAL, QuestionKind
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.explanation import FIRST_STAGE, Explanation, Part, place_of
from linkseek.retriever.search.query_vectors import encoded_once
from linkseek.retriever.search.stages import stage

_AHEAD = 0.01
"""How far the score of the first result is above the next one, at least."""
_BLOCK = 5
"""Results in a block, some of which the trees replace."""
_STEP = 1e-3
"""The distance of a deferred score from the one before, large enough for float32 to distinguish them."""
_KIND = "several steps"


class Replacing(NamedTuple):
    """How the trees may change the ranking of a first stage.

    most: results in each block of five that they replace. margin: how much higher the score of the new one
    must be. last: whether the last of the first stage's goes, else the one with the lowest score.
    """

    most: int
    margin: float
    last: bool


ONE_STEP, SEVERAL_STEPS = Replacing(1, 0.5, last=True), Replacing(2, 0.0, last=False)
"""Chosen on questions of both kinds; docs/results/results-hops.md has the figures."""


class HopModel(TreeFile):
    """The content of a file of `linkseek train-hops`."""

    command = "linkseek train-hops"
    format: Literal["linkseek hops 1", "linkseek hops 2"]
    graphs: Annotated[list[GraphName], Field(min_length=1, max_length=2)]
    sources: Annotated[int, Field(ge=1, le=1_000)]
    """results of the first stage that are followed"""
    several_steps: QuestionKind | None = None
    """distinguishes questions of one step from questions of several; without it, all are of several"""


class TreeHops:
    """A pipeline of a first stage and a model."""

    def __init__(
        self,
        index: OpenIndex,
        first: Pipeline,
        model: HopModel,
        graphs: Mapping[str, Edges],
        similarity: Similarity,
        depth: int,
        path: Path,
    ) -> None:
        """graphs: the model's. depth: results of the first stage. path: the model's path, for messages.

        Raises `MismatchError` if the model was trained for other features than these.
        """
        self._reader = HopFeatures(index, graphs, Articles(index, similarity), similarity, model.sources)
        model.check_features(self._reader.names, path)
        self._first, self._depth, self._language = first, depth, index.language
        self._trees, self._kind = BoostedTrees(model.trees), model.several_steps

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query among the candidates, with their paths."""
        with encoded_once():
            return self._search(queries, k)

    def _search(self, queries: Sequence[Query], k: int) -> Ranking:
        first = self._first(queries, max(k, self._depth))
        with stage("follow links"):
            return self._ranking(queries, first, self._reader.read(queries, first), k)

    def _ranking(
        self, queries: Sequence[Query], first: Ranking, candidates: Sequence[HopCandidates], k: int
    ) -> Ranking:
        found = []
        for number, (query, own) in enumerate(zip(queries, candidates, strict=True)):
            results = int((first.rows[number] >= 0).sum())
            scores = self._scores(query, own, first.scores[number, :results])
            found.append((own.rows.tolist(), scores.tolist()))
        return Ranking.of_candidates(first.query_ids, found, k, tuple(own.paths for own in candidates))

    def _scores(
        self, query: Query, candidates: HopCandidates, own: NDArray[np.float32]
    ) -> NDArray[np.floating]:
        """Scores of candidates, [m]. own: the first stage's scores, of the first candidates."""
        if not candidates.leads:
            return own
        scores = self._trees.scores(candidates.values)
        scores[0] = max(scores[0], scores[1:].max(initial=-np.inf) + _AHEAD)
        if not self._kind:
            return scores
        several = self._kind.probability(query.text, self._language) >= SEVERAL
        return replaced(scores, len(own), SEVERAL_STEPS if several else ONE_STEP)

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """What each feature adds to the score of a passage (`Explain`), the largest shares first.

        Where no link leads anywhere, its score in the first stage.
        """
        with encoded_once():
            first = self._first([query], max(k, self._depth))
            [candidates] = self._reader.read([query], first)
        place = place_of(self._ranking([query], first, [candidates], k), row)
        if place is None:
            return None
        if not candidates.leads:
            return Explanation(*place, (Part(FIRST_STAGE, place[1], "no link leads anywhere"),))
        values = candidates.values[candidates.rows == row]  # [1, F]
        parts = feature_parts(self._trees, values, self._reader.names, hop_meaning)
        rest = "the first result of the first stage stays first"
        if self._kind:
            value = self._kind.probability(query.text, self._language)
            meaning = "the probability that the question has several steps"
            parts.append(Part(_KIND, 0.0, meaning, {"value": value}))
            most = (SEVERAL_STEPS if value >= SEVERAL else ONE_STEP).most
            rest = f"the trees replace at most {most} of {_BLOCK} results of the first stage"
        return Explanation.of(place, parts, rest=rest)


def replaced(scores: NDArray[np.float64], first: int, by: Replacing) -> NDArray[np.float64]:
    """Scores of a ranking in which most results of the first stage stay, [m].

    A block has the next five results of the first stage, which are the first ones of the candidates. The
    trees replace some of them by the best candidates that are left; these results come first in the next
    block. The order within a block is the trees'.
    """
    own, best = deque(range(first)), deque(np.argsort(-scores, kind="stable").tolist())
    order: list[int] = []
    placed: set[int] = set()
    while own:
        block = [own.popleft() for _ in range(min(_BLOCK, len(own)))]
        placed.update(block)
        kept, back = list(block), []
        for _ in range(min(by.most, len(block))):
            while best and best[0] in placed:
                best.popleft()
            gone = kept[-1] if by.last else min(kept, key=lambda place: (scores[place], -place))
            if not best or scores[best[0]] <= scores[gone] + by.margin:
                break
            kept.remove(gone)
            block[block.index(gone)] = best[0]
            placed.add(best[0])
            back.append(gone)
        placed.difference_update(back)
        own = deque(place for place in (*sorted(back), *own) if place not in placed)
        order += sorted(block, key=lambda place: (-scores[place], place))
    order += [place for place in best if place not in placed]
    values, least = np.empty(len(scores)), np.inf
    for place in order:
        least = min(float(scores[place]), least - _STEP)
        values[place] = least
    return values
