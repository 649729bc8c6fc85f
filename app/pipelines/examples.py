"""Examples for `train-fusion` and `train-hops`: candidates of questions, with features and relevance.

A `QuestionCollection` has the questions of one index and says which candidates are relevant. `ExampleBuilder`
asks the pipelines whose results are candidates, batch by batch, and keeps the questions with a relevant
candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from linkseek.app.evaluation.judgements import JudgedNumbers, document_numbers
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.indexer.program.options import Options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Seed
from linkseek.indexer.store.outputs import check_replaceable, write_output
from linkseek.retriever.answers import find_answers
from linkseek.retriever.learned.boosted_trees import TreeFile, trees_json
from linkseek.retriever.learned.training import Examples, random_folds
from linkseek.retriever.links.questions import LinkQuestion
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.runs import read_qrels

_Integers = NDArray[np.int64]
_Labelled = tuple[_Integers, NDArray[np.bool_]]

_BATCH = 256
_CANDIDATES = 1 << 17  # of all questions of a batch, of each pipeline

Label = Callable[[_Integers, _Integers], _Labelled]
"""(numbers of questions [Q], rows of their candidates [Q, m], -1 in empty places) -> the passages or
documents that are judged, int64 [Q, m], and whether they are relevant, bool [Q, m]."""

Read = Callable[[Sequence[Query], Sequence[Ranking], _Integers], Iterator["CandidateBatch"]]
"""(queries, a ranking of them by each pipeline, their numbers [Q]) -> candidates; each question may be read
several times, in a row."""


class LearningOptions(Options):
    """The common options of train-fusion and train-hops."""

    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    depth: PositiveInt = 100
    """the number of results of a pipeline that are candidates"""
    seed: Seed = 1
    """seed of the division into folds, of mined questions, of altered graphs, and of LightGBM"""
    output: Path
    """the file to write, ending in .json"""
    folds: Annotated[int, Field(ge=2, le=20)] = 5
    """the number of parts of the questions; each is held out once"""

    def check(self, *, has_questions: bool, remedy: str) -> None:
        """Raise `UsageError` without questions, and for an output that is not JSON or not replaceable."""
        if not has_questions:
            raise UsageError("there are no questions to learn from", remedy)
        if self.output.suffix != ".json":
            raise UsageError(f"--output {self.output}: not JSON", "Use a name in .json.")
        check_replaceable(self.output)


class CandidateBatch(NamedTuple):
    """Candidates of q questions: their numbers [q], rows int64 [q, m] with -1 in empty places, and the
    features of those in the other places, [n, F]."""

    numbers: _Integers
    rows: _Integers
    values: NDArray[np.float64]


@dataclass(frozen=True)
class QuestionCollection:
    """Questions of one index.

    relevant: how many passages or documents are relevant to each question; empty if that is unknown. skipped:
    a passage that is not a candidate of a question, by its id.
    """

    name: str
    queries: Sequence[Query]
    label: Label
    relevant: Sequence[int] = ()
    skipped: Mapping[str, int] | None = None


def collection_of_files(index: OpenIndex, name: str, queries: Path, qrels: Path | None) -> QuestionCollection:
    """Questions with their answers, or with judgements instead."""
    read = read_queries(queries)
    if qrels is None:
        return collection_of_test_set(index, LoadedTestSet(name, read))
    return _judged(index, LoadedTestSet(name, read, read_qrels(qrels)), str(qrels))


def collection_of_test_set(index: OpenIndex, test_set: LoadedTestSet) -> QuestionCollection:
    """Passages that contain an answer are relevant; without answers, the ones judged relevant."""
    queries = test_set.queries
    if test_set.qrels is not None and not any(query.answers for query in queries):
        return _judged(index, test_set, test_set.name)

    def label(numbers: _Integers, rows: _Integers) -> _Labelled:
        answers = [queries[number].answers for number in numbers]
        texts = index.passages.table
        return rows, find_answers(
            answers, rows, lambda row: str(texts.value("text", row)), test_set.answer_kind
        )

    return QuestionCollection(test_set.name, queries, label)


def _judged(index: OpenIndex, test_set: LoadedTestSet, name: str) -> QuestionCollection:
    """The questions that have judgements. name: the name of the judgements, for messages."""
    assert test_set.qrels is not None
    judged = JudgedNumbers(index).judgements(test_set.qrels, [query.id for query in test_set.queries], name)
    queries = [query for query in test_set.queries if query.id in judged.relevance]
    relevant = [[n for n, grade in judged.relevance[query.id].items() if grade > 0] for query in queries]

    def label(numbers: _Integers, rows: _Integers) -> _Labelled:
        units = document_numbers(rows, index.passages) if judged.level == "documents" else rows
        found = [np.isin(own, relevant[n]) for own, n in zip(units, numbers, strict=True)]
        return units, np.array(found, np.bool_).reshape(units.shape)

    return QuestionCollection(test_set.name, queries, label, [*map(len, relevant)])


def mined_articles(index: OpenIndex, name: str, mined: Sequence[LinkQuestion]) -> QuestionCollection:
    """The article that the link leads to is relevant; the link's own passage is not a candidate."""
    targets = np.array([question.document for question in mined], np.int64)

    def label(numbers: _Integers, rows: _Integers) -> _Labelled:
        units = document_numbers(rows, index.passages)
        return units, units == targets[numbers, None]

    own = {question.query.id: question.passage for question in mined}
    return QuestionCollection(name, [question.query for question in mined], label, skipped=own)


