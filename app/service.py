"""What the pages and the search command need, without Streamlit and without printing."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.marking import Span, matched_spans
from app.pipelines import Pipelines
from indexer.errors import UsageError
from indexer.index import Index
from retriever.ranking import Query

MAX_QUESTION_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a pipeline found. `marks` are the question's words in `text`."""

    rank: int
    score: float
    passage_id: str
    document_id: str
    title: str
    text: str
    url: str
    marks: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one pipeline found for one question, and the seconds that it took."""

    question: str
    pipeline: str
    hits: tuple[Hit, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


class SearchService:
    """One index with its pipelines, opened once and shared by all callers."""

    def __init__(self, index: Path, pipelines_file: Path | None = None) -> None:
        """Raises `DamagedIndexError` if there is no whole index, `UsageError` for a bad file."""
        self.index = Index.open(index)
        self.pipelines = Pipelines(self.index, pipelines_file)

    def search(self, question: str, pipeline: str, k: int = 10) -> Answer:
        """The k best passages. Raises `UsageError` for an empty question or an unknown pipeline."""
        question = question.strip()
        if not question:
            raise UsageError("the question is empty", "Ask something.")
        if len(question) > MAX_QUESTION_CHARACTERS:
            raise UsageError(
                f"the question has {len(question):,} characters",
                f"At most {MAX_QUESTION_CHARACTERS:,} are read.",
            )
        run = self.pipelines.open(pipeline)
        started = time.perf_counter()
        ranking = run([Query("question", question)], min(k, len(self.index.passages)))
        seconds = time.perf_counter() - started
        hits = tuple(
            self._hit(rank, row, score, question)
            for rank, (row, score) in enumerate(ranking.results(0), start=1)
        )
        return Answer(question, pipeline, hits, seconds)

    def _hit(self, rank: int, row: int, score: float, question: str) -> Hit:
        passage = self.index.passages[row]
        return Hit(
            rank=rank,
            score=score,
            passage_id=passage.id,
            document_id=passage.document_id,
            title=passage.title,
            text=passage.text,
            url=self.index.document_url(row),
            marks=tuple(matched_spans(question, passage.text)),
        )
