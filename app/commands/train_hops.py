"""linkseek train-hops: trees that rank what the first passages link to, for questions of several steps.

Entry script: reads options and questions, runs the first stage, calls `retriever.learned.fusion_training`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from linkseek.app.evaluation.judgements import JudgedNumbers, document_numbers
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.hop_kinds import HopEntry
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.settings import Seed
from linkseek.indexer.store.outputs import check_replaceable, write_output
from linkseek.retriever.learned.boosted_trees import trees_json
from linkseek.retriever.learned.fusion_training import Examples, random_folds, train
from linkseek.retriever.learned.hop_features import HopCandidates, HopFeatures, hop_feature_names
from linkseek.retriever.learned.hop_graph import Articles, Edges, open_edges
from linkseek.retriever.learned.hop_model import HopModel
from linkseek.retriever.learned.hop_training import CUTOFFS, NOISE, AlteredEdges, recall
from linkseek.retriever.learned.question_kinds import QuestionKind, held_back, train_question_kind
from linkseek.retriever.links.questions import link_questions
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.neighbours import Neighbours
from linkseek.retriever.search.runs import read_qrels

PROGRAM = "linkseek train-hops"

_BATCH = 128
_CANDIDATES = 1 << 17  # of all questions of a batch


class TrainHopsOptions(Options):
    """Train a model that follows links from the results of a pipeline, from questions with several relevant
    passages.

    --index, --queries and --qrels may each be given several times, once for each collection, in the same
    order. With --mined, each index is a collection of questions from its own links. Each collection is then
    held back once, so the figures are for corpora that the model has not seen; with one collection,
    parts of its questions are held back. Prints the recall of held-back questions, and writes a JSON file
    that `model` in a table with `hop = "trees"` names.

    With --one-step the model also learns to tell questions of several steps, those with several relevant
    passages, from questions of one. Where it sees one step, it mostly keeps the first stage's results.
    """

    index: Annotated[list[Path], Field(min_length=1)]
    """the index folders"""
    queries: list[Path] = Field([])
    """questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    qrels: list[Path] = Field([])
    """their relevant passages or documents"""
    mined: NonNegativeInt = 0
    """the number of questions to make from the links of each index: the sentence around an anchor, without
    the anchor; relevant are its passage and the linked article"""
    one_step: list[Path] = Field([])
    """questions of one step, each file a collection; their relevant passages are not needed"""
    pipeline: str = "hybrid-weighted"
    """the first stage"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    over: Annotated[list[Neighbours], Field(min_length=1, max_length=2)] = Field(["links"])
    """what is followed: links, or as a control `bm25`, which leads to similar passages; or both"""
    sources: Annotated[int, Field(ge=1, le=1_000)] = 10
    """results of the first stage that are followed"""
    depth: PositiveInt = 100
    """results of the first stage that are candidates"""
    edges: Annotated[int, Field(ge=1, le=10_000)] = 100
    """articles that a passage leads to, at most"""
    noise: bool = True
    """read each question a second time on a graph with fewer links and false ones"""
    folds: Annotated[int, Field(ge=2, le=20)] = 5
    """with one collection: parts of the questions, each of which is held back once"""
    seed: Seed = 1
    """of the division into folds, of the links that are mined, of the altered graphs, and of LightGBM"""
    output: Path
    """the file to write: a name in .json"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(TrainHopsOptions, argv, PROGRAM)
    if not (options.queries or options.qrels or options.mined):
        raise UsageError("there are no questions to learn from", "Give --queries and --qrels, or --mined.")
    without = bool(options.mined) and not (options.queries or options.qrels)
    if not without and len({len(options.index), len(options.queries), len(options.qrels)}) > 1:
        raise UsageError(
            "--index, --queries and --qrels differ in number", "Give each once for each collection."
        )
    if options.output.suffix != ".json":
        raise UsageError(f"--output {options.output}: not JSON", "Use a name in .json.")
    check_replaceable(options.output)
    one_step = _questions_of_one_step(options.one_step)
    collected = _Collected(options)
    for path, queries, qrels in zip(options.index, options.queries, options.qrels, strict=not without):
        collected.add(OpenIndex.open(path), queries, qrels)
    for path in options.index if options.mined else ():
        collected.add_mined(OpenIndex.open(path), options.mined)
    kind, recognised = collected.kind(one_step)
    examples, relevant, question, collection = collected.together()
    several = len(collected.questions) > 1
    parts = random_folds(question[-1] + 1, options.folds, options.seed)[question]
    fold = collection if several else parts
    if len(np.unique(fold)) < 2:
        raise InputError(
            "only one collection has questions with a relevant candidate, so none can be held back",
            "Give that collection alone, or more questions of the others.",
        )
    with progress("training", len(np.unique(fold)) + 1, "trainings") as advance:
        trained = train(examples, fold, options.seed, advance, lambda e, scores: recall(e, relevant, scores))
    names = hop_feature_names(options.over)
    score, rank = (examples.values[:, names.index(name)] for name in ("score", "rank"))
    first = recall(examples, relevant, np.where(score < 0, -np.inf, -rank))
    plain = np.diff(question, prepend=-1) > 0  # on the graph as it is
    figures = {}
    for number, (name, count) in enumerate(collected.questions):
        own = plain & (collection == number)
        share = own.sum() / count  # the others have no relevant candidate
        figures[name] = {
            label: (values[own].mean(axis=0) * share).round(4).tolist()
            for label, values in ((options.pipeline, first), ("hops", trained.values))
        }
    model = HopModel(
        format="linkseek hops 2",
        graphs=options.over,
        sources=options.sources,
        features=names,
        trained={
            "first stage": options.pipeline,
            "questions": dict(collected.questions),
            "held back": "each collection once" if several else f"{options.folds} parts",
            "depth": options.depth,
            "edges": options.edges,
            "noise": options.noise,
            "seed": options.seed,
            f"recall at {', '.join(map(str, CUTOFFS))} of held-back questions": figures,
            **({"share of held-back questions that seem to have several steps": recognised} if kind else {}),
        },
        several_steps=kind,
        trees=trained.trees,
    )
    write_output(options.output, trees_json(model))
    for name, rows in figures.items():
        for label, values in rows.items():
            at = "  ".join(f"@{k} {100 * value:5.2f}" for k, value in zip(CUTOFFS, values, strict=True))
            print(f"{name:<40} {label:<20} {at}")
    for name, share in recognised.items():
        print(f"{name:<40} {100 * share:.1f} % seem to have several steps")
    print(f"{options.output}: {len(trained.trees)} trees", file=sys.stderr)


