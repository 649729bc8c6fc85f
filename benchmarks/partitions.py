"""Searching an index in partitions, compared with one index of the same passages, a question at a time.

In this process ("here"), and by the actors of a local Ray cluster. Both are open at once and asked each
question in turn, every other one in the other order, so that a machine whose speed drifts slows both. Times
run from the question's text to the ids and scores of the best passages. The questions come from a file, or
are the last eight words of random passages. "results of both": the share of the one index's results that the
partitions have too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.harness import ROOT, Benchmark, Measurement, asked, run
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.commands.partition import split_index
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.cluster import LOCAL, connected
from linkseek.indexer.partition_actors import PartitionActors
from linkseek.retriever.ranking import Query, Ranking

_Pipeline = Callable[[Sequence[Query], int], Ranking]


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Percentiles of each pipeline in milliseconds, in partitions (ours) and as one index (peer)."""
    whole = OpenIndex.open(options.index)
    queries = asked(whole, options.queries, options.questions + options.warm_up)
    yield Measurement("passages", "", len(whole.passages))
    with tempfile.TemporaryDirectory(dir=options.index.parent) as temporary:  # where files can be linked
        divided = options.divided or Path(temporary) / "index"
        if not options.divided:
            split_index(divided, options.index, options.split)
        yield Measurement("partitions", "", len(OpenIndex.open(divided).partitions))
        for where, address in (("here", None), ("Ray", LOCAL)):
            with connected(address) as ray, _searched([OpenIndex.open(divided), whole], ray) as both:
                for name in options.pipelines:
                    pipelines = [each.open(name) for each in both]
                    taken, shared = _ask(pipelines, queries, options.warm_up, options.k)
                    for percent in (50, 95):
                        ours, peer = np.percentile(taken, percent, axis=1).tolist()
                        yield Measurement(f"{where}: {name}, p{percent}", "ms", ours, peer, ours / peer)
                    yield Measurement(f"{where}: {name}, results of both", "%", 100 * shared)


@contextmanager
def _searched(indexes: Sequence[OpenIndex], ray: Any) -> Iterator[list[Pipelines]]:
    """Their pipelines; on a cluster each index has its actors."""
    actors = [PartitionActors(ray, index, replicas=1, partial=False) for index in indexes if ray]
    try:
        searched = [index.searched_by(searches) for index, searches in zip(indexes, actors, strict=False)]
        yield [Pipelines(index) for index in searched or indexes]
    finally:
        for searches in actors:
            searches.stop()


def _ask(
    pipelines: Sequence[_Pipeline], queries: Sequence[Query], warm_up: int, k: int
) -> tuple[list[list[float]], float]:
    """Milliseconds of each question for each pipeline, and the mean share of results that both have."""
    taken: list[list[float]] = [[] for _ in pipelines]
    shares = []
    for number, query in enumerate(queries):
        found: dict[int, set[int]] = {}
        for which in (0, 1) if number % 2 else (1, 0):
            started = time.perf_counter()
            ranking = pipelines[which]([query], k)
            taken[which].append(1000 * (time.perf_counter() - started))
            found[which] = {row for row, _ in ranking.results(0)}
        shares.append(len(found[0] & found[1]) / max(len(found[1]), 1))
    return [times[warm_up:] for times in taken], float(np.mean(shares))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", type=Path, default=ROOT / "index" / "sample")
    parser.add_argument("--split", type=int, default=4, help="partitions to make for the run")
    parser.add_argument("--divided", type=Path, help="partitions of the index that are already made")
    parser.add_argument("--pipelines", nargs="+", default=["bm25", "dense"])
    parser.add_argument("--queries", type=Path, help="questions; default: words of random passages")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--warm-up", type=int, default=500, help="questions before, while Java compiles")
    parser.add_argument("-k", type=int, default=100, help="results of a question")


BENCHMARK = Benchmark("partitions", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
