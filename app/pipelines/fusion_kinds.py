"""The kinds of pipelines that join several: by ranks, by scores, or by a trained model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from linkseek.app.pipelines.pipeline_entry import Depth, OpenPipeline, PipelineEntry, PipelineParts, Shares
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.learned.boosted_trees import FusionFile
from linkseek.retriever.learned.learned_fusion import LearnedFusion
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search import fusion
from linkseek.retriever.search.explanation import Explanation, Part, place_of, value_of
from linkseek.retriever.search.stages import stage


class FusionEntry(PipelineEntry):
    """Several pipelines joined into one."""

    in_group = "Fused"
    of: Annotated[list[str], Field(min_length=1)]
    """names of the pipelines to join"""
    depth: Depth = 100
    """the number of results of each to join (more, if more are requested)"""

    @property
    def members(self) -> Sequence[str]:
        return self.of


class SumEntry(FusionEntry):
    """Several pipelines joined by adding up their scores of a passage."""

    @abstractmethod
    def fuse(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        """The k best of rankings of the same queries."""

    @abstractmethod
    def share(self, ranking: Ranking, number: int, row: int) -> tuple[float, dict[str, float]]:
        """What the ranking of a member adds to the score of a passage, and the numbers it comes from."""

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        members = [parts.pipeline(member) for member in self.of]

        def search(queries: Sequence[Query], k: int) -> Ranking:
            rankings = [member(queries, max(k, self.depth)) for member in members]
            with stage("fuse"):
                return self.fuse(rankings, k)

        return OpenPipeline(search, explain=partial(self._explain, members))

    def _explain(self, members: Sequence[OpenPipeline], query: Query, row: int, k: int) -> Explanation | None:
        """What each member adds to the score of a passage (`Explain`)."""
        depth = max(k, self.depth)
        rankings = [member([query], depth) for member in members]
        place = place_of(self.fuse(rankings, k), row)
        if place is None:
            return None
        parts = []
        for number, (name, member, ranking) in enumerate(zip(self.of, members, rankings, strict=True)):
            own = place_of(ranking, row)
            if own is None:
                parts.append(Part(name, 0.0, f"not among its first {depth}"))
                continue
            added, factors = self.share(ranking, number, row)
            factors = {"rank": float(own[0]), "score": own[1]} | factors
            parts.append(Part(name, added, "", factors, of=member.explained(query, row, depth)))
        return Explanation.of(place, parts)


class ReciprocalRankEntry(SumEntry):
    """Several pipelines joined by the ranks of their results."""

    chosen_by = ("fusion", "reciprocal-rank")
    fusion: Literal["reciprocal-rank"]
    """the kind of the table"""
    constant: Annotated[float, Field(ge=0, le=1e9)] = 60.0
    """a passage at rank r adds 1 / (constant + r)"""

    def fuse(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        return fusion.reciprocal_rank(rankings, k, self.constant)

    def share(self, ranking: Ranking, number: int, row: int) -> tuple[float, dict[str, float]]:
        return value_of(fusion.reciprocal(ranking, self.constant), ranking, row), {"constant": self.constant}

    def describe(self, index: OpenIndex) -> str:
        return f"{' and '.join(self.of)}, fused by rank"


class WeightedEntry(SumEntry):
    """Several pipelines joined by the weighted sum of their scores, scaled to 0..1 for each question."""

    chosen_by = ("fusion", "weighted")
    fusion: Literal["weighted"]
    """the kind of the table"""
    weights: list[Annotated[float, Field(ge=0, le=1e9)]]
    """a weight for each pipeline"""

    def fuse(self, rankings: Sequence[Ranking], k: int) -> Ranking:
        return fusion.weighted(rankings, self.weights, k)

    def share(self, ranking: Ranking, number: int, row: int) -> tuple[float, dict[str, float]]:
        scaled, weight = value_of(fusion.stretched(ranking), ranking, row), self.weights[number]
        return weight * scaled, {"scaled": scaled, "weight": weight}

    def describe(self, index: OpenIndex) -> str:
        shares = zip(self.weights, self.of, strict=False)
        return f"{' + '.join(f'{weight:g} × {name}' for weight, name in shares)}, fused by score"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        if len(self.weights) != len(self.of):
            counts = f"{len(self.of)} pipelines, {len(self.weights)} weights"
            raise UsageError(f"[{name}]: {counts}", "Give one weight for each.")
        members = [parts.pipeline(member) for member in self.of]
        return replace(super().open(parts, name), shares=partial(self._shares, members))

    def _shares(self, members: Sequence[OpenPipeline], query: Query, k: int) -> Shares:
        rankings = [member([query], max(k, self.depth)) for member in members]
        scaled: dict[int, list[float]] = {}
        for number, ranking in enumerate(rankings):
            values = fusion.stretched(ranking)[0].tolist()
            for (row, _), value in zip(ranking.results(0), values, strict=False):
                scaled.setdefault(row, [0.0] * len(members))[number] = value
        return Shares(dict(zip(self.of, self.weights, strict=True)), scaled)

    def turned(self, weights: Sequence[float]) -> Self:
        return self.model_copy(update={"weights": [*weights]})


class LearnedEntry(FusionEntry):
    """Several pipelines joined by a model that `linkseek train-fusion` has trained."""

    chosen_by = ("fusion", "learned")
    file_key = "model"
    fusion: Literal["learned"]
    """the kind of the table"""
    model: Path
    """the model's file, relative to this one, trained on the same number of pipelines, in the order of `of`
    """

    @property
    def reads_links(self) -> bool:
        return FusionFile.read(self.model).links

    def describe(self, index: OpenIndex) -> str:
        return f"{' and '.join(self.of)}, fused by the model {self.model.stem}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        members = [parts.pipeline(member) for member in self.of]
        fusion = LearnedFusion(parts.index, members, FusionFile.read(self.model), self.depth, self.model)
        return OpenPipeline(fusion, explain=fusion.explain)
