"""linkseek train-fusion: a learned fusion of several pipelines, from questions or from links.

Entry script: reads options and questions, runs the pipelines, calls `retriever.learned.fusion_training`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from linkseek.app.evaluation.judgements import JudgedNumbers, document_numbers
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.testsets import LoadedTestSet, open_test_set
from linkseek.indexer.index import Level, OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Seed
from linkseek.indexer.store.outputs import check_replaceable, write_output
from linkseek.retriever.answers import find_answers
from linkseek.retriever.learned.boosted_trees import FusionFile, trees_json
from linkseek.retriever.learned.features import FeatureReader, feature_names, union
from linkseek.retriever.learned.fusion_training import CUTOFFS, Examples, accuracy, random_folds, train
from linkseek.retriever.links.questions import LinkQuestion, link_questions
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Pipeline, Query, Ranking
from linkseek.retriever.search.neighbours import Neighbours
from linkseek.retriever.search.runs import read_qrels

PROGRAM = "linkseek train-fusion"

_BATCH = 256
_CANDIDATES = 1 << 17  # of all questions of a batch, of each pipeline


class TrainFusionOptions(Options):
    """Train a fusion of pipelines: trees over their scores and ranks, titles, articles and hyperlinks.

    A passage is relevant if it contains an answer or is judged relevant by the test set; with --mined, if it
    belongs to the article that a hyperlink leads to. Prints the accuracy for questions that were held back,
    and writes a JSON file that `model` in a table of pipelines names.
    """

    index: Path
    """the index folder"""
    pipeline: Annotated[list[str], Field(min_length=1)]
    """the pipelines to fuse, by name"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    queries: list[Path] = Field([])
    """questions with answers: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    qrels: list[Path] = Field([])
    """judgements, a file for each of --queries, instead of the questions' answers: TREC's or BEIR's"""
    test_set: list[str] = Field([])
    """test sets by name; do not measure on the same ones later"""
    data: Path | None = None
    """the folder with your own test sets; default: $LINKSEEK_DATA"""
    mined: NonNegativeInt = 0
    """the number of questions to make from the index's own hyperlinks"""
    depth: PositiveInt = 100
    """results of each pipeline that are candidates"""
    links: bool = True
    """learn from features of hyperlinks"""
    neighbours: Neighbours = "links"
    """whose neighbours articles are: `bm25` puts similar articles in the place of hyperlinks, as a control"""
    folds: Annotated[int, Field(ge=2, le=20)] = 5
    """parts of the questions, each of which is held back once"""
    seed: Seed = 1
    """of the division into folds, of the questions that are mined, and of LightGBM"""
    output: Path
    """the file to write: a name in .json"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(TrainFusionOptions, argv, PROGRAM)
    if not (options.queries or options.test_set or options.mined):
        raise UsageError("there are no questions to learn from", "Give --queries, --test-set or --mined.")
    if options.output.suffix != ".json":
        raise UsageError(f"--output {options.output}: not JSON", "Use a name in .json.")
    if options.neighbours != "links" and not options.links:
        raise UsageError(f"--neighbours {options.neighbours} needs features of links", "Omit --no-links.")
    if options.qrels and len(options.qrels) != len(options.queries):
        files = f"{len(options.qrels)} files of --qrels for {len(options.queries)} of --queries"
        raise UsageError(files, "Give one for each, in the same order.")
    check_replaceable(options.output)
    index = OpenIndex.open(options.index)
    pipelines = Pipelines(index, options.pipelines_file)
    pipelines.check(options.pipeline)
    sets = [labelled(path, judged) for path, judged in zip_longest(options.queries, options.qrels)]
    sets += [open_test_set(name, options.data) for name in options.test_set]
    fused = {name: pipelines.open(name) for name in options.pipeline}
    reader = FeatureReader(index, [*fused], options.links, options.neighbours)
    collected = Collected(index, fused, reader, options.depth)
    for test_set in sets:
        collected.add_test_set(test_set)
    if options.mined:
        collected.add_mined(link_questions(index, options.mined, options.seed))
    examples = collected.examples()
    with progress("training", options.folds + 1, "trainings") as advance:
        fold = random_folds(len(examples.sizes), options.folds, options.seed)
        trained = train(examples, fold, options.seed, advance)
    accuracies = collected.accuracies() | {options.output.stem: trained.values}
    figures = {
        name: (values.sum(axis=0) / collected.questions).round(4).tolist()
        for name, values in accuracies.items()
    }
    model = FusionFile(
        format="linkseek fusion 1",
        pipelines=[*fused],
        links=options.links,
        neighbours=options.neighbours,
        features=reader.names,
        trained={
            "questions": {Path(test_set.name).name: len(test_set.queries) for test_set in sets}
            | ({"mined": options.mined} if options.mined else {}),
            "with a relevant candidate": len(examples.sizes),
            "corpus": index.manifest.corpus.sha256 or "",
            "depth": options.depth,
            "seed": options.seed,
            "accuracy at 1, 5, 20 of held-back questions": figures,
        },
        trees=trained.trees,
    )
    write_output(options.output, trees_json(model))
    for name, values in figures.items():
        at = "  ".join(f"@{k} {100 * value:5.2f}" for k, value in zip(CUTOFFS, values, strict=True))
        print(f"{name:<24} {at}")
    print(f"{options.output}: {len(trained.trees)} trees", file=sys.stderr)


def labelled(queries: Path, qrels: Path | None) -> LoadedTestSet:
    """Questions with their answers, or with judgements instead."""
    read = read_queries(queries)
    if qrels is None:
        return LoadedTestSet(str(queries), read)
    return LoadedTestSet(str(queries), [replace(query, answers=()) for query in read], read_qrels(qrels))


class Collected:
    """Candidates of questions, with features and relevance, batch by batch.

    questions: how many there were, also those without a relevant candidate, which are not among the examples.
    """

    def __init__(
        self, index: OpenIndex, pipelines: Mapping[str, Pipeline], reader: FeatureReader, depth: int
    ) -> None:
        """pipelines: by name, whose first `depth` results are the candidates."""
        self._index, self._reader = index, reader
        self._names, self._open = [*pipelines], [*pipelines.values()]
        self._depth = min(depth, len(index.passages))
        self._parts: list[Examples] = []
        self.questions = 0

    def add_test_set(self, test_set: LoadedTestSet) -> None:
        """Passages that contain an answer are relevant; without answers, the ones judged relevant."""
        relevance = None
        level: Level = "passages"
        if test_set.qrels is not None and not any(query.answers for query in test_set.queries):
            judged = JudgedNumbers(self._index).judgements(
                test_set.qrels, [query.id for query in test_set.queries], test_set.name
            )
            relevance, level = judged.relevance, judged.level

        def label(queries: Sequence[Query], units: NDArray[np.int64]) -> NDArray[np.bool_]:
            if relevance is None:
                texts = self._index.passages.table
                return find_answers(
                    [query.answers for query in queries],
                    units,
                    lambda row: str(texts.value("text", row)),
                    test_set.answer_kind,
                )
            relevant = [{n for n, v in relevance.get(q.id, {}).items() if v > 0} for q in queries]
            return np.array(
                [np.isin(of_query, list(numbers)) for of_query, numbers in zip(units, relevant, strict=True)]
            )

        self._add(test_set.name, test_set.queries, level, label)

    def add_mined(self, questions: Sequence[LinkQuestion]) -> None:
        """The article that the link leads to is relevant; the link's own passage is skipped."""
        by_id = {question.query.id: question for question in questions}

        def label(queries: Sequence[Query], units: NDArray[np.int64]) -> NDArray[np.bool_]:
            targets = np.array([by_id[query.id].document for query in queries])
            return np.asarray(units == targets[:, None])

        own = {question.query.id: question.passage for question in questions}
        self._add("hyperlinks", [question.query for question in questions], "documents", label, own)

    def _add(
        self,
        name: str,
        queries: Sequence[Query],
        level: Level,
        label: _Label,
        skipped: Mapping[str, int] = {},
    ) -> None:
        """level: of what is judged. skipped: the row that is no candidate of a question, by its id."""
        with progress(f"searching for {name}", len(queries), "questions") as advance:
            size = min(_BATCH, max(_CANDIDATES // self._depth, 1))
            for start in range(0, len(queries), size):
                batch = queries[start : start + size]
                own = np.array([skipped.get(query.id, -1) for query in batch])[:, None]  # [Q, 1]
                rankings = [
                    Ranking.of(r.query_ids, np.where(r.rows == own, -1, r.rows), r.scores)
                    for r in (pipeline(batch, self._depth) for pipeline in self._open)
                ]
                units = union(rankings)
                if level == "documents":
                    units = document_numbers(units, self._index.passages)
                relevant = label(batch, units)
                answered = np.asarray(relevant.any(axis=1))  # the others teach nothing, so they are not read
                batch = [query for query, keep in zip(batch, answered, strict=True) if keep]
                candidates = self._reader.read(batch, [ranking.part(answered) for ranking in rankings])
                held = candidates.rows >= 0  # [Q, m]
                values = candidates.values[held].astype(np.float32)
                relevant = relevant[answered, : held.shape[1]][held]
                units = units[answered, : held.shape[1]][held]
                self._parts.append(Examples(values, relevant, held.sum(axis=1), units))
                self.questions += len(answered)
                advance(len(answered))

    def examples(self) -> Examples:
        """All that were added."""
        return Examples.joined(self._parts)

    def accuracies(self) -> dict[str, NDArray[np.bool_]]:
        """Accuracy of each pipeline and of their reciprocal-rank fusion on the questions that were added."""
        examples, names = self.examples(), feature_names(self._names, False)
        ranks = {name: -examples.values[:, names.index(f"{name}: rank")] for name in self._names}
        ranks = {name: np.where(rank < -self._depth, -np.inf, rank) for name, rank in ranks.items()}
        ranks["reciprocal rank"] = examples.values[:, names.index("fused rank")]
        return {name: accuracy(examples, scores) for name, scores in ranks.items()}


_Label = Callable[[Sequence[Query], NDArray[np.int64]], NDArray[np.bool_]]
"""Which passages or documents [Q, m] of questions are relevant, bool [Q, m]."""