def mined_sentences(index: OpenIndex, name: str, mined: Sequence[LinkQuestion]) -> QuestionCollection:
    """Sentences with a link: its passage is relevant, and the passage chosen for the article."""

    def label(numbers: _Integers, rows: _Integers) -> _Labelled:
        asked = [mined[number] for number in numbers]
        passages, targets = np.array([(item.passage, item.document) for item in asked]).T
        linked = document_numbers(rows, index.passages) == targets[:, None]  # [Q, m]
        first = linked & (np.cumsum(linked, axis=1) == 1)
        return rows, (rows == passages[:, None]) | first

    return QuestionCollection(name, [question.query for question in mined], label, [2] * len(mined))


@dataclass(frozen=True)
class LabelledExamples:
    """All examples; of each its question and collection, how many units are relevant, and whether it is the
    first reading of its question, [Q] each.

    collections: the name of each, and its number of questions, including those without a relevant candidate,
    which are not examples.
    """

    examples: Examples
    question: _Integers
    collection: _Integers
    relevant: _Integers
    is_first: NDArray[np.bool_]
    collections: list[tuple[str, int]]

    def folds(self, count: int, seed: int) -> _Integers:
        """Parts of the questions of about equal size, int64 [Q]. Raises `InputError` for fewer questions."""
        questions, place = np.unique(self.question, return_inverse=True)
        return random_folds(len(questions), count, seed)[place]


class ExampleBuilder:
    """Collects examples from any number of collections."""

    def __init__(self, depth: int) -> None:
        """depth: results of each pipeline that are candidates."""
        self._depth = depth
        self._parts: list[Examples] = []
        self._facts: list[_Integers] = []  # question, collection, relevant, is_first: [4, q] each
        self._collections: list[tuple[str, int]] = []
        self._last = -1

    def add(
        self, index: OpenIndex, collection: QuestionCollection, pipelines: Sequence[Pipeline], read: Read
    ) -> None:
        """The candidates of a collection among the results of pipelines."""
        depth, queries = min(self._depth, len(index.passages)), collection.queries
        self._collections.append((collection.name, len(queries)))
        size = max(min(_BATCH, _CANDIDATES // depth), 1)
        before = self._last + 1
        with progress(f"searching {index.path.name} for {collection.name}", len(queries), "questions") as on:
            for start in range(0, len(queries), size):
                numbers = np.arange(start, min(start + size, len(queries)))
                batch = queries[start : start + size]
                rankings = [_without(pipeline(batch, depth), collection.skipped) for pipeline in pipelines]
                for candidates in read(batch, rankings, numbers):
                    self._keep(collection, candidates, before)
                on(len(batch))
        self._last = before + len(queries) - 1

    def _keep(self, collection: QuestionCollection, candidates: CandidateBatch, before: int) -> None:
        """Keep the questions with a relevant candidate. before: questions of the collections before."""
        numbers, rows, values = candidates
        units, relevant = collection.label(numbers, rows)
        held = rows >= 0  # [q, m]
        relevant &= held
        kept = np.asarray(relevant.any(axis=1))
        question = before + numbers
        facts = np.zeros((4, len(numbers)), np.int64)
        facts[0], facts[1], facts[3] = question, len(self._collections) - 1, question > self._last
        if collection.relevant:
            facts[2] = np.array(collection.relevant)[numbers]
        self._last = int(question[-1])
        rows_kept = values[np.repeat(kept, held.sum(axis=1))].astype(np.float32)
        held &= kept[:, None]
        self._parts.append(Examples(rows_kept, relevant[held], held.sum(axis=1)[kept], units[held]))
        self._facts.append(facts[:, kept])

    def examples(self) -> LabelledExamples:
        """All examples. Raises `InputError` if there are none."""
        if not any(len(part.sizes) for part in self._parts):
            raise InputError(
                "no question has a relevant passage among its candidates",
                "Give questions about the articles of the index, or a larger --depth.",
            )
        question, collection, relevant, first = np.concatenate(self._facts, axis=1)
        joined = Examples.joined(self._parts)
        return LabelledExamples(joined, question, collection, relevant, first > 0, self._collections)


def save_model(
    path: Path, model: TreeFile, figures: Mapping[str, Sequence[float]], cutoffs: Sequence[int]
) -> None:
    """Write the file of a model, and print its figures at some depths by name."""
    write_output(path, trees_json(model))
    width = max(map(len, figures))
    for name, values in figures.items():
        at = "  ".join(f"@{k} {100 * value:5.2f}" for k, value in zip(cutoffs, values, strict=True))
        print(f"{name:<{width}}  {at}")
    log_line(f"{path}: {len(model.trees)} trees")


def _without(ranking: Ranking, skipped: Mapping[str, int] | None) -> Ranking:
    if skipped is None:
        return ranking
    own = np.array([skipped[id_] for id_ in ranking.query_ids], np.int64)[:, None]  # [Q, 1]
    return Ranking.of(ranking.query_ids, np.where(ranking.rows == own, -1, ranking.rows), ranking.scores)
