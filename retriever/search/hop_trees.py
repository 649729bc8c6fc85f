"""Hops by a trained model: results of a first stage, and passages that they lead to, ranked by trees.

For questions of several steps; `hops` is the rule that needs no training. The first result of the first stage
stays the first, as by the rule, so that questions of one step keep it. Where nothing leads anywhere, as in a
corpus without links, the ranking is that of the first stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.errors import MismatchError
from linkseek.indexer.index import Index
from linkseek.retriever.ranking import Pipeline, Query, Ranking
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
        self._first, self._depth = first, depth
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
        found = [
            (of_query.rows.tolist(), self._scores(of_query, own).tolist())
            for of_query, own in zip(candidates, first.scores, strict=True)
        ]
        return Ranking.of_candidates(first.query_ids, found, k, tuple(of.paths for of in candidates))

    def _scores(self, candidates: HopCandidates, own: NDArray[np.float32]) -> NDArray[np.floating]:
        """Scores of candidates, [m]. own: those of the first stage."""
        if not candidates.leads:
            return own[: len(candidates.rows)]
        scores = self._trees.scores(candidates.values)
        scores[0] = max(scores[0], scores[1:].max(initial=-np.inf) + _AHEAD)
        return scores

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """What each feature adds to the score of a passage (`Explain`), the largest shares first.

        Where no link leads anywhere, its score in the first stage.
        """
        with encoded_once():
            first = self._first([query], max(k, self._depth))
            [candidates] = self._reader.read([query], first)
        place = place_of(self._ranking(first, [candidates], k), row)
        if place is None:
            return None
        if not candidates.leads:
            return Explanation(*place, (Part(FIRST_STAGE, place[1], "no link leads anywhere"),))
        values = candidates.values[candidates.rows == row]  # [1, F]
        parts = feature_parts(self._trees, values, self._names, hop_meaning)
        return Explanation.of(place, parts, rest="the first result of the first stage stays first")
