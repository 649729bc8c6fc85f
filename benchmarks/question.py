"""One question at a time, end to end, through the pipelines of an open, warm index.

The time runs from the question's text to ranked passages with titles, texts and marked terms; the time of a
stage is its part of this time. Memory is what the process has taken so far, without the files that it maps.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import psutil

from benchmarks.support.harness import (
    Benchmark,
    Measurement,
    add_question_options,
    asked,
    check_index,
    percentiles,
    run,
)
from linkseek.app.service import SearchService

_PIPELINES = ("bm25", "ql", "dense", "hybrid")
_WARM_UP = 10


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Median and 95th percentile, in milliseconds, of the whole and of each stage that was asked for."""
    check_index(options.index)
    service = SearchService(options.index, pipelines_file=options.pipelines_file)
    questions = [query.text for query in asked(service.index, options.queries, options.questions + _WARM_UP)]
    figures = [Measurement("passages in the index", "", len(service.index.passages))]
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
            figures += percentiles(name, "ms", [1000 * taken for taken in seconds[_WARM_UP:]])
        memory = psutil.Process().memory_info()
        figures.append(
            Measurement(f"{pipeline}, memory", "MB", (memory.rss - getattr(memory, "shared", 0)) / 1e6)
        )
    return figures


def _options(parser: argparse.ArgumentParser) -> None:
    add_question_options(parser, questions=90)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--pipeline", nargs="+", default=_PIPELINES)
    parser.add_argument("--pipelines-file", type=Path, help="a TOML file with pipelines of your own")
    parser.add_argument(
        "--stage", nargs="+", default=(), help="also the time of these stages: 'follow links'"
    )


BENCHMARK = Benchmark("question", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
