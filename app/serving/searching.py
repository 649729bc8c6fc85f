"""Questions of requests: checked, searched in batches, and answered with the texts of passages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from linkseek.app.answers import Answer, AnswerHit
from linkseek.app.pipelines.filters import NO_FILTER, Filter
from linkseek.app.service import SearchService
from linkseek.app.serving.batches import RequestBatches
from linkseek.app.serving.indexes import ServedIndexes
from linkseek.app.serving.options import IndexOptions
from linkseek.indexer.program.errors import LinkseekError, UsageError
from linkseek.indexer.program.text import without_hidden
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.query_words import matched_spans

MAX_RESULTS = 100_000
"""The maximum number of passages in a response: questions times k."""


EXTRAS = ("highlights", "evidence", "explain")
"""What a request may ask for besides the passages."""


class Notes(dict[str, Any]):
    """The facts that a request adds to its line in the log."""


class SearchKind(NamedTuple):
    """How questions are searched: those of one kind share batches. extras: some of `EXTRAS`."""

    pipeline: str
    k: int
    candidates: int | None = None
    only: Filter = NO_FILTER
    extras: frozenset[str] = frozenset()


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
        extras: frozenset[str] = frozenset(),
        notes: Notes | None = None,
    ) -> list[Answer]:
        """The k best passages of each question, in the order of the questions; none for an empty question.

        candidates: for a pipeline that re-ranks, the number of first-stage results to re-rank. only: the
        filter. extras: some of `EXTRAS`, from the version that answered. Raises `UsageError` for too many
        questions or results, an unknown pipeline, and candidates with a pipeline that does not re-rank.
        """
        served = self.indexes.named(index)
        name = served.pipeline_name(pipeline)
        self._check_size(len(questions), k if candidates is None else max(k, candidates))
        pipelines = served.service.pipelines
        if candidates is not None and pipelines.first_stage(name) is None:
            able = next((f', such as "{one}"' for one in served.pipelines if pipelines.first_stage(one)), "")
            raise UsageError(
                f'the pipeline "{name}" does not re-rank, but topk_retrieval is for pipelines that do',
                f"Omit it, or start the service with a pipeline that re-ranks{able}.",
            )
        if notes is not None:
            notes |= {"index": served.name, "pipeline": name, "questions": len(questions), "k": k}
            notes["asked"] = list(questions)

        kind = SearchKind(name, k, candidates, only, extras)

        def work(texts: list[str]) -> list[Answer]:
            return served.with_newest(lambda new: _search_version(new, kind, texts))

        lane = bool(extras), served.name, name  # searches should not wait for what takes long to explain
        self.batches.check_room(lane, len(questions))
        answers: list[Answer] = await self.batches.run(lane, kind, questions, work)
        if notes is not None and answers:
            stages = answers[0].stages
            notes["stages"] = {stage: round(1000 * seconds, 2) for stage, seconds in stages.items()}
        return answers

    def _check_size(self, questions: int, k: int) -> None:
        """Raises `UsageError` for more questions or passages than a request may ask for."""
        if questions > self._options.max_questions:
            raise UsageError(
                f"{questions:,} questions in one request",
                f"At most {self._options.max_questions:,}: send several.",
            )
        if not 1 <= k <= self._options.max_k:
            raise UsageError(f"{k:,} passages for a question", f"From 1 to {self._options.max_k:,}.")
        if k * questions > MAX_RESULTS:
            raise UsageError(
                f"{questions:,} questions with {k:,} passages each", f"At most {MAX_RESULTS:,} together."
            )


def _search_version(service: SearchService, kind: SearchKind, questions: list[str]) -> list[Answer]:
    name, only = kind.pipeline, kind.only
    asked = {n: checked_question(text) for n, text in enumerate(questions) if without_hidden(text).strip()}
    answers = [Answer(text, name, (), 0.0) for text in questions]
    if not asked:
        return answers
    queries = [Query(str(n), text) for n, text in asked.items()]
    *_, (ranking, seconds, stages) = service.ranked(queries, name, kind.k, only, kind.candidates)
    missing, excluded = service.missing, service.excluded(only)
    began = time.perf_counter()
    stages = {**stages}
    for place, (n, text) in enumerate(asked.items()):
        results = enumerate(ranking.results(place)[: kind.k], start=1)
        hits = (service.hit(rank, row, score) for rank, (row, score) in results)
        if kind.extras:
            hits = (_with_extras(service, hit, text, kind) for hit in hits)
        answers[n] = Answer(
            text, name, tuple(hits), seconds, stages, missing=missing, only=only, excluded=excluded
        )
    stages["read passages"] = time.perf_counter() - began
    return answers


def _with_extras(service: SearchService, hit: AnswerHit, question: str, kind: SearchKind) -> AnswerHit:
    added: dict[str, Any] = {}
    if "highlights" in kind.extras:
        added["highlights"] = matched_spans(question, hit.text, service.index.language)
    if "evidence" in kind.extras:
        added["evidence"] = asdict(service.evidence.of(question, hit.row))
    if "explain" in kind.extras:
        depth = min(kind.k, len(service.index.passages))
        added["explanation"] = service.explain(question, hit.row, kind.pipeline, depth, kind.only)
    return replace(hit, extras=added)


def sentence(error: LinkseekError) -> str:
    """An error as one text for a response."""
    return f"{error.message}. {error.hint}" if error.hint else error.message