def collection_name(index: Path, queries: Path) -> str:
    """The name of a collection in a model."""
    return f"{index.name}: {queries.name}"


def _questions_of_one_step(paths: Sequence[Path]) -> dict[str, list[str]]:
    """The questions of each file. Raises `UsageError` for files of the same name."""
    for name, count in Counter(path.name for path in paths).items():
        if count > 1:
            raise UsageError(f"--one-step: two files are named {name}", "Give each its own name.")
    return {path.name: [query.text for query in read_queries(path)] for path in paths}


_Labelled = tuple[NDArray[np.bool_], NDArray[np.int64], int]
"""Which candidates are relevant, bool [m], the passages or documents that are judged, int64 [m], and how
many relevant ones the question has."""
_Label = Callable[[int, NDArray[np.int64]], _Labelled]
"""(number of the question in its collection, rows of its candidates) -> labelled."""


class _Collected:
    """Candidates of questions with features and relevance.

    questions: the name of each collection, and how many it has, also those without a relevant candidate,
    which are no examples.
    """

    def __init__(self, options: TrainHopsOptions) -> None:
        self._options = options
        self._parts: list[Examples] = []
        self._relevant: list[int] = []
        self._question: list[int] = []
        self._collection: list[int] = []
        self._several: dict[str, list[str]] = {}
        self._languages: dict[str, Path] = {}
        self.questions: list[tuple[str, int]] = []

    def add(self, index: OpenIndex, queries_path: Path, qrels_path: Path) -> None:
        """The questions of a collection."""
        queries = read_queries(queries_path)
        judged = JudgedNumbers(index).judgements(
            read_qrels(qrels_path), [q.id for q in queries], str(qrels_path)
        )
        queries = [query for query in queries if query.id in judged.relevance]
        name = collection_name(index.path, queries_path)
        self._several.setdefault(name, []).extend(
            query.text for query in queries if sum(g > 0 for g in judged.relevance[query.id].values()) > 1
        )

        def label(place: int, rows: NDArray[np.int64]) -> _Labelled:
            grades = judged.relevance[queries[place].id]
            wanted = [number for number, grade in grades.items() if grade > 0]
            numbers = document_numbers(rows, index.passages) if judged.level == "documents" else rows
            return np.isin(numbers, wanted), numbers, len(wanted)

        self._read(name, index, queries, label)

    def add_mined(self, index: OpenIndex, count: int) -> None:
        """Sentences with a link: relevant are the passage, and the passage that stands for the article."""
        mined = link_questions(index, count, self._options.seed, sentences=True)

        def label(place: int, rows: NDArray[np.int64]) -> _Labelled:
            relevant = rows == mined[place].passage
            linked = np.flatnonzero(index.passages.document_rows(rows) == mined[place].document)
            relevant[linked[:1]] = True
            return relevant, rows, 2

        self._read(f"{index.path.name}: links", index, [question.query for question in mined], label)

    def _read(self, name: str, index: OpenIndex, queries: Sequence[Query], label: _Label) -> None:
        """The questions of a collection, each on the graph as it is and then on an altered one."""
        options = self._options
        pipelines = Pipelines(index, options.pipelines_file)
        first = pipelines.open(options.pipeline)
        similarity = HopEntry(hop="rule", of=options.pipeline, over=options.over).similarity(pipelines.parts)
        articles = Articles(index, similarity)
        graphs: dict[str, Edges] = {over: open_edges(index, over, options.edges) for over in options.over}
        reader = HopFeatures(index, graphs, articles, similarity, options.sources)
        noisy: list[tuple[AlteredEdges, HopFeatures]] = []
        if options.noise and "links" in graphs:
            for noise in NOISE:
                edges = AlteredEdges(graphs["links"], noise, len(index.documents), options.seed)
                on_edges = HopFeatures(
                    index, graphs | {"links": edges}, articles, similarity, options.sources
                )
                noisy.append((edges, on_edges))
        number = len(self.questions)
        self.questions.append((name, len(queries)))
        self._languages.setdefault(index.language, index.path)
        before = self._question[-1] + 1 if self._question else 0
        with progress(f"searching {index.path.name}", len(queries), "questions") as advance:
            depth = min(options.depth, len(index.passages))
            size = min(_BATCH, max(_CANDIDATES // depth, 1))
            for start in range(0, len(queries), size):
                batch = queries[start : start + size]
                ranking = first(batch, depth)
                for place, query in enumerate(batch):
                    row = start + place
                    of_query = ranking.query(place)
                    self._add(reader.read([query], of_query)[0], row, label)
                    if noisy:
                        edges, on_edges = noisy[row % len(noisy)]
                        results = of_query.rows[of_query.rows >= 0]
                        edges.near = np.unique(index.passages.document_rows(results)).tolist()
                        self._add(on_edges.read([query], of_query)[0], row, label)
                    added = len(self._parts) - len(self._question)
                    self._question += [before + row] * added
                    self._collection += [number] * added
                advance(len(batch))

    def _add(self, candidates: HopCandidates, place: int, label: _Label) -> None:
        relevant, units, wanted = label(place, candidates.rows)
        if relevant.any():
            values = candidates.values.astype(np.float32)
            self._parts.append(Examples(values, relevant, np.array([len(relevant)]), units))
            self._relevant.append(wanted)

    def kind(self, one_step: dict[str, list[str]]) -> tuple[QuestionKind | None, dict[str, float]]:
        """The model that recognises questions with several relevant passages, and the shares of `held_back`.

        Raises `InputError` for indexes of different languages.
        """
        if not one_step:
            return None, {}
        if len(self._languages) > 1:
            raise InputError(
                f"--index: texts in {' and '.join(self._languages)}", "Train a model for each language."
            )
        [language] = self._languages
        several = {name: texts for name, texts in self._several.items() if texts}
        kind = train_question_kind(one_step, several, language)
        return kind, held_back(one_step, several, language)

    def together(self) -> tuple[Examples, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """All examples; of each, how many passages are relevant, its question and its collection.

        Raises `InputError` if there are no examples.
        """
        if len(self._parts) < 2:
            raise InputError(
                "no question has a relevant passage among its candidates",
                "Give questions about the articles of the index, or a larger --depth.",
            )
        relevant, question, collection = map(np.array, (self._relevant, self._question, self._collection))
        return Examples.joined(self._parts), relevant, question, collection
