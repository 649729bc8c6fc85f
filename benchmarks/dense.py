"""Exact dense search: `FaissIndex.search` compared with raw FAISS on the same file.

The vectors are synthetic: normally distributed, of unit length, in the requested number and width. The limit
for a Flat index is one pass over all vectors for each batch of queries, or the matrix products in float32,
whichever is slower.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.support.ceilings import multiplying, reading
from benchmarks.support.harness import Benchmark, Measurement, compare, run
from linkseek.indexer.encoding.shards import Shard, write_shard
from linkseek.indexer.search.faiss_index import FaissIndex, build_faiss, open_faiss
from linkseek.indexer.search.faiss_tools import import_faiss
from linkseek.indexer.store.manifests import FORMAT_VERSION, VectorsPart

_ENCODER = {"name": "random", "sha256": "", "location": "random"}


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Milliseconds a query, for one query and for batches."""
    faiss = import_faiss()
    chance = np.random.default_rng(0)
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards = [
            write_shard(folder, number, number * size, _unit(chance, size, options.dimension))
            for number, size in enumerate([options.vectors // 4] * 4)
        ]
        ours = opened(folder, shards, options.faiss, options.dimension)
        raw = faiss.read_index(str(folder / "index"))
        size = len(ours) * options.dimension
        memory, product = reading(), multiplying()
        for count in (1, 16, 256):
            needs = [(2.0 * size, memory), (2.0 * size * count, product)]
            queries = _unit(chance, count, options.dimension)
            figures.append(
                compare(
                    f"top {options.k}, batch of {count}",
                    "ms a query",
                    partial(ours.search, queries, options.k),
                    partial(raw.search, queries, options.k),
                    options.rounds,
                    1000 / count,
                    needs if options.faiss == "Flat" else (),
                )
            )
    return figures


def opened(folder: Path, shards: list[Shard], factory: str, dimension: int) -> FaissIndex:
    """An index of the vectors in shards, built into a folder and opened."""
    rows = sum(shard.rows for shard in shards)
    built = build_faiss(folder, shards, factory, dimension, map(str, range(rows)))
    part = {"fingerprint": {}, "files": {}, "encoder": _ENCODER, "factory": factory}
    return open_faiss(folder, VectorsPart(format_version=FORMAT_VERSION, **part, **built), rows)


def _unit(chance: np.random.Generator, rows: int, dimension: int) -> np.ndarray:
    vectors = chance.standard_normal((rows, dimension), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vectors", type=int, default=146_152)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--faiss", default="Flat", help="factory string")
    parser.add_argument("-k", type=int, default=100)


BENCHMARK = Benchmark("dense", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
