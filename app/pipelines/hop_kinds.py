"""The kind of pipeline that follows links from another pipeline's results, and a base for others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from linkseek.app.pipelines.pipeline_entry import (
    Depth,
    OpenPipeline,
    PipelineEntry,
    PipelineParts,
    with_first_stage,
)
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.learned.hop_graph import GRAPHS, LINKS, Similarity, open_edges
from linkseek.retriever.learned.hops import HopModel, TreeHops
from linkseek.retriever.models.prompts import recorded_prompt


class HopBase(PipelineEntry):
    """The settings of all kinds that follow links."""

    in_group = "Follows links"
    of: str
    """the first stage"""
    depth: Depth = 100
    """the number of its results that are candidates"""
    edges: Annotated[int, Field(ge=1, le=10_000)] = 100
    """the maximum number of articles that a passage leads to"""
    encoder: str | None = None
    """the vectors by which the passage of a linked article is chosen; without vectors, its first"""

    @property
    def members(self) -> Sequence[str]:
        return [self.of]

    def is_available(self, index: OpenIndex) -> bool:
        return super().is_available(index) and self.encoder in (None, *index.encoders)

    def similarity(self, parts: PipelineParts) -> Similarity:
        """As `similarity_of`."""
        return similarity_of(parts, self.encoder)


class HopTreesEntry(HopBase):
    """The best passages and those that they link to, ranked by a model of `linkseek train-hops`."""

    chosen_by = ("hop", "trees")
    file_key = "model"
    without_effect: ClassVar[set[str]] = {"model"}
    hop: Literal["trees"]
    """the kind of the table"""
    model: Path
    """the model's file, relative to this one"""

    @property
    def reads_links(self) -> bool:
        return LINKS in HopModel.read(self.model).graphs

    def is_available(self, index: OpenIndex) -> bool:
        return super().is_available(index) and bool(index.encoders)

    def describe(self, index: OpenIndex) -> str:
        model = HopModel.read(self.model)
        return f"{self.of}, and those that its first {model.sources} {leads(model.graphs)}, ranked by trees"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        model, similarity = HopModel.read(self.model), self.similarity(parts)
        first = parts.pipeline(self.of)
        graphs = {graph: open_edges(parts.index, graph, self.edges) for graph in model.graphs}
        hops = TreeHops(parts.index, first, model, graphs, similarity, self.depth, self.model)
        return OpenPipeline(hops, explain=with_first_stage(hops.explain, self.of, first, self.depth))


def similarity_of(parts: PipelineParts, encoder: str | None = None) -> Similarity:
    """The inner products of an index's vectors. Raises `LinkseekError` if the encoder is missing."""
    index = parts.index
    if encoder is None and not index.encoders:
        return Similarity(index)
    name = index.encoder_name(encoder)
    made_by = index.parts.dense[name].encoder
    model = parts.encoder(made_by["location"])
    return Similarity(index, model.search_vectors, name, recorded_prompt(made_by, model.identity))


def leads(graphs: Sequence[str]) -> str:
    """A verb for passages that lead along some graphs, for people."""
    return " or ".join(GRAPHS[graph].does for graph in graphs)
