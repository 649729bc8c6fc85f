"""Questions of requests: checked, searched in batches, and answered with the texts of passages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from linkseek.app.pipelines.filters import NO_FILTER, Filter
from linkseek.app.service import SearchService
from linkseek.app.serving.batches import RequestBatches
from linkseek.app.serving.indexes import ServedIndexes
from linkseek.app.serving.options import IndexOptions
from linkseek.indexer.passages import Passage
from linkseek.indexer.program.errors import LinkseekError, UsageError
from linkseek.indexer.program.text import without_hidden
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.stages import recorded_stages

_MAX_RESULTS = 100_000
"""Passages of a response: questions times k."""


class ServedHit(NamedTuple):
    """A passage with its score and the address of its document, which may be empty."""

    passage: Passage
    score: float
    url: str

    @property
    def title(self) -> str:
        """The title on one line; the id of the document where it has none."""
        return " ".join(self.passage.title.split()) or self.passage.document_id

    @property
    def contents(self) -> str:
        """Title and text as Search-R1's corpus has them; all clients split at the first line end."""
        return f'"{self.title}"\n{self.passage.text}'


@dataclass(frozen=True)
class Found:
    """The hits of one question.

    stages: seconds of its batch. missing: partitions that did not answer. left_out: documents that the filter
    leaves out.
    """

    hits: tuple[ServedHit, ...] = ()
    stages: dict[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    left_out: int = 0


class Notes(dict[str, Any]):
    """The facts that a request adds to its line in the log."""


class Searching:
    """Answers questions for all routes."""

    def __init__(self, indexes: ServedIndexes, batches: RequestBatches, options: IndexOptions) -> None:
        self.indexes = indexes
        self.batches = batches
        self._options = options

    async def ask(
        self,
        questions: Sequence[str],
        k: int,
        index: str | None = None,
        pipeline: str | None = None,
        *,
        candidates: int | None = None,
        only: Filter = NO_FILTER,
        notes: Notes | None = None,
    ) -> list[Found]:
        """The k best passages of each question, in the order of the questions; none for an empty question.

        candidates: for a pipeline that re-ranks, the number of first-stage results to re-rank. only: the
        filter. Raises `UsageError` for too many questions or results, for an unknown pipeline, and for
        candidates with a pipeline that does not re-rank.
        """
        served = self.indexes.named(index)
        name = served.pipeline_name(pipeline)
        self.check_count(len(questions), "questions")
        self.check_k(k if candidates is None else max(k, candidates), len(questions))
        if candidates is not None and served.service.pipelines.first_stage(name) is None:
            raise UsageError(
                f'the pipeline "{name}" does not re-rank, and topk_retrieval is for those that do',
                'Leave it out, or start the service with a pipeline that re-ranks, such as "best".',
            )
        if notes is not None:
            notes |= {"index": served.name, "pipeline": name, "questions": len(questions), "k": k}
            if self._options.log_questions:
                notes["asked"] = list(questions)

        def work(texts: list[str]) -> list[Found]:
            return served.with_newest(lambda new: _search_version(new, name, k, candidates, only, texts))

        lane, kind = ("search", served.name, name), (k, candidates, only)
        self.batches.check_room(lane, len(questions))
        answers: list[Found] = await self.batches.run(lane, kind, questions, work)
        if notes is not None and answers:
            stages = answers[0].stages
            notes["stages"] = {stage: round(1000 * seconds, 2) for stage, seconds in stages.items()}
        return answers

    def check_count(self, count: int, what: str) -> None:
        """Raises `UsageError` for more texts than a request may have."""
        if count > self._options.max_questions:
            raise UsageError(
                f"{count:,} {what} in one request", f"At most {self._options.max_questions:,}: send several."
            )

    def check_k(self, k: int, questions: int = 1) -> None:
        """Raises `UsageError` for more passages than a question or a request may ask for."""
        if not 1 <= k <= self._options.max_k:
            raise UsageError(f"{k:,} passages of a question", f"From 1 to {self._options.max_k:,}.")
        if k * questions > _MAX_RESULTS:
            raise UsageError(
                f"{questions:,} questions with {k:,} passages each", f"At most {_MAX_RESULTS:,} together."
            )


def _search_version(
    service: SearchService, name: str, k: int, candidates: int | None, only: Filter, questions: list[str]
) -> list[Found]:
    count = len(service.index.passages)
    asked = {n: checked_question(text) for n, text in enumerate(questions) if without_hidden(text).strip()}
    found = [Found()] * len(questions)
    if not asked:
        return found
    queries = [Query(str(n), text) for n, text in asked.items()]
    pipeline = service.opened(name, only)
    first = service.pipelines.first_stage(name)
    with recorded_stages() as stages:
        if candidates is None or first is None or pipeline.rerank is None:
            ranking = pipeline(queries, min(k, count))
        else:
            before = service.opened(first.pipeline, only)(queries, min(candidates, count))
            ranking = pipeline.rerank(queries, before, min(k, before.depth))
    missing = tuple(service.index.searches.missing) if service.index.searches else ()
    left_out = service.left_out(only)
    began = time.perf_counter()
    for place, n in enumerate(asked):
        hits = tuple(_hit(service, row, score) for row, score in ranking.results(place)[:k])
        found[n] = Found(hits, stages, missing, left_out)
    stages["read passages"] = time.perf_counter() - began
    return found


def _hit(service: SearchService, row: int, score: float) -> ServedHit:
    return ServedHit(service.index.passages[row], score, service.index.document_url(row))


def sentence(error: LinkseekError) -> str:
    """An error as one text for a response."""
    return f"{error.message}. {error.hint}" if error.hint else error.message
