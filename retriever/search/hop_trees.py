"""Hops by a trained model: results of a first stage, and passages that they lead to, ranked by trees.

For questions of several steps; `hops` is the rule that needs no training. The first result of the first stage
stays the first, as by the rule, so that questions of one step keep it. Where nothing leads anywhere, as in a
corpus without links, the ranking is that of the first stage. So it is where a model has a margin and no other
candidate scores by more than that above the lowest of the first five results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.errors import MismatchError
from linkseek.indexer.index import Index
from linkseek.retriever.ranking import Paths, Pipeline, Query, Ranking
from linkseek.retriever.search.boosted_trees import BoostedTrees
from linkseek.retriever.search.explanation import FIRST_STAGE, Explanation, Part, place_of
from linkseek.retriever.search.hop_features import HopCandidates, HopFeatures, hop_feature_names, hop_meaning
from linkseek.retriever.search.hop_graph import Articles, Edges, Similarity
from linkseek.retriever.search.hop_model import HopModel
from linkseek.retriever.search.learned import feature_parts
from linkseek.retriever.search.query_vectors import encoded_once
from linkseek.retriever.search.stages import stage

_AHEAD = 0.01
"""How far the score of the first result is above the next one, at least."""
_KEPT = 5
"""Results of the first stage that another candidate has to pass by the margin."""


class TreeHops:
    """A pipeline of a first stage and a model."""

    def __init__(
        self,
        index: Index,
        first: Pipeline,
        model: HopModel,
        graphs: Mapping[str, Edges],
        similarity: Similarity,
        depth: int,
        path: Path,
    ) -> None:
        """graphs: those of the model. depth: results of the first stage. path: of the model, for messages.

        Raises `MismatchError` if the model was trained for other features than these.
        """
        self._names = hop_feature_names(model.graphs)
        if model.features != self._names:
            raise MismatchError(
                f"{path}: its features are not those of this version of Linkseek",
                "Train it again with linkseek train-hops.",
            )
        self._first, self._depth, self._margin = first, depth, model.margin
        self._trees = BoostedTrees(model.trees)
        self._reader = HopFeatures(index, graphs, Articles(index, similarity), similarity, model.sources)

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query among the candidates, with their paths."""
        with encoded_once():
            return self._search(queries, k)

    def _search(self, queries: Sequence[Query], k: int) -> Ranking:
        first = self._first(queries, max(k, self._depth))
        with stage("follow links"):
            return self._ranking(first, self._reader.read(queries, first), k)

    def _ranking(self, first: Ranking, candidates: Sequence[HopCandidates], k: int) -> Ranking:
        found: list[tuple[list[int], list[float]]] = []
        paths: list[Paths] = []
        for of_query, rows, own in zip(candidates, first.rows, first.scores, strict=True):
            scores = self._scores(of_query, int((rows >= 0).sum()))
            if scores is None:
                scores = own[rows >= 0]
            found.append((of_query.rows[: len(scores)].tolist(), scores.tolist()))
            ranked = set(found[-1][0])
            paths.append({row: path for row, path in of_query.paths.items() if row in ranked})
        return Ranking.of_candidates(first.query_ids, found, k, tuple(paths))

    def _scores(self, candidates: HopCandidates, results: int) -> NDArray[np.floating] | None:
        """Scores of candidates, [m]; None where the first stage decides. results: of the first stage."""
        if not candidates.leads:
            return None
        scores = self._trees.scores(candidates.values)
        scores[0] = max(scores[0], scores[1:].max(initial=-np.inf) + _AHEAD)
        if self._margin is None:
            return scores
        kept = min(_KEPT, results)
        gain = scores[kept:].max(initial=-np.inf) - scores[:kept].min(initial=np.inf)
        return scores if gain > self._margin else None

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """What each feature adds to the score of a passage (`Explain`), the largest shares first.

        Where the first stage decides, its score there.
        """
        with encoded_once():
            first = self._first([query], max(k, self._depth))
            [candidates] = self._reader.read([query], first)
        place = place_of(self._ranking(first, [candidates], k), row)
        if place is None:
            return None
        if not candidates.leads:
            return Explanation(*place, (Part(FIRST_STAGE, place[1], "no link leads anywhere"),))
        if self._scores(candidates, int((first.rows[0] >= 0).sum())) is None:
            return Explanation(
                *place, (Part(FIRST_STAGE, place[1], "no link leads to a clearly better one"),)
            )
        values = candidates.values[candidates.rows == row]  # [1, F]
        parts = feature_parts(self._trees, values, self._names, hop_meaning)
        return Explanation.of(place, parts, rest="the first result of the first stage stays first")
