"""The parts that pipelines are opened from, and an open pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.devices import Precision
from linkseek.reranker.reranking import AnyScorer
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.explanation import Explain, Explanation, whole_score
from linkseek.retriever.search.searchers import RecordedRun

if TYPE_CHECKING:
    from linkseek.retriever.models.biencoder import BiEncoder


@dataclass(frozen=True)
class PipelineParts:
    """The parts that pipelines are made of, each opened once and shared between pipelines.

    pipeline: by name. encoder: by name or path. scorer: a re-ranker by name or path, device and precision.
    """

    index: OpenIndex
    pipeline: Callable[[str], OpenPipeline]
    encoder: Callable[[str], BiEncoder]
    scorer: Callable[[str, str, Precision], AnyScorer]


@dataclass(frozen=True)
class OpenPipeline:
    """A pipeline that is ready to run, and further functions of its kind; None for those that it lacks."""

    search: Pipeline
    rerank: Callable[[Sequence[Query], Ranking, int], Ranking] | None = None
    """the k best of the ranking of its first stage (`Entry.first_stage`)"""
    explain: Explain | None = None
    """why a passage has its score; without one, the score is one number"""
    run: RecordedRun | None = None
    """the run file that it looks results up in"""
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
