"""What the pages and the search command need, without Streamlit and without printing."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.marking import Span, matched_spans
from app.pipelines import (
    Bm25Entry,
    DenseEntry,
    Pipeline,
    Pipelines,
    QueryLikelihoodEntry,
    ReciprocalRankEntry,
    RunEntry,
    WeightedEntry,
)
from indexer.artifacts import read_index_manifest
from indexer.errors import LinkseekError, UsageError
from indexer.index import Index
from retriever.queries import read_queries
from retriever.ranking import Query

MAX_QUESTION_CHARACTERS = 10_000
"""Several times what any encoder reads; a longer text was pasted by mistake."""

# Soft hyphens, zero-width spaces, directions of writing; not the joiners, which make another word.
_INVISIBLE = dict.fromkeys(
    [0xAD, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF]
)

SAMPLE_CORPUS = "linkseek-sample.xml.bz2"
SAMPLE_QUESTIONS = Path(__file__).parents[1] / "samples" / "questions.jsonl"

# Plain ones that words alone answer, and reworded ones that need more.
_SUGGESTED = ("sample-093", "sample-003", "sample-007", "sample-098", "sample-015", "sample-040")


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
    """One index with its pipelines, opened once and shared by all callers, in any thread."""

    def __init__(self, index: Path, pipelines_file: Path | None = None) -> None:
        """Raises `DamagedIndexError` if there is no whole index, `UsageError` for a bad file."""
        self.index = Index.open(index)
        self.pipelines = Pipelines(self.index, pipelines_file)
        self._ready: dict[str, Pipeline] = {}
        self._opening = threading.Lock()

    def is_ready(self, pipeline: str) -> bool:
        """Whether a search starts at once; the first one of a pipeline may have to load a model."""
        return pipeline in self._ready

    def search(self, question: str, pipeline: str, k: int = 10) -> Answer:
        """The k best passages. Raises `UsageError` for an empty question or an unknown pipeline.

        `Answer.seconds` is the search alone: opening and a first, slower run are over by then.
        """
        question = checked_question(question)
        if self.pipelines.reads_run(pipeline):
            raise UsageError(
                f'the pipeline "{pipeline}" reads a run file, which knows no question but its own',
                "It can be evaluated: app/evaluate.py --pipeline NAME.",
            )
        run = self._open(pipeline)
        started = time.perf_counter()
        ranking = run([Query("question", question)], min(k, len(self.index.passages)))
        seconds = time.perf_counter() - started
        hits = tuple(
            self._hit(rank, row, score, question)
            for rank, (row, score) in enumerate(ranking.results(0), start=1)
        )
        return Answer(question, pipeline, hits, seconds)

    def describe(self, pipeline: str) -> str:
        """What a pipeline does, in a few words."""
        match self.pipelines.entries[pipeline]:
            case Bm25Entry(k1=k1, b=b):
                return f"Lucene’s BM25, k1 = {k1:g}, b = {b:g}"
            case QueryLikelihoodEntry(mu=mu):
                return f"Lucene’s query likelihood, mu = {mu:g}"
            case DenseEntry(encoder=encoder):
                return f"Vectors of {encoder or self.index.manifest.get('default_encoder')}"
            case RunEntry(run=path):
                return f"Results of the run file {path.name}"
            case ReciprocalRankEntry(of=of):
                return f"{' and '.join(of)}, fused by rank"
            case WeightedEntry(of=of, weights=weights):
                shares = zip(weights, of, strict=False)
                return f"{' + '.join(f'{weight:g} × {name}' for weight, name in shares)}, fused by score"

    def suggestions(self) -> list[str]:
        """Questions to start with: a few of the sample's own; none for any other index."""
        if self.index.manifest.get("corpus", {}).get("file") != SAMPLE_CORPUS:
            return []
        try:
            questions = {query.id: query.text for query in read_queries(SAMPLE_QUESTIONS)}
        except (LinkseekError, OSError):  # installed without the samples
            return []
        return [questions[id_] for id_ in _SUGGESTED if id_ in questions]

    def _open(self, name: str) -> Pipeline:
        if name not in self._ready:
            with self._opening:  # two visitors must not load the same model twice
                if name not in self._ready:
                    pipeline = self.pipelines.open(name)
                    pipeline([Query("first", "first")], 1)
                    self._ready[name] = pipeline
        return self._ready[name]

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


def checked_question(question: str) -> str:
    """A question as it is searched for. Raises `UsageError` if it is empty or far too long.

    What is no Unicode text, such as a broken byte of a command line, becomes a question mark. Marks that
    nobody sees, which come along when a text is copied, are removed: Lucene takes them for a part of a word.
    """
    question = question.encode("utf-8", "replace").decode().translate(_INVISIBLE).strip()
    if not question:
        raise UsageError("the question is empty", "Ask something.")
    if len(question) > MAX_QUESTION_CHARACTERS:
        raise UsageError(
            f"the question has {len(question):,} characters",
            f"At most {MAX_QUESTION_CHARACTERS:,} are read.",
        )
    return question


# --- the indexes that can be chosen from ----------------------------------------------------------


def list_indexes(chosen: Path) -> dict[str, Path]:
    """The index folders beside `chosen`, and itself in any case: name -> path, sorted by name."""
    chosen = chosen.resolve()
    found = {chosen.name: chosen}
    try:
        beside = [path for path in chosen.parent.iterdir() if _is_published(path)]
    except OSError:
        beside = []
    for path in beside:
        try:
            read_index_manifest(path)
        except (LinkseekError, OSError):
            continue
        found.setdefault(path.name, path)
    return dict(sorted(found.items()))


def _is_published(path: Path) -> bool:
    """Whether a folder may be an index in use, not one that is being built or replaced."""
    return not path.name.startswith(".") and path.suffix not in (".building", ".old") and path.is_dir()
