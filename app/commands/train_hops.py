"""linkseek train-hops: trees that rank the passages that the first results link to, for questions of several
steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.examples import (
    CandidateBatch,
    ExampleBuilder,
    LearningOptions,
    QuestionCollection,
    Read,
    collection_of_files,
    mined_sentences,
    save_model,
)
from linkseek.app.pipelines.hop_kinds import similarity_of
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.options import parse_options
from linkseek.retriever.learned.hop_features import HopFeatures, hop_feature_names
from linkseek.retriever.learned.hop_graph import (
    LINKS,
    NOISE,
    AlteredEdges,
    Articles,
    Edges,
    GraphName,
    open_edges,
)
from linkseek.retriever.learned.hops import HopModel
from linkseek.retriever.learned.question_kinds import QuestionKind, held_back, train_question_kind
from linkseek.retriever.learned.training import RECALL_CUTOFFS, recall, train
from linkseek.retriever.links.questions import link_questions
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking

PROGRAM = "linkseek train-hops"


class TrainHopsOptions(LearningOptions):
    """Train a model that follows links from the results of a pipeline, from questions with several relevant
    passages.

    --index, --queries and --qrels may each be given several times, once for each collection, in the same
    order. With --mined, each index is a collection of questions from its own links. Each collection is then
    held out once, so the figures are for corpora that the model has not seen; with one collection, parts of
    its questions are held out. Prints the recall on held-out questions, and writes a JSON file for `model` in
    a table with `hop = "trees"`.

    With --one-step the model also learns to distinguish questions of several steps, which have several
    relevant passages, from questions of one step, for which it mostly keeps the first stage's results.
    """

    index: Annotated[list[Path], Field(min_length=1)]
    """the index folders"""
    queries: list[Path] = Field([])
    """questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    qrels: list[Path] = Field([])
    """their relevant passages or documents"""
    mined: NonNegativeInt = 0
    """the number of questions to make from the links of each index: a question is the sentence around an
    anchor, without the anchor, and its passage and the linked article are relevant
    """
    one_step: list[Path] = Field([])
    """questions of one step, a collection in each file; they need no relevant passages"""
    pipeline: str = "hybrid-weighted"
    """the first stage"""
    over: Annotated[list[GraphName], Field(min_length=1, max_length=2)] = Field([LINKS])
    """the graph to follow: links, or the name of a plug-in's graph, as a control; or both"""
    sources: Annotated[int, Field(ge=1, le=1_000)] = 10
    """the number of first-stage results whose links are followed"""
    edges: Annotated[int, Field(ge=1, le=10_000)] = 100
    """the maximum number of articles that a passage leads to"""
    noise: bool = True
    """train on each question a second time, with edges of the first graph removed and false ones added"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(TrainHopsOptions, argv, PROGRAM)
    options.check(
        has_questions=bool(options.queries or options.qrels or options.mined),
        remedy="Give --queries and --qrels, or --mined.",
    )
    has_files = bool(options.queries or options.qrels)
    if has_files and len({len(options.index), len(options.queries), len(options.qrels)}) > 1:
        raise UsageError(
            "--index, --queries and --qrels differ in number", "Give each once for each collection."
        )
    one_step = _questions_of_one_step(options.one_step)
    indexes = [OpenIndex.open(path) for path in options.index]
    collections: list[tuple[OpenIndex, QuestionCollection]] = []
    for index, queries, qrels in zip(indexes, options.queries, options.qrels, strict=has_files):
        name = f"{index.path.name}: {queries.name}"
        collections.append((index, collection_of_files(index, name, queries, qrels)))
    kind, recognised = _question_kind(one_step, collections, indexes)
    for index in indexes if options.mined else ():
        mined = link_questions(index, options.mined, options.seed, sentences=True)
        collections.append((index, mined_sentences(index, f"{index.path.name}: links", mined)))
    builder = ExampleBuilder(options.depth)
    for index, collection in collections:
        pipelines = Pipelines(index, options.pipelines_file)
        builder.add(index, collection, [pipelines.open(options.pipeline)], _reading(pipelines, options))
    labelled = builder.examples()
    examples, several = labelled.examples, len(labelled.collections) > 1
    fold = labelled.collection if several else labelled.folds(options.folds, options.seed)
    if len(np.unique(fold)) < 2:
        raise InputError(
            "only one collection has questions with a relevant candidate, so none can be held out",
            "Give only that collection, or more questions for the others.",
        )
    trained = train(examples, fold, options.seed, lambda e, scores: recall(e, labelled.relevant, scores))
    names = hop_feature_names(options.over)
    score, rank = (examples.values[:, names.index(name)] for name in ("score", "rank"))
    first = recall(examples, labelled.relevant, np.where(score < 0, -np.inf, -rank))
    figures: dict[str, dict[str, list[float]]] = {}
    for number, (name, count) in enumerate(labelled.collections):
        own = labelled.is_first & (labelled.collection == number)  # on the graph as it is
        figures[name] = {
            label: (values[own].sum(axis=0) / count).round(4).tolist()
            for label, values in ((options.pipeline, first), ("hops", trained.values))
        }
    model = HopModel(
        format="linkseek hops 2",
        graphs=options.over,
        sources=options.sources,
        features=names,
        trained={
            "first stage": options.pipeline,
            "questions": dict(labelled.collections),
            "held out": "each collection once" if several else f"{options.folds} parts",
            "depth": options.depth,
            "edges": options.edges,
            "noise": options.noise,
            "seed": options.seed,
            f"recall at {', '.join(map(str, RECALL_CUTOFFS))} of held-out questions": figures,
            **({"share of held-out questions classified as of several steps": recognised} if kind else {}),
        },
        several_steps=kind,
        trees=trained.trees,
    )
    lines = {f"{name}, {label}": row for name, rows in figures.items() for label, row in rows.items()}
    save_model(options.output, model, lines, RECALL_CUTOFFS)
    for name, share in recognised.items():
        print(f"{name:<40} {100 * share:.1f} % classified as several steps")


def _questions_of_one_step(paths: Sequence[Path]) -> dict[str, list[str]]:
    """The questions of each file. Raises `UsageError` for files of the same name."""
    for name, count in Counter(path.name for path in paths).items():
        if count > 1:
            raise UsageError(f"--one-step: two files are named {name}", "Give each its own name.")
    return {path.name: [query.text for query in read_queries(path)] for path in paths}


def _question_kind(
    one_step: Mapping[str, Sequence[str]],
    collections: Sequence[tuple[OpenIndex, QuestionCollection]],
    indexes: Sequence[OpenIndex],
) -> tuple[QuestionKind | None, dict[str, float]]:
    """The model that recognises questions with several relevant passages, and the shares of `held_back`.

    Raises `InputError` for indexes of different languages.
    """
    if not one_step:
        return None, {}
    languages = {index.language for index in indexes}
    if len(languages) > 1:
        raise InputError(
            f"--index: texts in {' and '.join(sorted(languages))}", "Train a model for each language."
        )
    several: dict[str, list[str]] = {}
    for _, collection in collections:
        asked = zip(collection.queries, collection.relevant, strict=True)
        texts = [query.text for query, relevant in asked if relevant > 1]
        if texts:
            several.setdefault(collection.name, []).extend(texts)
    [language] = languages
    kind = train_question_kind(one_step, several, language)
    return kind, held_back(one_step, several, language)


def _reading(pipelines: Pipelines, options: TrainHopsOptions) -> Read:
    """Reads each question on the graph as it is, and then on an altered one."""
    index, similarity = pipelines.index, similarity_of(pipelines.parts)
    graphs: dict[str, Edges] = {over: open_edges(index, over, options.edges) for over in options.over}
    articles = Articles(index, similarity)
    altering = options.over[0]
    noises = NOISE if options.noise else ()
    altered = [AlteredEdges(graphs[altering], noise, len(index.documents), options.seed) for noise in noises]
    plain, *noisy = (
        HopFeatures(index, {**graphs, **given}, articles, similarity, options.sources)
        for given in ({}, *({altering: edges} for edges in altered))
    )

    def read(
        queries: Sequence[Query], rankings: Sequence[Ranking], numbers: NDArray[np.int64]
    ) -> Iterator[CandidateBatch]:
        for place, (query, number) in enumerate(zip(queries, numbers.tolist(), strict=True)):
            first = rankings[0].query(place)
            readers = [plain]
            if noisy:
                results = first.rows[first.rows >= 0]
                altered[number % len(noisy)].near = np.unique(index.passages.document_rows(results)).tolist()
                readers.append(noisy[number % len(noisy)])
            for reader in readers:
                [candidates] = reader.read([query], first)
                yield CandidateBatch(numbers[place : place + 1], candidates.rows[None], candidates.values)

    return read
