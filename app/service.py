"""Searching for the pages and the search command, without Streamlit and without printing."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from linkseek.app.answers import Answer, AnswerHit, Failure, First, Place, Reason, hop_steps
from linkseek.app.context.article import is_cut_before, section_path
from linkseek.app.context.evidence import Evidence
from linkseek.app.context.known_questions import Ground, Known, KnownQuestions, sample_questions
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.filters import NO_FILTER, Filter, Filtered, offered_conditions
from linkseek.app.pipelines.open_models import Models
from linkseek.app.pipelines.pipeline_entry import OpenPipeline
from linkseek.app.testsets.known_items import suggested_items
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.defaults import DEFAULT_ENCODER
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.store.artifacts import index_stamp
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.indexer.store.manifest_files import is_index
from linkseek.retriever.links.sentences import sentence_spans
from linkseek.retriever.links.topology import Topology
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import MAX_CHARACTERS, Explanation
from linkseek.retriever.search.query_words import Span, matched_spans
from linkseek.retriever.search.searching import Ranked, search

DEPTH = 100
"""The number of ranks of each pipeline that are compared with other pipelines."""

SAMPLE_ENCODERS = (DEFAULT_ENCODER, "hlp")
"""The encoders of the sample's index: one that was not trained on links, and one that was."""

