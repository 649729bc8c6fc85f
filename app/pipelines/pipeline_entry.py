"""Every kind of pipeline: `PipelineEntry`, a table of `pipelines.toml`, and `OpenPipeline`, ready to run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import Precision
from linkseek.indexer.program.settings import Settings
from linkseek.reranker.reranking import AnyScorer
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.explanation import FIRST_STAGE, Explain, Explanation, whole_score

GROUPS = {
    "BM25": "Counts the words of the question in each passage; so does ql, by query likelihood.",
    "Zero-shot": "Compares vectors of an encoder that was not trained on links.",
    "Taught by links": "Compares vectors of an encoder that was trained on links, as HLP does.",
    "Fused": "Joins the rankings of several pipelines into one.",
    "Follows links": "Adds passages that the best ones link to, for questions that need several passages.",
    "Re-ranked": "A model reads the question together with each of the best passages, and ranks them again.",
    "Other": "Kinds of your own.",
}
"""The groups that the search page lists pipelines in, each with a sentence."""

Device = Literal["auto", "cpu", "cuda"]
Depth = Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass(frozen=True)
class PipelineParts:
    """The parts that pipelines are made of, each opened once and shared between pipelines.

    pipeline: by name. encoder: by name or path, after `late:` or `sparse:`
    with title and prompts. scorer: a re-ranker by name or path, device and precision.
    """

    index: OpenIndex
    pipeline: Callable[[str], OpenPipeline]
    encoder: Callable[..., Any]
    scorer: Callable[[str, str, Precision], AnyScorer]


class Shares(NamedTuple):
    """What a weighted sum adds up: names with weights; passage row -> its scaled score by each."""

    weights: Mapping[str, float]
    scaled: Mapping[int, Sequence[float]]


Rerank = Callable[[Sequence[Query], Ranking, int], Ranking]
"""(Q queries, their ranking by the first stage, k) -> the k best of it in a new order."""


@dataclass(frozen=True)
class OpenPipeline:
    """A pipeline that is ready to run, and further functions of its kind; None for passages that it lacks."""

    search: Pipeline
    rerank: Rerank | None = None
    """of a pipeline with a first stage (`PipelineEntry.first_stage`)"""
    explain: Explain | None = None
    """why a passage has its score; without one, the score is a single number"""
    shares: Callable[[Query, int], Shares] | None = None
    """(query, k) -> the parts of a weighted sum, for changing its weights"""
    models: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """the identities of its re-rankers, by the names that its entry uses"""

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best passages of each query."""
        return self.search(queries, k)

    def explained(self, query: Query, row: int, k: int) -> Explanation | None:
        """The parts of a passage's score in a search for the k best; None if it is not among them."""
        return (self.explain or whole_score(self.search))(query, row, k)


class FirstStage(NamedTuple):
    """The pipeline whose results are re-ranked, and how many of them."""

    pipeline: str
    depth: int


class PipelineEntry(Settings, ABC):
    """A table of `pipelines.toml`."""

    chosen_by: ClassVar[tuple[str, str]]
    """the key that makes a table one of this kind, and its value, in capitals if any value does"""
    in_group: ClassVar[str] = "Other"
    """which of `GROUPS` it belongs to"""
    file_key: ClassVar[str] = ""
    """the key of a file that it reads, if any; its path is relative to the file of the table"""
    without_effect: ClassVar[set[str]] = set()
    """keys that its results do not depend on"""

    @property
    def members(self) -> Sequence[str]:
        """The names of the pipelines that this one is made of."""
        return ()

    @property
    def first_stage(self) -> FirstStage | None:
        """Of a pipeline whose `OpenPipeline.rerank` is a stage of its own; None for any other."""
        return None

    @property
    def reads_links(self) -> bool:
        """Whether it ranks by links between passages, its members aside."""
        return False

    def turned(self, weights: Sequence[float]) -> Self | None:
        """The same with other weights, 0 or above; None unless it is a weighted sum."""
        return None

    def group(self, index: OpenIndex) -> str:
        """Which of `GROUPS` lists it."""
        return self.in_group

    def located(self, folder: Path) -> Self:
        """The same with paths that are relative to the folder of its file."""
        file = self._file
        return self.model_copy(update={self.file_key: folder / file}) if file else self

    def is_available(self, index: OpenIndex) -> bool:
        """Whether an index and this machine have its own parts; the parts of its members do not count."""
        return self._file is None or self._file.is_file()

    def reads(self, index: OpenIndex) -> bool:
        """Whether its own models can read the passages of an index."""
        return True

    def fingerprint(self) -> dict[str, Any]:
        """Everything that its results depend on except the index, its members and the questions."""
        values, file = self.model_dump(mode="json", exclude=self.without_effect), self._file
        return values | ({f"{self.file_key}_sha256": file_sha256(file)} if file and file.is_file() else {})

    @property
    def _file(self) -> Path | None:
        return getattr(self, self.file_key) if self.file_key else None

    @abstractmethod
    def describe(self, index: OpenIndex) -> str:
        """A few words for the search page."""

    @abstractmethod
    def open(self, parts: PipelineParts, name: str) -> OpenPipeline:
        """The pipeline of this name, ready to run. Raises `LinkseekError` if a part is missing."""


def with_first_stage(explain: Explain, name: str, first: OpenPipeline, depth: int) -> Explain:
    """The same with the name of the first stage, and the explanation of the passage's score there.

    depth: results of the first stage, or k if that is more.
    """

    def explained(query: Query, row: int, k: int) -> Explanation | None:
        explanation = explain(query, row, k)
        if explanation is None:
            return None
        parts = tuple(
            replace(part, name=name, of=first.explained(query, row, max(k, depth)))
            if part.name == FIRST_STAGE
            else part
            for part in explanation.parts
        )
        return replace(explanation, parts=parts)

    return explained
