"""Searching for the pages and the search command, without Streamlit and without printing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path

import numpy as np

from linkseek.app.answers import Answer, AnswerHit, Failure, First, Place, Reason, hop_steps
from linkseek.app.context.article import is_cut_before, section_path
from linkseek.app.context.evidence import Evidence
from linkseek.app.context.known_questions import Ground, Known, KnownQuestions
from linkseek.app.context.suggested_questions import suggest_questions
from linkseek.app.pipelines.catalogue import Models, Pipelines
from linkseek.app.pipelines.filters import NO_FILTER, Filter, FilteredPipelines, offered_conditions
from linkseek.app.pipelines.pipeline_entry import OpenPipeline
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.bundled import bundled
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.store.artifacts import index_stamp
from linkseek.indexer.store.manifest_files import is_index
from linkseek.retriever.links.topology import Topology
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import Explanation
from linkseek.retriever.search.query_words import matched_spans
from linkseek.retriever.search.stages import recorded_stages

DEPTH = 100
"""The number of ranks of each pipeline that are compared with other pipelines."""

SAMPLE_ENCODERS = (DEFAULT_ENCODER, "hlp")
"""Of the sample's index: one that has not learned from hyperlinks, and one that has."""

SAMPLE_CORPUS = "linkseek-sample.xml.bz2"
SAMPLE_QUESTIONS = bundled("samples/questions.jsonl")
SAMPLE_QRELS = SAMPLE_QUESTIONS.with_name("qrels.txt")

_OWN_SUGGESTIONS, _STARTS = 60, 12
# Plain ones that words alone answer, and reworded ones that need more.
_SUGGESTED = ("sample-093", "sample-003", "sample-007", "sample-098", "sample-015", "sample-040")


