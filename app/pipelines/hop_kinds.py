"""Kinds of pipelines that follow links from another pipeline's results: by a rule or by trained trees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from linkseek.app.pipelines.explained_parts import with_first_stage
from linkseek.app.pipelines.open_pipeline import OpenPipeline, PipelineParts
from linkseek.app.pipelines.pipeline_entry import Depth, Entry
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.learned.hop_graph import Articles, Similarity, open_edges
from linkseek.retriever.learned.hop_model import read_hop_model
from linkseek.retriever.learned.hop_trees import TreeHops
from linkseek.retriever.learned.hops import Hops
from linkseek.retriever.models.prompts import recorded_prompt
from linkseek.retriever.search.neighbours import Neighbours

Graphs = Annotated[
    list[Neighbours],
    Field(min_length=1, max_length=2),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]


class HopBase(Entry):
    """The settings that both kinds have in common."""

    in_group = "Follows links"
    of: str
    """the first stage"""
    depth: Depth = 100
    """how many of its results are candidates"""
    edges: Annotated[int, Field(ge=1, le=10_000)] = 100
    """the largest number of articles that a passage leads to"""
    encoder: str | None = None
    """the vectors that choose the passage of a linked article; without any, its first"""

    @property
    def members(self) -> Sequence[str]:
        return [self.of]

    def is_available(self, index: OpenIndex) -> bool:
        return super().is_available(index) and self.encoder in (None, *index.encoders)

    def similarity(self, parts: PipelineParts) -> Similarity:
        """The inner products that are read. Raises `LinkseekError` if the encoder is missing."""
        index = parts.index
        if self.encoder is None and not index.encoders:
            return Similarity(index)
        made_by = index.parts.dense[index.encoder_name(self.encoder)].encoder
        encoder = parts.encoder(made_by["location"])
        prompt = recorded_prompt(made_by, encoder.identity)
        return Similarity(index, encoder.search_vectors, index.encoder_name(self.encoder), prompt)


class HopEntry(HopBase):
    """Passages that the best ones link to get a share of their score."""

    chosen_by = ("hop", "rule")
    without_effect: ClassVar[set[str]] = {"control"}
    hop: Literal["rule"]
    """the kind of the table"""
    over: Graphs = Field(["links"])
    """`links`, `bm25` (similar passages, a control), or both"""
    sources: Annotated[int, Field(ge=1, le=1_000)] = 3
    """how many passages are followed, in each step"""
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """of the linking passage's score"""
    steps: Annotated[int, Field(ge=1, le=4)] = 1
    """how many links in a row are followed"""
    control: bool = False
    """whether it is a control of an experiment: it can be named, but no list of pipelines has it"""

    @property
    def is_control(self) -> bool:
        return self.control

    @property
    def reads_links(self) -> bool:
        return "links" in self.over

    def is_available(self, index: OpenIndex) -> bool:
        return super().is_available(index) and (index.has_lucene or "bm25" not in self.over)

    def describe(self, index: OpenIndex) -> str:
        return f"{self.of}, and what its first {self.sources} {_leads(self.over)}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        similarity = self.similarity(parts)
        first = parts.pipeline(self.of)
        hops = Hops(
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


class HopTreesEntry(HopBase):
    """Passages that the best ones link to, ranked with them by a model of `linkseek train-hops`."""

    chosen_by = ("hop", "trees")
    file_key = "model"
    without_effect: ClassVar[set[str]] = {"model"}
    hop: Literal["trees"]
    """the kind of the table"""
    model: Path
    """its file, relative to this one"""

    @property
    def reads_links(self) -> bool:
        return "links" in read_hop_model(self.model).graphs

    def is_available(self, index: OpenIndex) -> bool:
        if not (super().is_available(index) and index.encoders):
            return False
        return index.has_lucene or "bm25" not in read_hop_model(self.model).graphs

    def describe(self, index: OpenIndex) -> str:
        model = read_hop_model(self.model)
        return f"{self.of}, and what its first {model.sources} {_leads(model.graphs)}, ranked by trees"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        model, similarity = read_hop_model(self.model), self.similarity(parts)
        first = parts.pipeline(self.of)
        hops = TreeHops(
            parts.index,
            first,
            model,
            {graph: open_edges(parts.index, graph, self.edges) for graph in model.graphs},
            similarity,
            self.depth,
            self.model,
        )
        return OpenPipeline(hops, explain=with_first_stage(hops.explain, self.of, first, self.depth))


def _leads(graphs: Sequence[Neighbours]) -> str:
    words = {"links": "link to", "bm25": "are similar to"}
    return " or ".join(words[graph] for graph in graphs)
