"""Learned fusion: a model of trees ranks the candidates of several pipelines by their features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import MismatchError
from linkseek.retriever.learned.boosted_trees import BoostedTrees, FusionFile
from linkseek.retriever.learned.features import FeatureReader, meaning
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.explanation import Explanation, Part, place_of
from linkseek.retriever.search.stages import stage

_BLOCK = 1 << 17  # candidates whose features are held together: some 30 MB


class LearnedFusion:
    """The fusion of some pipelines by a model that was trained on the same number of them."""

    def __init__(
        self, index: OpenIndex, members: Sequence[Pipeline], model: FusionFile, depth: int, path: Path
    ) -> None:
        """depth: results of each member that are candidates. path: of the model, for messages.

        Raises `MismatchError` if the model was trained for other features than these.
        """
        if len(model.pipelines) != len(members):
            raise MismatchError(
                f"{path}: fuses {len(model.pipelines)} pipelines ({', '.join(model.pipelines)}), not "
                f"{len(members)}",
                "Name as many in `of`, in the same order.",
            )
        self._reader = FeatureReader(index, model.pipelines, model.links, model.neighbours)
        if model.features != self._reader.names:
            raise MismatchError(
                f"{path}: its features are for another version of Linkseek",
                "Train it again with linkseek train-fusion.",
            )
        self._members, self._depth, self._features = members, depth, model.features
        self._trees = BoostedTrees(model.trees)

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query among the candidates."""
        rankings = self._search(queries, k)
        with stage("fuse"):
            size = max(_BLOCK // sum(ranking.depth for ranking in rankings), 1)
            fused = [
                self._fuse(
                    queries[start : start + size], [ranking.block(start, size) for ranking in rankings], k
                )
                for start in range(0, max(len(queries), 1), size)
            ]
            rows, scores = (
                np.concatenate([getattr(block, name) for block in fused]) for name in ("rows", "scores")
            )
            return Ranking(rankings[0].query_ids, rows, scores)

    def _fuse(self, queries: Sequence[Query], rankings: Sequence[Ranking], k: int) -> Ranking:
        candidates = self._reader.read(queries, rankings)
        held = candidates.rows >= 0  # [Q, m]
        scores = np.full(held.shape, -np.inf)  # [Q, m]
        scores[held] = self._trees.scores(candidates.values[held])
        missing = ((0, 0), (0, max(k - held.shape[1], 0)))
        rows = np.pad(candidates.rows, missing, constant_values=-1)
        return Ranking.of(candidates.query_ids, rows, np.pad(scores, missing), k)

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """What each feature adds to the score of a passage (`Explain`), the largest shares first."""
        candidates = self._reader.read([query], self._search([query], k))
        place = place_of(self([query], k), row)
        if place is None:
            return None
        values = candidates.values[0, candidates.rows[0] == row]  # [1, F]
        return Explanation.of(place, feature_parts(self._trees, values, self._features, meaning))

    def _search(self, queries: Sequence[Query], k: int) -> list[Ranking]:
        return [member(queries, max(k, self._depth)) for member in self._members]


def feature_parts(
    trees: BoostedTrees,
    values: NDArray[np.float64],
    features: Sequence[str],
    meaning: Callable[[str], str],
) -> list[Part]:
    """The mean score, and what each feature adds to it for a passage, the largest shares first.

    values: [1, F] of the passage. meaning: of a feature by its name.
    """
    added = trees.contributions(values)[0]  # [F]
    of_features = [
        Part(features[i], float(added[i]), meaning(features[i]), {"value": float(values[0, i])})
        for i in np.argsort(-np.abs(added), kind="stable").tolist()
    ]
    return [Part("mean", trees.bias, "the mean score over the training data"), *of_features]
