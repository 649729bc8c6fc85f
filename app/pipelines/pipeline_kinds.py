"""The kinds of pipelines: one class each, with everything that Linkseek does with it and says about it.

An instance is a table of `pipelines.toml`: its fields are the keys of the table, and their docstrings become
docs/reference/pipelines.md. Its methods give its requirements and open it. To add a kind, write a class here,
add it to KINDS, and test it; the search itself is a module below `retriever` or `reranker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from linkseek.app.pipelines.fusion_kinds import LearnedEntry, ReciprocalRankEntry, WeightedEntry
from linkseek.app.pipelines.hop_kinds import HopTreesEntry
from linkseek.app.pipelines.pipeline_entry import (
    Depth,
    Device,
    FirstStage,
    OpenPipeline,
    PipelineEntry,
    PipelineParts,
    Shares,
    with_first_stage,
)
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.plugins import load_plugins
from linkseek.indexer.store.artifacts import LATE, LATE_PREFIX, SPARSE
from linkseek.indexer.store.manifests import CodesPart, Reading
from linkseek.reranker.candidates import Candidates
from linkseek.reranker.models.scoring import late_name, scorer_is_here, scorer_languages, scorer_sha256
from linkseek.reranker.reranking import DEPTH, Long, Reranker, Reranking
from linkseek.retriever.models.locations import STATIC_ENCODER, shipped_models
from linkseek.retriever.search.late_interaction import LateInteraction
from linkseek.retriever.search.searchers import Bm25, Dense, LearnedSparse, QueryLikelihood


class WordsEntry(PipelineEntry):
    """A search of words by Lucene, which needs no model."""

    in_group = "BM25"

    def is_available(self, index: OpenIndex) -> bool:
        return index.has_lucene


class Bm25Entry(WordsEntry):
    """Lucene's BM25."""

    chosen_by = ("searcher", "bm25")
    searcher: Literal["bm25"]
    """the kind of the table"""
    k1: Annotated[float, Field(ge=0, le=1e6)] = 0.9
    """how slowly repeated words saturate, 0 or above"""
    b: Annotated[float, Field(ge=0, le=1)] = 0.4
    """how much the length of a passage counts, 0 to 1"""

    def describe(self, index: OpenIndex) -> str:
        return f"Lucene’s BM25, k1 = {self.k1:g}, b = {self.b:g}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        searcher = Bm25(parts.index, self.k1, self.b)
        return OpenPipeline(searcher, explain=searcher.explain)


class QueryLikelihoodEntry(WordsEntry):
    """Lucene's query likelihood with Dirichlet smoothing."""

    chosen_by = ("searcher", "query-likelihood")
    searcher: Literal["query-likelihood"]
    """the kind of the table"""
    mu: Annotated[float, Field(gt=0, le=1e9)] = 1000.0
    """the number of words from the collection that smooth a passage, above 0"""

    def describe(self, index: OpenIndex) -> str:
        return f"Lucene’s query likelihood, mu = {self.mu:g}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        searcher = QueryLikelihood(parts.index, self.mu)
        return OpenPipeline(searcher, explain=searcher.explain)


class DenseEntry(PipelineEntry):
    """Inner products of FAISS with the vectors of one encoder."""

    chosen_by = ("searcher", "dense")
    without_effect: ClassVar[set[str]] = {"from_links"}
    searcher: Literal["dense"]
    """the kind of the table"""
    encoder: str | None = None
    """the vectors, by a folder's name in `dense/` of the index; by default the first that can read the texts
    """
    query_encoder: str | None = None
    """a model of two towers for the questions, whose passage tower made the vectors (`model.train =
    "query"`); by default the encoder of the vectors
    """
    device: Device = "auto"
    """where vectors are searched: `auto` (on GPUs if there are any), `cpu` or `cuda`"""
    search: dict[str, int] = Field({})
    """FAISS's search parameters, such as `{ nprobe = 64 }`, `{ efSearch = 256 }` or, of a compact index,
    `{ candidates = 1000 }`"""
    from_links: bool = False
    """whether the encoder was trained on links, as the included `hlp` was; the search page groups pipelines
    by it
    """

    def group(self, index: OpenIndex) -> str:
        name = self.encoder or index.manifest.default_encoder
        has_links = self.from_links or (name in shipped_models() and name != STATIC_ENCODER)
        return "Taught by links" if has_links else "Zero-shot"

    def is_available(self, index: OpenIndex) -> bool:
        return bool(index.encoders) and self.encoder in (None, *index.encoders)

    def reads(self, index: OpenIndex) -> bool:
        return index.reads(self.encoder)

    def describe(self, index: OpenIndex) -> str:
        return f"Vectors of {self.encoder or index.manifest.default_encoder}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        made_by = parts.index.dense(self.encoder).encoder
        encoder = parts.encoder(self.query_encoder or made_by["location"])
        dense = Dense(parts.index, encoder, self.encoder, self.device, **self.search)
        return OpenPipeline(dense, explain=dense.explain)


class CodesEntry(PipelineEntry):
    """What an index contains of passages in several codes each, by one encoder."""

    folder: ClassVar[str]
    what: ClassVar[str]
    in_group = "Zero-shot"
    encoder: str | None = None
    """the vectors, by a folder's name in `late/` or `sparse/` of the index; by default the first"""

    def _name(self, index: OpenIndex) -> str:
        return self.encoder or next(iter(getattr(index.parts, self.folder)), "MODEL")

    def is_available(self, index: OpenIndex) -> bool:
        return self._name(index) in getattr(index.parts, self.folder)

    def reads(self, index: OpenIndex) -> bool:
        part: CodesPart = getattr(index.parts, self.folder)[self._name(index)]
        return part.reading.reads(index.language)

    def describe(self, index: OpenIndex) -> str:
        return f"{self.what} by {self._name(index)}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        search = LateInteraction if self.folder == LATE else LearnedSparse
        searcher = search(parts.index, self._name(parts.index), parts.encoder)
        return OpenPipeline(searcher, explain=searcher.explain)


