"""python -m experiments fusions: does a learned fusion help a collection that it has not seen?

Trees rank the candidates of both by features without a unit of a corpus: scores scaled for each question, and
in standard deviations below its best, ranks, and shares of the words of titles and questions. Each
collection is held back once, and compared with the fusion by two weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.app.commands.train_fusion import read_features
from linkseek.app.evaluation.significance import holm, randomisation_test
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.examples import ExampleBuilder, collection_of_test_set
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.learned.learned_fusion import FeatureReader, feature_names
from linkseek.retriever.learned.training import ACCURACY_CUTOFFS, Examples, accuracy, train
from linkseek.retriever.queries import read_queries
from linkseek.retriever.search.runs import read_qrels

_OF_EACH = ("scaled score", "rank")
_OF_ALL = ("fused rank", "rank in article", "title in question", "question in title", "question words")
"""Features without a unit of a corpus."""

MEASURES = (*(f"accuracy@{cutoff}" for cutoff in ACCURACY_CUTOFFS), "nDCG@10")


def main(argv: Sequence[str]) -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(
        "python -m experiments fusions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--collection",
        nargs="+",
        action="append",
        required=True,
        metavar=("INDEX", "QUERIES"),
        help="an index, questions, and judgements, where the questions have no answers; for each collection",
    )
    parser.add_argument("--limit", type=int, default=2000, help="questions of each, drawn at random")
    parser.add_argument("--pipeline", nargs=2, default=["bm25", "dense"], help="what is fused")
    parser.add_argument("--weight", type=float, default=0.4, help="of the first one, in the other fusion")
    parser.add_argument("--depth", type=int, default=100, help="results of each that are candidates")
    parser.add_argument("--seed", type=int, default=1, help="of the draw and of the trees")
    options = parser.parse_args(argv)
    if not all(len(files) in (2, 3) for files in options.collection):
        parser.error("--collection takes an index, questions and, if needed, judgements")
    names = feature_names(options.pipeline, False)
    scores = [names.index(f"{pipeline}: score") for pipeline in options.pipeline]
    scaled = [names.index(f"{pipeline}: scaled score") for pipeline in options.pipeline]
    collections = [collected(*files, options=options) for files in options.collection]
    weights = np.array([options.weight, 1 - options.weight])
    kept = [names.index(f"{pipeline}: {name}") for pipeline in options.pipeline for name in _OF_EACH]
    kept += [names.index(name) for name in _OF_ALL]
    joined = Examples.joined([each for each, _ in collections])
    fold = np.repeat(np.arange(len(collections)), [len(each.sizes) for each, _ in collections])
    values = np.column_stack([joined.values[:, kept], *(below_best(joined, column) for column in scores)])
    examples = replace(joined, values=values.astype(np.float32))
    learned = train(examples, fold, options.seed, measured).values  # [Q, 4]
    weighted = measured(joined, joined.values[:, scaled] @ weights)
    print(f"\n| held back | questions | {' | '.join(MEASURES)} |\n|---|---|{'---|' * len(MEASURES)}")
    differences = [(learned - weighted)[fold == number] for number in range(len(collections))]
    p = holm(np.concatenate([randomisation_test(each) for each in differences]).tolist())
    for number, (files, (_, questions)) in enumerate(zip(options.collection, collections, strict=True)):
        of_all = differences[number].sum(axis=0) / questions, weighted[fold == number].sum(axis=0) / questions
        cells = [
            f"{100 * before:.1f} {100 * more:+.1f} (p = {p[number * len(MEASURES) + place]:.3f})"
            for place, (more, before) in enumerate(zip(*of_all, strict=True))
        ]
        print(f"| {Path(files[1]).name} | {questions:,} | {' | '.join(cells)} |")


def collected(
    index: str, queries: str, qrels: str = "", *, options: argparse.Namespace
) -> tuple[Examples, int]:
    """The examples of a collection, and how many questions were asked."""
    opened = OpenIndex.open(Path(index))
    pipelines = Pipelines(opened)
    asked = list(read_queries(Path(queries)))
    drawn = np.sort(np.random.default_rng(options.seed).permutation(len(asked))[: options.limit])
    judged = read_qrels(Path(qrels)) if qrels else None
    test_set = LoadedTestSet(Path(queries).name, [asked[number] for number in drawn], judged)
    builder, reader = ExampleBuilder(options.depth), FeatureReader(opened, options.pipeline, links=False)
    both = [pipelines.open(name) for name in options.pipeline]
    builder.add(opened, collection_of_test_set(opened, test_set), both, partial(read_features, reader))
    labelled = builder.examples()
    return labelled.examples, labelled.collections[0][1]


def below_best(examples: Examples, column: int) -> NDArray[np.float64]:
    """How far a score is below the best of its question, in standard deviations of them, float64 [n]."""
    values, first = examples.values[:, column].astype(np.float64), np.cumsum(examples.sizes) - examples.sizes
    means, squares = (np.add.reduceat(each, first) / examples.sizes for each in (values, values**2))  # [Q]
    deviations = np.sqrt(np.maximum(squares - means**2, 1e-12))
    best = np.repeat(np.maximum.reduceat(values, first), examples.sizes)
    return np.asarray((values - best) / np.repeat(deviations, examples.sizes))


def measured(examples: Examples, scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Accuracy at 1, 5 and 20, and nDCG@10 among the candidates, by scores [n]: float64 [Q, 4]."""
    question, rank = examples.hits(scores)
    gains = np.where(rank < 10, 1 / np.log2(rank + 2), 0)
    relevant = np.bincount(question, minlength=len(examples.sizes))
    best = np.cumsum(1 / np.log2(np.arange(10) + 2))[np.clip(relevant, 1, 10) - 1]
    ndcg = np.bincount(question, gains, len(examples.sizes)) / best
    return np.column_stack([accuracy(examples, scores), ndcg])
