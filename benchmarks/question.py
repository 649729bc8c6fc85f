"""One question at a time, end to end, through the pipelines of an open, warm index.

The time runs from the question's text to ranked passages with titles, texts and marked terms; the time of a
stage is its part of this time. Memory is what the process has taken so far, without the files that it maps.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks.harness import Benchmark, Figure, asked, run
from linkseek.app.service import SearchService
from linkseek.indexer.base.errors import UsageError

_PIPELINES = ("bm25", "ql", "dense", "hybrid")
_WARM_UP = 10


def measure(options: argparse.Namespace) -> list[Figure]:
    """Median and 95th percentile, in milliseconds, of the whole and of each stage that was asked for."""
    if not (options.index / "manifest.json").exists():
        raise UsageError(f"{options.index}: no index here", "Run make demo first, or name one with --index.")
    service = SearchService(options.index, pipelines_file=options.pipelines_file)
    questions = [query.text for query in asked(service.index, options.queries, options.questions + _WARM_UP)]
    figures = [Figure("passages in the index", "", len(service.index.passages))]
    for pipeline in options.pipeline:
        taken: dict[str, list[float]] = {
            pipeline: [],
            **{f"{pipeline}, {stage}": [] for stage in options.stage},
        }
        for question in questions:
            started = time.perf_counter()
            answer = service.search(question, pipeline, options.k)
            taken[pipeline].append(time.perf_counter() - started)
            for stage in options.stage:
                taken[f"{pipeline}, {stage}"].append(answer.stages.get(stage, 0.0))
        for name, seconds in taken.items():
            p50, p95 = 1000 * np.percentile(seconds[_WARM_UP:], [50, 95])
            figures += [Figure(f"{name}, p50", "ms", float(p50)), Figure(f"{name}, p95", "ms", float(p95))]
        memory = psutil.Process().memory_info()
        figures.append(Figure(f"{pipeline}, memory", "MB", (memory.rss - getattr(memory, "shared", 0)) / 1e6))
    return figures


def _options(parser: argparse.ArgumentParser) -> None:
    samples = Path(__file__).parents[1]
    parser.add_argument("--index", type=Path, default=samples / "index" / "sample")
    questions = samples / "samples" / "questions.jsonl"
    text = "questions; without a file, words of random passages"
    parser.add_argument("--queries", type=Path, nargs="?", default=questions, help=text)
    parser.add_argument("--questions", type=int, default=90)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--pipeline", nargs="+", default=_PIPELINES)
    parser.add_argument("--pipelines-file", type=Path, help="a TOML file with pipelines of your own")
    parser.add_argument(
        "--stage", nargs="+", default=(), help="also the time of these stages: 'follow links'"
    )


BENCHMARK = Benchmark("question", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
