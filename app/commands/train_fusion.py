"""linkseek train-fusion: a learned fusion of several pipelines, from questions or from links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
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
    collection_of_files,
    collection_of_test_set,
    mined_articles,
    save_model,
)
from linkseek.app.testsets import open_test_set
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import parse_options
from linkseek.retriever.learned.boosted_trees import FusionFile
from linkseek.retriever.learned.hop_graph import LINKS, GraphName
from linkseek.retriever.learned.learned_fusion import FeatureReader, feature_names
from linkseek.retriever.learned.training import ACCURACY_CUTOFFS, Examples, accuracy, train
from linkseek.retriever.links.questions import link_questions
from linkseek.retriever.ranking import Query, Ranking

PROGRAM = "linkseek train-fusion"


class TrainFusionOptions(LearningOptions):
    """Train a fusion of pipelines: trees over their scores and ranks, titles, articles and hyperlinks.

    A passage is relevant if it contains an answer or is judged relevant by the test set; with --mined, if it
    belongs to the article that a hyperlink leads to. Prints the accuracy on held-out questions, and writes a
    JSON file for `model` in a table of pipelines.
    """

    index: Path
    """the index folder"""
    pipeline: Annotated[list[str], Field(min_length=1)]
    """the pipelines to fuse, by name"""
    queries: list[Path] = Field([])
    """questions with answers: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    qrels: list[Path] = Field([])
    """judgements instead of the questions' answers, a file for each of --queries, in TREC's or BEIR's format
    """
    test_set: list[str] = Field([])
    """test sets by name; do not measure on the same ones later"""
    data: Path | None = None
    """the folder with your own test sets; default: $LINKSEEK_DATA"""
    mined: NonNegativeInt = 0
    """the number of questions to make from the index's own hyperlinks"""
    links: bool = True
    """learn from features of hyperlinks"""
    neighbours: GraphName = LINKS
    """the graph of articles: links, or the name of a plug-in's graph, as a control"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(TrainFusionOptions, argv, PROGRAM)
    options.check(
        has_questions=bool(options.queries or options.test_set or options.mined),
        remedy="Give --queries, --test-set or --mined.",
    )
    if options.neighbours != LINKS and not options.links:
        raise UsageError(f"--neighbours {options.neighbours} needs features of links", "Omit --no-links.")
    if options.qrels and len(options.qrels) != len(options.queries):
        files = f"{len(options.qrels)} files of --qrels for {len(options.queries)} of --queries"
        raise UsageError(files, "Give one for each, in the same order.")
    index = OpenIndex.open(options.index)
    pipelines = Pipelines(index, options.pipelines_file)
    pipelines.check(options.pipeline)
    pairs = zip_longest(options.queries, options.qrels)
    collections = [collection_of_files(index, queries.name, queries, qrels) for queries, qrels in pairs]
    collections += [
        collection_of_test_set(index, open_test_set(name, options.data)) for name in options.test_set
    ]
    if options.mined:
        mined = link_questions(index, options.mined, options.seed)
        collections.append(mined_articles(index, "mined", mined))
    fused = [pipelines.open(name) for name in options.pipeline]
    reader = FeatureReader(index, options.pipeline, options.links, options.neighbours)
    builder = ExampleBuilder(options.depth)
    for collection in collections:
        builder.add(index, collection, fused, partial(read_features, reader))
    labelled = builder.examples()
    trained = train(labelled.examples, labelled.folds(options.folds, options.seed), options.seed)
    values = _accuracies(labelled.examples, options.pipeline, options.depth)
    values[options.output.stem] = trained.values
    questions = sum(count for _, count in labelled.collections)
    figures = {name: (hits.sum(axis=0) / questions).round(4).tolist() for name, hits in values.items()}
    model = FusionFile(
        format="linkseek fusion 1",
        pipelines=options.pipeline,
        links=options.links,
        neighbours=options.neighbours,
        features=reader.names,
        trained={
            "questions": dict(labelled.collections),
            "with a relevant candidate": len(labelled.question),
            "corpus": index.manifest.corpus.sha256 or "",
            "depth": options.depth,
            "seed": options.seed,
            "accuracy at 1, 5, 20 of held-out questions": figures,
        },
        trees=trained.trees,
    )
    save_model(options.output, model, figures, ACCURACY_CUTOFFS)


def read_features(
    reader: FeatureReader, queries: Sequence[Query], rankings: Sequence[Ranking], numbers: NDArray[np.int64]
) -> Iterator[CandidateBatch]:
    """Read the candidates of all pipelines together."""
    candidates = reader.read(queries, rankings)
    yield CandidateBatch(numbers, candidates.rows, candidates.values[candidates.rows >= 0])


def _accuracies(examples: Examples, pipelines: Sequence[str], depth: int) -> dict[str, NDArray[np.bool_]]:
    """Accuracy of each pipeline and of their reciprocal-rank fusion, bool [Q, 3] each."""
    names = feature_names(pipelines, False)
    ranks = {name: -examples.values[:, names.index(f"{name}: rank")] for name in pipelines}
    ranks = {name: np.where(rank < -depth, -np.inf, rank) for name, rank in ranks.items()}
    ranks["reciprocal rank"] = examples.values[:, names.index("fused rank")]
    return {name: accuracy(examples, scores) for name, scores in ranks.items()}