class SparseEntry(CodesEntry):
    """Term weights of a learned sparse model, searched by Lucene."""

    folder, what = SPARSE, "Term weights"
    chosen_by = ("searcher", "sparse")
    searcher: Literal["sparse"]
    """the kind of the table"""


class LateEntry(CodesEntry):
    """MaxSim of token vectors over all passages, exact but slow; to re-rank by them, see `rerank`."""

    folder, what = LATE, "Token vectors"
    chosen_by = ("searcher", "late")
    searcher: Literal["late"]
    """the kind of the table"""


class RerankEntry(PipelineEntry):
    """Re-ranks the best results of another pipeline with one model or an ensemble."""

    chosen_by = ("rerank", "MODEL")
    in_group = "Re-ranked"
    rerank: Annotated[
        list[str],
        Field(min_length=1),
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ]
    """a cross-encoder by folder (relative to the file that names it) or name, `bi-encoder:NAME` for the dot
    products of any encoder, `late` or `late:NAME` for the token vectors of an index built with `--late`,
    or a list of several"""
    of: str
    """the pipeline whose results are re-ranked"""
    depth: Depth = DEPTH
    """the number of results to re-rank"""
    weight: Annotated[float, Field(ge=0, le=1)] | None = None
    """the model's share in a sum with the scores of the first stage, 0 to 1; by default the model decides
    alone"""
    long: Long = "max"
    """texts longer than the model's limit: `max` reads windows, of which the best counts; `first` only the
    first part, which is faster and mostly ranks worse
    """
    device: Device = "auto"
    """where the model runs: `auto`, `cpu` or `cuda`"""
    precision: Precision = "auto"
    """`float32`, `bfloat16`, or `auto`: bfloat16 where the CPU or GPU supports it, which is nearly twice as
    fast; close candidates change places
    """

    @property
    def members(self) -> Sequence[str]:
        return [self.of]

    @property
    def first_stage(self) -> FirstStage | None:
        return FirstStage(self.of, self.depth)

    @property
    def _divided(self) -> tuple[list[str], list[str]]:
        """Its late interaction and its other models, separated."""
        late = [name for name in self.rerank if name == LATE or name.startswith(LATE_PREFIX)]
        return late, [name for name in self.rerank if name not in late]

    def located(self, folder: Path) -> Self:
        models = [str(folder / model) if (folder / model).is_dir() else model for model in self.rerank]
        return self.model_copy(update={"rerank": models})

    def is_available(self, index: OpenIndex) -> bool:
        late, models = self._divided
        has_late = all(late_name(index, name) is not None for name in late)
        return has_late and all(map(scorer_is_here, models))

    def reads(self, index: OpenIndex) -> bool:
        late, models = self._divided
        readings = [Reading(languages=scorer_languages(model)) for model in models]
        readings += [index.parts.late[name].reading for model in late if (name := late_name(index, model))]
        return all(reading.reads(index.language) for reading in readings)

    def fingerprint(self) -> dict[str, Any]:
        hashes = [scorer_sha256(model) for model in self._divided[1]]
        return super().fingerprint() | {"rerank_sha256": hashes}

    def describe(self, index: OpenIndex) -> str:
        models = " and ".join(Path(model).name for model in self.rerank)
        return f"The best {self.depth} of {self.of}, re-ranked by {models}"

    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        reranker = self.reranker(parts, name)
        reranking = Reranking(parts.pipeline(self.of), reranker)
        models = {m: scorer.identity for m, scorer in zip(self.rerank, reranker.scorers, strict=True)}
        explain = with_first_stage(reranking.explain, self.of, parts.pipeline(self.of), self.depth)
        opened = OpenPipeline(reranking, rerank=reranking.rerank, explain=explain, models=models)
        if self.weight is None:
            return opened
        weights = {"the model": self.weight, self.of: 1 - self.weight}
        return replace(opened, shares=lambda query, k: Shares(weights, reranking.shares(query, k)))

    def turned(self, weights: Sequence[float]) -> Self | None:
        if not (self.weight and sum(weights)):
            return None
        return self.model_copy(update={"weight": round(weights[0] / sum(weights), 4)})

    def reranker(self, parts: PipelineParts, name: str) -> Reranker:
        """The second stage, for a ranking of any origin. Raises `LinkseekError` if a model is missing."""
        scorers = [parts.scorer(model, self.device, self.precision) for model in self.rerank]
        candidates = Candidates(parts.index)
        return Reranker(scorers, candidates, depth=self.depth, weight=self.weight, long=self.long)


KINDS: tuple[type[PipelineEntry], ...] = (
    Bm25Entry,
    QueryLikelihoodEntry,
    DenseEntry,
    SparseEntry,
    LateEntry,
    ReciprocalRankEntry,
    WeightedEntry,
    LearnedEntry,
    HopTreesEntry,
    RerankEntry,
)

_ADDED: list[type[PipelineEntry]] = []


def add_pipeline_kind(kind: type[PipelineEntry]) -> None:
    """Add a kind; called by a plug-in as it is imported. It goes before the kinds here."""
    _ADDED.append(kind)


def all_kinds() -> list[type[PipelineEntry]]:
    """All kinds, those of plug-ins first."""
    load_plugins()
    return [*_ADDED, *KINDS]