_STARTS = 12
_FILTERS = 8  # whose documents are kept
_SUGGESTED = 60


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
        self._filtered = lru_cache(_FILTERS)(partial(Filtered, self.pipelines))
        self._asked = asked

    def opened(self, pipeline: str, only: Filter = NO_FILTER) -> OpenPipeline:
        """A pipeline over all documents, or over those that a filter keeps. Raises as `Pipelines.open`."""
        opened = self.pipelines.start(pipeline).result()
        return self._filtered(only).open(pipeline) if only else opened

    def excluded(self, only: Filter) -> int:
        """The number of documents that a filter excludes."""
        return self._filtered(only).excluded if only else 0

    def ranked(
        self,
        queries: Sequence[Query],
        pipeline: str,
        k: int,
        only: Filter = NO_FILTER,
        candidates: int | None = None,
    ) -> Iterator[Ranked]:
        """The ranking of each stage of a pipeline: of the first stage, then of the re-ranking, if it has one.

        A stage is opened and run when it is requested; its seconds include the stage before. candidates: for
        a pipeline that re-ranks, the number of first-stage results that it reads; by default its depth, or k
        if that is larger. Raises as `Pipelines.open`.
        """
        two = self.pipelines.first_stage(pipeline)
        depth = k if two is None else candidates or max(k, two.depth)
        depth = min(depth, len(self.index.passages))
        first = self.opened(two.pipeline if two else pipeline, only)
        before = search(first, queries, depth, len(queries))
        yield before
        if two is None:
            return
        rerank = self.opened(pipeline, only).rerank
        assert rerank is not None  # of a pipeline with a first stage

        def again(asked: Sequence[Query], k: int) -> Ranking:
            return rerank(asked, before.ranking, k)

        after = search(again, queries, min(k, depth), len(queries))
        yield Ranked(after.ranking, before.seconds + after.seconds, {**before.stages, **after.stages})

    def search(self, question: str, pipeline: str, k: int = 10, only: Filter = NO_FILTER) -> Answer:
        """The k best passages. Raises `UsageError` for an empty question or an unknown pipeline.

        `Answer.seconds` is the search alone, without opening the pipeline and its first, slower run.
        """
        question = checked_question(question)
        *_, answer = self._stages(question, pipeline, k, only, self.find_known(question))
        return answer

    def _stages(self, question: str, pipeline: str, k: int, only: Filter, known: Known) -> Iterator[Answer]:
        """The answer of each stage, searched for when it is requested."""
        two, before = self.pipelines.first_stage(pipeline), None
        for ranked in self.ranked([Query("question", question)], pipeline, self.depth(pipeline, k), only):
            answer = self._answer(question, pipeline, ranked, k, only, known)
            if two is not None:
                answer = replace(
                    answer, first_stage=two.pipeline, waiting=before is None, before=before or {}
                )
            before = answer.places
            yield answer

    def depth(self, pipeline: str, k: int) -> int:
        """How many passages are searched for, to show k; at most all."""
        two = self.pipelines.first_stage(pipeline)
        return min(max(k, two.depth if two else DEPTH), len(self.index.passages))

    def _answer(
        self, question: str, pipeline: str, ranked: Ranked, k: int, only: Filter, known: Known
    ) -> Answer:
        ranking = ranked.ranking
        results = ranking.results(0)
        paths = {row: hop_steps(self.index, path) for row, _ in results if (path := ranking.path(0, row))}
        return Answer(
            question,
            pipeline,
            tuple(
                replace(self.marked_hit(question, row, known, rank, score), path=paths.get(row, ()))
                for rank, (row, score) in enumerate(results[:k], start=1)
            ),
            ranked.seconds,
            ranked.stages,
            places={row: Place(rank, score) for rank, (row, score) in enumerate(results, start=1)},
            missing=self.missing,
            paths=paths,
            only=only,
            excluded=self.excluded(only),
            firsts=self._firsts([row for row, _ in results], known),
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """The partitions of the index that did not answer the last search."""
        return tuple(self.index.searches.missing) if self.index.searches else ()

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
        them down. A pipeline that could not be opened is tried again for the next question. known: the known
        answers to the question, instead of `find_known`. Raises `UsageError` for an empty or too long
        question.
        """
        question = checked_question(question)
        known = known or self.find_known(question)
        first_stage, is_ready = self.pipelines.first_stage, self.pipelines.is_ready
        stages = {name: self._stages(question, name, k, only, known) for name in pipelines}
        # what the next stage of each needs open: first its first stage, if it has one, then itself
        needs = {name: two.pipeline if (two := first_stage(name)) else name for name in pipelines}
        opening: dict[str, Future[OpenPipeline]] = {}  # those that this question waits for
        while stages:
            failed = [name for name in stages if _has_failed(opening.get(needs[name]))]
            ready = [name for name in stages if is_ready(needs[name])]
            quick = [name for name in ready if first_stage(needs[name]) is None]
            # 1. Failures and searches, which take milliseconds. A pipeline that fails is over.
            # 2. Before a re-ranking, which takes seconds, everything that is closed begins to open; but first
            #    the searches of words alone, since models that load at the same time would slow them down.
            closed = [needs[name] for name in stages if name not in ready]
            if not (failed or quick):
                closed = [*filter(self.pipelines.has_words, closed)] or closed
                opening |= {name: self.pipelines.start(name) for name in closed if name not in opening}
            # 3. Re-rankings, while the others open; without any, wait for whatever opens first.
            if not (failed or ready):
                wait([opening[name] for name in closed], return_when=FIRST_COMPLETED)
                continue
            name = [*failed, *quick, *ready][0]
            try:
                if name in failed:
                    opening[needs[name]].result()  # raises
                answer = next(stages[name])
            except Exception as error:
                yield Failure.of(name, error)
                del stages[name]
                continue
            needs[name] = name
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
        turn: str = "",
    ) -> Reason:
        """The evidence for a passage. pipelines: the pipelines that have answered the question. k, only,
        known: as in `answers`. turn: the pipeline whose weights are to be turned.

        Raises `UsageError` for a bad question, `InputError` for no passage.
        """
        question = checked_question(question)
        row = self._row(passage_id)
        hit = self.marked_hit(question, row, known or self.find_known(question))
        scores = {name: self.explain(question, row, name, self.depth(name, k), only) for name in pipelines}
        by_links = tuple(name for name in pipelines if self.pipelines.reads_links(name))
        sums = {name: shares for name in pipelines if (shares := self.opened(name, only).shares)}
        asked = Query("question", question)
        turned = {
            name: shares(asked, self.depth(name, k)) if name == turn else None
            for name, shares in sums.items()
        }
        return Reason(hit, self.evidence.of(question, row), scores, by_links, turned)

    def explained(self, answer: Answer, k: int) -> list[Explanation | None]:
        """Why each hit of an answer has its score. k: the k of the search."""
        depth = self.depth(answer.pipeline, k)
        question, name = answer.question, answer.pipeline
        return [self.explain(question, hit.row, name, depth, answer.only) for hit in answer.hits]

    def explain(
        self, question: str, row: int, pipeline: str, depth: int, only: Filter = NO_FILTER
    ) -> Explanation | None:
        """Why a passage has its score in a search for exactly `depth` passages; None if it is not among them.

        Raises as `Pipelines.open`.
        """
        return self.opened(pipeline, only).explained(Query("question", question), row, depth)

    def _row(self, passage_id: str) -> int:
        row = int(self.index.passages.rows_of([passage_id])[0])
        if row < 0:
            raise InputError(
                f"there is no passage {passage_id[:100]} in this index",
                "The index may have been rebuilt since this address was shared.",
            )
        return row

    def section(self, row: int, at: int) -> str:
        """The headings above a character of a passage; empty where its title has them."""
        return "" if self.index.manifest.text.headings else section_path(self.index, row, at)

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

    @shared_property
    def addresses(self) -> IdTable:
        """The rows of documents by their addresses, read once; 12 bytes of memory for each."""
        hashes = [hash_ids(urls.to_pylist()) for (urls,) in self.index.documents.table.batches(["url"])]
        return IdTable.build(np.concatenate([np.empty(0, np.uint64), *hashes]))

    @shared_property
    def most_linked(self) -> list[int]:
        """The documents with the most links to them, to begin with."""
        most: list[int] = np.argsort(-self.topology.in_degree, kind="stable")[:_STARTS].tolist()
        return most

    def hit(self, rank: int, row: int, score: float) -> AnswerHit:
        """A result with its text and the address of its document."""
        passage = self.index.passages[row]
        url = self.index.document_url(row)
        return AnswerHit(
            rank, score, passage.id, passage.document_id, passage.title, passage.text, url, row=row
        )

    def marked_hit(
        self, question: str, row: int, known: Known, rank: int = 0, score: float = 0.0
    ) -> AnswerHit:
        """A result with everything that the pages show."""
        hit = self.hit(rank, row, score)
        answers = known.spans(hit.text)
        marks = matched_spans(question, hit.text, self.index.language)
        at = answers[0][0] if answers else _densest(hit.text[:MAX_CHARACTERS], marks)
        return replace(
            hit,
            url=self.index.passage_url(hit.row),
            marks=tuple(marks),
            answers=answers,
            relevance=known.relevance_of(self.index.passages[hit.row]),
            section=self.section(hit.row, at),
            cut=(is_cut_before(self.index, hit.row), is_cut_before(self.index, hit.row + 1)),
        )

    @shared_property
    def known(self) -> KnownQuestions:
        """The questions of the sample, if this is its index; none for any other."""
        return sample_questions(self.index)

    @shared_property
    def suggested(self) -> KnownQuestions:
        """Questions to start with: with known answers, or from the index."""
        return self.known if self.known.queries else KnownQuestions(*suggested_items(self.index, _SUGGESTED))

    def find_known(self, question: str) -> Known:
        """The answers and judgements of a question of the sample or of an evaluation."""
        return self.known.find(question) or self._asked(question)


def _densest(text: str, marks: Sequence[Span]) -> int:
    """Where the sentence with the most marks begins, the first of equal ones."""
    starts = [start for start, _ in sentence_spans(text)] if marks else []
    counts = Counter(bisect(starts, start) for start, _ in marks)
    densest = max(counts, key=lambda number: (counts[number], -number), default=1)
    return starts[max(densest - 1, 0)] if starts else 0


def _has_failed(opened: Future[OpenPipeline] | None) -> bool:
    """Whether a pipeline could not be opened; not for one that is being opened."""
    return opened is not None and opened.done() and opened.exception() is not None


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
