"""What the pages and the search command need, without Streamlit and without printing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from app.around.evidence import Evidence, LinkEvidence
from app.around.known_questions import Known, KnownQuestions
from app.around.query_words import Span, matched_spans
from app.pipeline_kinds import Pipeline, Reranking
from app.pipelines import Pipelines
from indexer.base.bundled import bundled
from indexer.base.errors import InputError, LinkseekError, UsageError
from indexer.base.text import without_hidden
from indexer.index import Index
from indexer.store.artifacts import read_index_manifest
from retriever.ranking import Query, Ranking
from retriever.search.stages import recorded_stages

MAX_QUESTION_CHARACTERS = 10_000
"""Several times what any encoder reads; a longer text was pasted by mistake."""

DEPTH = 100
"""How far down a passage is looked for that another pipeline has found."""

SAMPLE_CORPUS = "linkseek-sample.xml.bz2"
SAMPLE_QUESTIONS = bundled("samples/questions.jsonl")
SAMPLE_QRELS = SAMPLE_QUESTIONS.with_name("qrels.txt")

# Plain ones that words alone answer, and reworded ones that need more.
_SUGGESTED = ("sample-093", "sample-003", "sample-007", "sample-098", "sample-015", "sample-040")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands in a ranking."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a pipeline found, with the question's words in its text as `marks`.

    answers: where the question's answers stand in the text. relevant: whether it answers it, None
    where that is not known. before: with two stages, where the first one had it.
    """

    rank: int
    score: float
    passage_id: str
    document_id: str
    title: str
    text: str
    url: str
    marks: tuple[Span, ...]
    row: int = -1
    answers: tuple[Span, ...] = ()
    relevant: bool | None = None
    before: Place | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What one pipeline found for one question, and the seconds that it took, in all and by stage.

    places: passage row -> where it stands, further down than `hits` goes. first_stage: with two stages,
    the name of the first. waiting: whether these are its results, and the re-ranked order follows.
    """

    question: str
    pipeline: str
    hits: tuple[Hit, ...]
    seconds: float
    stages: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[int, Place] = field(default_factory=dict)
    first_stage: str | None = None
    waiting: bool = False

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "question": self.question,
            "pipeline": self.pipeline,
            "hits": [{name: getattr(hit, name) for name in _JSON_FIELDS} for hit in self.hits],
            "seconds": self.seconds,
        }


_JSON_FIELDS = ("rank", "score", "passage_id", "document_id", "title", "text", "url", "marks")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pipeline has no answer."""

    pipeline: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a passage may have been found: its text with marks as a hit has it, and its hyperlinks."""

    hit: Hit
    links: LinkEvidence


class SearchService:
    """One index with its pipelines, opened once and shared by all callers, in any thread."""

    def __init__(self, index: Path, pipelines_file: Path | None = None) -> None:
        """Raises `DamagedIndexError` if there is no whole index, `UsageError` for a bad file."""
        self.index = Index.open(index)
        self.pipelines = Pipelines(self.index, pipelines_file)
        self._ready: dict[str, Pipeline] = {}
        self._opening = threading.Lock()

    # --- searching ------------------------------------------------------------------------------

    def is_ready(self, pipeline: str) -> bool:
        """Whether a search starts at once; the first one of a pipeline may have to load a model."""
        return pipeline in self._ready

    def search(self, question: str, pipeline: str, k: int = 10) -> Answer:
        """The k best passages. Raises `UsageError` for an empty question or an unknown pipeline.

        `Answer.seconds` is the search alone: opening and a first, slower run are over by then.
        """
        question = checked_question(question)
        *_, answer = self._stages(question, pipeline, k)
        return answer

    def _stages(self, question: str, pipeline: str, k: int) -> Iterator[Answer]:
        """The answer of each stage; the next one is searched for when it is asked for."""
        if self.pipelines.reads_run(pipeline):
            raise UsageError(
                f'the pipeline "{pipeline}" reads a run file, which knows no question but its own',
                "It can be evaluated: app/evaluate.py --pipeline NAME.",
            )
        run, queries = self._open(pipeline), [Query("question", question)]
        two = run if isinstance(run, Reranking) else None
        depth = min(max(k, two.depth if two else DEPTH), len(self.index.passages))
        with _timed() as taken:
            ranking = (two.first if two else run)(queries, depth)
        answer = self._answer(question, pipeline, ranking, k, taken)
        if two is None:
            yield answer
            return
        first = replace(answer, first_stage=self.first_stage(pipeline), waiting=True)
        yield first
        with _timed() as again:
            ranking = two.rerank(queries, ranking, depth)
        taken = _Taken(taken.seconds + again.seconds, {**taken.stages, **again.stages})
        answer = self._answer(question, pipeline, ranking, k, taken)
        hits = tuple(replace(hit, before=first.places.get(hit.row)) for hit in answer.hits)
        yield replace(answer, hits=hits, first_stage=first.first_stage)

    def _answer(self, question: str, pipeline: str, ranking: Ranking, k: int, taken: _Taken) -> Answer:
        known = self.known.find(question)
        results = ranking.results(0)
        hits = tuple(
            self._hit(rank, row, score, question, known)
            for rank, (row, score) in enumerate(results[:k], start=1)
        )
        places = {row: Place(rank, score) for rank, (row, score) in enumerate(results, start=1)}
        return Answer(question, pipeline, hits, taken.seconds, taken.stages, places)

    def first_stage(self, pipeline: str) -> str | None:
        """The pipeline whose results this one re-ranks; None if it is not made of two stages."""
        entry = self.pipelines.entries.get(pipeline)
        return entry.first_stage if entry else None

    def answers(self, question: str, pipelines: Sequence[str], k: int) -> Iterator[Answer | Failure]:
        """What each pipeline finds, as soon as it is there; one that fails leaves the others alone.

        Those of two stages come twice: all first stages before the first of the re-ranked orders, which
        take longer. Raises `UsageError` for an empty or too long question.
        """
        question = checked_question(question)
        waiting = {name: self._stages(question, name, k) for name in pipelines}
        while waiting:
            for name, stages in list(waiting.items()):
                try:
                    answer = next(stages)
                except LinkseekError as error:
                    yield Failure(name, error.message, error.hint)
                    del waiting[name]
                    continue
                if not answer.waiting:
                    del waiting[name]
                yield answer

    def why(self, question: str, passage_id: str) -> Reason:
        """What speaks for a passage. Raises `UsageError` for a bad question, `InputError` for no passage."""
        question = checked_question(question)
        row = int(self.index.passages.rows_of([passage_id])[0])
        if row < 0:
            raise InputError(
                f"there is no passage {passage_id[:100]} in this index",
                "The index may have been built again since this address was shared.",
            )
        hit = self._hit(0, row, 0.0, question, self.known.find(question))
        return Reason(hit, self.evidence.of(question, row))

    @cached_property
    def evidence(self) -> Evidence:
        """What the hyperlinks of this index say."""
        return Evidence(self.index)

    def _open(self, name: str) -> Pipeline:
        if name not in self._ready:
            with self._opening:  # two visitors must not load the same model twice
                if name not in self._ready:
                    pipeline = self.pipelines.open(name)
                    pipeline([Query("first", "first")], 1)
                    self._ready[name] = pipeline
        return self._ready[name]

    def _hit(self, rank: int, row: int, score: float, question: str, known: Known) -> Hit:
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
            row=row,
            answers=known.spans(passage.text),
            relevant=known.is_right(passage),
        )

    # --- what there is to choose from -----------------------------------------------------------

    def describe(self, pipeline: str) -> str:
        """What a pipeline does, in a few words."""
        return self.pipelines.describe(pipeline)

    @cached_property
    def known(self) -> KnownQuestions:
        """The questions of the sample, if this is its index; none for any other."""
        if self.index.manifest.get("corpus", {}).get("file") != SAMPLE_CORPUS:
            return KnownQuestions([])
        return KnownQuestions.read(SAMPLE_QUESTIONS, SAMPLE_QRELS)

    def suggestions(self, page: int = 0) -> list[str]:
        """Questions to start with; other ones on every page."""
        return self.known.suggestions(page, _SUGGESTED)


@dataclass(slots=True)
class _Taken:
    """What a search has taken, in all and by stage."""

    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)


@contextmanager
def _timed() -> Iterator[_Taken]:
    """What runs inside is timed; the figures are there once it is left."""
    taken = _Taken()
    with recorded_stages() as stages:
        started = time.perf_counter()
        yield taken
        taken.seconds = time.perf_counter() - started
    taken.stages = stages


def checked_question(question: str) -> str:
    """A question as it is searched for. Raises `UsageError` if it is empty or far too long.

    What is no Unicode text, such as a broken byte of a command line, becomes a question mark. Marks that
    nobody sees, which come along when a text is copied, are removed: Lucene takes them for a part of a word.
    """
    question = without_hidden(question.encode("utf-8", "replace").decode()).strip()
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
    return not path.name.startswith(".") and path.suffix not in (".building", ".tmp") and path.is_dir()
