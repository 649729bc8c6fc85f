"""Mining dual links and co-mentions from synthetic link graphs of growing size: time and peak memory.

Each passage has eight links: half to nearby documents, which often link back, half to documents drawn with
in-degrees distributed as in Wikipedia, so that there are hubs. Each size is measured in its own process. The
row for 22 million passages, the size of HLP's Wikipedia, is extrapolated from the two largest sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

from benchmarks.support.harness import Benchmark, Measurement, run
from benchmarks.support.watch import BenchmarkWatch
from linkseek.indexer.links import LinkGraph
from linkseek.retriever.links.topology import Topology

_WIKIPEDIA = 22_334_994
_PASSAGES_A_DOCUMENT = 4
_LINKS_A_PASSAGE = 8
_NEARBY = 100
_INTERVAL = 0.02  # seconds between two samples of the memory


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Processor seconds, pairs and peak memory for each size."""
    figures, peaks = [], {}
    for passages in options.passages:
        command = [sys.executable, "-m", "benchmarks.mining", "--one", str(passages)]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        name = f"{passages:,} passages"
        figures += [
            Measurement(f"{name}, {result['links']:,} links", "s", result["seconds"]),
            Measurement("  microseconds a link", "µs", result["seconds"] / result["links"] * 1e6),
            Measurement("  dual links", "pairs", result["dual_links"]),
            Measurement("  co-mentions", "pairs", result["co_mentions"]),
            Measurement("  peak memory", "GB", result["peak_gb"]),
        ]
        peaks[passages] = result["peak_gb"]
    (less, low), (more, high) = sorted(peaks.items())[-2:]
    projected = high + (high - low) / (more - less) * (_WIKIPEDIA - more)
    figures.append(Measurement(f"{_WIKIPEDIA:,} passages, projected: peak memory", "GB", projected))
    return figures


def made_up(passages: int, seed: int = 1) -> tuple[LinkGraph, np.ndarray]:
    """A link graph, and the first passage of each document, int64 [D+1]."""
    draw = np.random.default_rng(seed)
    documents = passages // _PASSAGES_A_DOCUMENT
    links = passages * _LINKS_A_PASSAGE
    passage = np.repeat(np.arange(passages, dtype=np.int32), _LINKS_A_PASSAGE)
    source = passage // _PASSAGES_A_DOCUMENT
    near = source + draw.integers(-_NEARBY, _NEARBY + 1, links, dtype=np.int32)
    # in-degrees that fall with the square root of the rank: the first has hundreds of thousands
    far = (draw.random(links, np.float32) ** 2 * documents).astype(np.int32)
    target = np.where(np.arange(links) % 2 == 0, near, far).clip(0, documents - 1).astype(np.int32)
    nothing = np.zeros(1, np.int32)
    no_offsets = np.zeros(1, np.int64)
    graph = LinkGraph(target, passage, nothing, nothing, no_offsets, nothing, no_offsets)
    return graph, np.arange(0, passages + 1, _PASSAGES_A_DOCUMENT, dtype=np.int64)


def _measure_one(passages: int) -> dict[str, float]:
    with BenchmarkWatch(os.getpid(), _INTERVAL) as watch:
        graph, offsets = made_up(passages)
        started = time.process_time()
        topology = Topology(graph, offsets)
        dual, shared = topology.dual_links(), topology.co_mentions()
        seconds = time.process_time() - started
    return {
        "seconds": seconds,
        "links": len(graph),
        "dual_links": len(dual),
        "co_mentions": len(shared),
        "peak_gb": watch.mapped / 1024,
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--passages", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])


BENCHMARK = Benchmark("mining", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        os.nice(5)
        print(json.dumps(_measure_one(int(sys.argv[2]))))
    else:
        run(BENCHMARK)