class SearchService:
    """One index with its pipelines, opened once and shared by all callers, in any thread."""

    def __init__(
        self,
        index: Path | OpenIndex,
        pipelines_file: Path | None = None,
        models: Models | None = None,
        asked: Callable[[str], Known] = lambda question: Known(),
    ) -> None:
        """index: a folder, or an index that is open, such as one that a cluster searches.

        models: shared with other indexes. asked: finds the questions of evaluations.

        Raises `DamagedIndexError` for a missing or damaged index, `UsageError` for an invalid file.
        """
        self.stamp = index_stamp(index.path if isinstance(index, OpenIndex) else index)
        self.index = index if isinstance(index, OpenIndex) else OpenIndex.open(index)
        self.pipelines = Pipelines(self.index, pipelines_file, models, first_run=True)
        self._filtered = FilteredPipelines(self.pipelines)
        self._asked = asked

    def is_ready(self, pipeline: str) -> bool:
        """Whether a pipeline is open, so that a search starts at once."""
        return self.pipelines.is_ready(pipeline)

    def opened(self, pipeline: str, only: Filter = NO_FILTER) -> OpenPipeline:
        """A pipeline of all documents, or of those that a filter keeps. Raises as `Pipelines.open`."""
        opened = self.pipelines.start(pipeline).result()
        return self._filtered(only).open(pipeline) if only else opened

    def left_out(self, only: Filter) -> int:
        """How many documents a filter leaves out."""
        return self._filtered(only).left_out if only else 0

    def search(self, question: str, pipeline: str, k: int = 10, only: Filter = NO_FILTER) -> Answer:
        """The k best passages. Raises `UsageError` for an empty question or an unknown pipeline.

        `Answer.seconds` is the search alone, without opening the pipeline and its first, slower run.
        """
        question = checked_question(question)
        *_, answer = self._stages(question, pipeline, k, only, self.find_known(question))
        return answer

    def _stages(self, question: str, pipeline: str, k: int, only: Filter, known: Known) -> Iterator[Answer]:
        """The answer of each stage, searched for when it is requested."""
        if self.pipelines.reads_run(pipeline):
            raise UsageError(
                f'the pipeline "{pipeline}" reads a run file, which answers its own questions only',
                "It can be evaluated: linkseek evaluate --pipeline NAME.",
            )
        queries, two = [Query("question", question)], self.pipelines.first_stage(pipeline)
        depth = self.depth(pipeline, k)
        first = self.opened(two.pipeline if two else pipeline, only)
        ranking, seconds, stages = _timed(lambda: first(queries, depth))
        answer = self._answer(question, pipeline, ranking, k, seconds, stages, only, known)
        if two is None:
            yield answer
            return
        before = replace(answer, first_stage=two.pipeline, waiting=True)
        yield before
        rerank = self.opened(pipeline, only).rerank
        assert rerank is not None  # of a pipeline with a first stage
        ranking, more_seconds, more_stages = _timed(lambda: rerank(queries, ranking, depth))
        seconds, stages = seconds + more_seconds, stages | more_stages
        answer = self._answer(question, pipeline, ranking, k, seconds, stages, only, known)
        yield replace(answer, first_stage=two.pipeline, before=before.places)

    def depth(self, pipeline: str, k: int) -> int:
        """How many passages are searched for, to show k; at most all."""
        two = self.pipelines.first_stage(pipeline)
        return min(max(k, two.depth if two else DEPTH), len(self.index.passages))

    def _answer(
        self,
        question: str,
        pipeline: str,
        ranking: Ranking,
        k: int,
        seconds: float,
        stages: dict[str, float],
        only: Filter,
        known: Known,
    ) -> Answer:
        results = ranking.results(0)
        paths = {row: hop_steps(self.index, path) for row, _ in results if (path := ranking.path(0, row))}
        hits = tuple(
            replace(self._hit(rank, row, score, question, known), path=paths.get(row, ()))
            for rank, (row, score) in enumerate(results[:k], start=1)
        )
        places = {row: Place(rank, score) for rank, (row, score) in enumerate(results, start=1)}
        missing = tuple(self.index.searches.missing) if self.index.searches else ()
        return Answer(
            question,
            pipeline,
            hits,
            seconds,
            stages,
            places,
            missing=missing,
            paths=paths,
            only=only,
            left_out=self.left_out(only),
            firsts=self._firsts([row for row, _ in results], known),
        )

    def _firsts(self, rows: Sequence[int], known: Known) -> dict[Ground, First | None]:
        """The first relevant passage on each known ground."""
        firsts: dict[Ground, First | None] = dict.fromkeys(known.grounds)
        articles: set[str] = set()
        for rank, row in enumerate(rows if firsts else (), start=1):
            passage = self.index.passages[row]
            articles.add(passage.document_id)
            for ground, relevant in known.relevance_of(passage).items():
                if relevant and firsts[ground] is None:
                    by_article = ground == "judgements" and passage.id not in (known.relevance or ())
                    firsts[ground] = First(rank, len(articles) if by_article else 0)
            if all(firsts.values()):
                break
        return firsts

    def answers(
        self,
        question: str,
        pipelines: Sequence[str],
        k: int,
        only: Filter = NO_FILTER,
        known: Known | None = None,
    ) -> Iterator[Answer | Failure]:
        """The answer of each pipeline, as soon as it is there; one that fails does not affect the others.

        Pipelines that re-rank answer twice: the first stage, for which their model is not needed, and the
        re-ranked order. Open pipelines are asked first, first stages before all; the others are opened
        meanwhile, each on its own, but pipelines without a model before pipelines with one, which would slow
        them down. A pipeline that could not be opened is tried again for the next question. known: what is
        known of the question, instead of `find_known`. Raises `UsageError` for an empty or too long question.
        """
        question = checked_question(question)
        known = known or self.find_known(question)
        stages = {name: self._stages(question, name, k, only, known) for name in pipelines}
        first_stage = self.pipelines.first_stage
        needed = {name: two.pipeline if (two := first_stage(name)) else name for name in pipelines}
        opening: dict[str, Future[OpenPipeline]] = {}  # those that this question waits for
        while stages:
            failed = [name for name in stages if _has_failed(opening.get(needed[name]))]
            ready = [name for name in stages if self.is_ready(needed[name])]
            first_stages = [name for name in ready if first_stage(needed[name]) is None]
            if not (failed or first_stages):
                closed = [needed[name] for name in stages if name not in ready]
                closed = [name for name in closed if self.pipelines.has_words(name)] or closed
                for name in closed:
                    if name not in opening:
                        opening[name] = self.pipelines.start(name)
                if not ready:
                    wait([opening[name] for name in closed], return_when=FIRST_COMPLETED)
                    continue
            name = [*failed, *first_stages, *ready][0]
            try:
                if name in failed:
                    opening[needed[name]].result()  # raises
                answer = next(stages[name])
            except Exception as error:
                yield Failure.of(name, error)
                del stages[name]
                continue
            needed[name] = name
            if not answer.waiting:
                del stages[name]
            yield answer

    def why(
        self,
        question: str,
        passage_id: str,
        pipelines: Sequence[str] = (),
        k: int = 10,
        only: Filter = NO_FILTER,
        known: Known | None = None,
    ) -> Reason:
        """The evidence for a passage. pipelines: those that have answered the question. k, only, known: as in
        `answers`.

        Raises `UsageError` for a bad question, `InputError` for no passage.
        """
        question = checked_question(question)
        row = self._row(passage_id)
        hit = self._hit(0, row, 0.0, question, known or self.find_known(question))
        scores = {name: self._explained(question, row, name, self.depth(name, k), only) for name in pipelines}
        by_links = tuple(name for name in pipelines if self.pipelines.reads_links(name))
        return Reason(hit, self.evidence.of(question, row), scores, by_links)

    def explained(self, answer: Answer, k: int) -> list[Explanation | None]:
        """Why each hit of an answer has its score. k: of the search."""
        depth = self.depth(answer.pipeline, k)
        question, name = answer.question, answer.pipeline
        return [self._explained(question, hit.row, name, depth, answer.only) for hit in answer.hits]

    def explain(
        self, question: str, passage_id: str, pipeline: str, depth: int, only: Filter = NO_FILTER
    ) -> Explanation | None:
        """Why a passage has its score in a search for exactly `depth` passages; None if it is not among them.

        Raises as `why`.
        """
        return self._explained(checked_question(question), self._row(passage_id), pipeline, depth, only)

    def _row(self, passage_id: str) -> int:
        row = int(self.index.passages.rows_of([passage_id])[0])
        if row < 0:
            raise InputError(
                f"there is no passage {passage_id[:100]} in this index",
                "The index may have been built again since this address was shared.",
            )
        return row

    def _explained(
        self, question: str, row: int, pipeline: str, depth: int, only: Filter = NO_FILTER
    ) -> Explanation | None:
        return self.opened(pipeline, only).explained(Query("question", question), row, depth)

    @shared_property
    def conditions(self) -> list[str]:
        """The conditions of filters that fit this index."""
        return offered_conditions(self.index)

    @shared_property
    def evidence(self) -> Evidence:
        """The links around any passage of this index."""
        return Evidence(self.index, self.topology)

    @shared_property
    def topology(self) -> Topology:
        """All links of this index, for everything that reads the links around a passage or an article."""
        return Topology(self.index.links, np.asarray(self.index.passages.offsets))

    def warm(self, pipelines: Sequence[str]) -> None:
        """Open pipelines in the background, in this order, so that the first question need not wait."""
        self.pipelines.warm(pipelines)

    @shared_property
    def most_linked(self) -> list[int]:
        """The documents that most others link to: good ones to begin with."""
        most: list[int] = np.argsort(-self.topology.in_degree, kind="stable")[:_STARTS].tolist()
        return most

    def _hit(self, rank: int, row: int, score: float, question: str, known: Known) -> AnswerHit:
        passage = self.index.passages[row]
        return AnswerHit(
            rank=rank,
            score=score,
            passage_id=passage.id,
            document_id=passage.document_id,
            title=passage.title,
            text=passage.text,
            url=self.index.passage_url(row),
            marks=tuple(matched_spans(question, passage.text, self.index.language)),
            row=row,
            answers=known.spans(passage.text),
            relevance=known.relevance_of(passage),
            section="" if self.index.manifest.text.headings else section_path(self.index, row),
            cut=(is_cut_before(self.index, row), is_cut_before(self.index, row + 1)),
        )

    @shared_property
    def known(self) -> KnownQuestions:
        """The questions of the sample, if this is its index; none for any other."""
        if self.index.manifest.corpus.file != SAMPLE_CORPUS:
            return KnownQuestions([])
        return KnownQuestions.read(SAMPLE_QUESTIONS, SAMPLE_QRELS)

    def find_known(self, question: str) -> Known:
        """The answers and judgements of a question of the sample or of an evaluation."""
        return self.known.find(question) or self._asked(question)

    def suggestions(self, page: int = 0) -> list[str]:
        """Questions to start with, different ones on every page: with known answers, or from the index."""
        if self.known.queries:
            return self.known.suggestions(page, _SUGGESTED)
        return self._own_questions.suggestions(page)

    @shared_property
    def _own_questions(self) -> KnownQuestions:
        texts = suggest_questions(self.index, _OWN_SUGGESTIONS).questions
        return KnownQuestions([Query(str(number), text) for number, text in enumerate(texts)])


def _has_failed(opened: Future[OpenPipeline] | None) -> bool:
    """Whether a pipeline could not be opened; not for one that is being opened."""
    return opened is not None and opened.done() and opened.exception() is not None


def _timed(search: Callable[[], Ranking]) -> tuple[Ranking, float, dict[str, float]]:
    """The ranking of a search, and its seconds, in total and by stage."""
    with recorded_stages() as stages:
        started = time.perf_counter()
        ranking = search()
        seconds = time.perf_counter() - started
    return ranking, seconds, stages


def list_indexes(chosen: Path) -> dict[str, Path]:
    """The indexes in the same folder as `chosen`, which is always included: name -> path, sorted by name.

    Damaged ones are among them.
    """
    chosen = chosen.resolve()
    indexes = {chosen.name: chosen}
    for path in chosen.parent.glob("[!.]*"):
        if not path.suffix.startswith(".linkseek-") and is_index(path):  # not being built or replaced
            indexes.setdefault(path.name, path)
    return dict(sorted(indexes.items()))
