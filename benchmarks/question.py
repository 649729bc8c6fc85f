"""One question at a time, end to end, through the pipelines of an open, warm index.

The time runs from the question's text to ranked passages with titles, texts and marked terms.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Benchmark, Figure, run
from linkseek.app.service import SearchService
from linkseek.indexer.base.errors import UsageError
from linkseek.retriever.queries import read_queries

_PIPELINES = ("bm25", "ql", "dense", "hybrid")
_WARM_UP = 10


def measure(options: argparse.Namespace) -> list[Figure]:
    """Median and 95th percentile, in milliseconds."""
    if not (options.index / "manifest.json").exists():
        raise UsageError(f"{options.index}: no index here", "Run make demo first, or name one with --index.")
    service = SearchService(options.index)
    questions = [query.text for query in read_queries(options.queries, options.questions + _WARM_UP)]
    figures = [Figure("passages in the index", "", len(service.index.passages))]
    for pipeline in _PIPELINES:
        taken = []
        for question in questions:
            started = time.perf_counter()
            service.search(question, pipeline, options.k)
            taken.append(1000 * (time.perf_counter() - started))
        p50, p95 = np.percentile(taken[_WARM_UP:], [50, 95])
        figures += [
            Figure(f"{pipeline}, p50", "ms", float(p50)),
            Figure(f"{pipeline}, p95", "ms", float(p95)),
        ]
    return figures


def _options(parser: argparse.ArgumentParser) -> None:
    samples = Path(__file__).parents[1]
    parser.add_argument("--index", type=Path, default=samples / "index" / "sample")
    parser.add_argument("--queries", type=Path, default=samples / "samples" / "questions.jsonl")
    parser.add_argument("--questions", type=int, default=90)
    parser.add_argument("-k", type=int, default=10)


BENCHMARK = Benchmark("question", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
