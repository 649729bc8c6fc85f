"""A compact index of very many vectors: time and memory to build it, recall, and the time of a search.

The vectors are made from the real ones of `--source` (a folder dense/NAME of an index): each is a mixture
of two vectors drawn at random, 60 to 100 % of the first, plus a little noise, scaled to length 1, so that the
vectors made from the same one are neighbours. For a multiple of their dimensions, mixtures are put side by
side. The questions come from `--questions`, encoded by the same encoder, else they are further mixtures.

With `--folder`, shards and index stay there: an interrupted run resumes with the next shard, and a later run
measures the same index. A row takes 2.25 bytes a dimension on disk. "Floor" is the processor time of the scan
of the codes alone; below it stands the time to read them from memory, which no scan beats.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.harness import Benchmark, Measurement, percentiles, run
from linkseek.indexer.encoding.shards import Shard, open_shards, read_shard, write_shard
from linkseek.indexer.machine.watch import Watch
from linkseek.indexer.program.progress import progress
from linkseek.indexer.search.compact import CANDIDATES, COMPACT
from linkseek.indexer.search.faiss_index import FaissIndex, build_faiss, open_faiss
from linkseek.indexer.search.faiss_tools import exhaustive_search, recall
from linkseek.indexer.store.artifacts import MANIFEST, VECTORS, open_array
from linkseek.indexer.store.manifest_files import read_part, write_manifest
from linkseek.indexer.store.manifests import FORMAT_VERSION, VectorsPart

_SHARD = 65_536  # rows
_K = 100
_CANDIDATES = (100, 200, 400, 1000, 2000)
_SINGLE, _BATCH = 200, 32  # questions


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Making shards, building, opening, recall, searching."""
    part = read_part(options.source, VectorsPart)
    flat = open_faiss(options.source, part, part.rows)
    source = np.array(flat.flat_vectors(), np.float32)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        (folder / VECTORS).mkdir(parents=True, exist_ok=True)
        _write_shards(folder / VECTORS, source, options.rows, options.dimension)
        shards = open_shards(folder / VECTORS, options.rows)
        if not (folder / MANIFEST).exists():
            yield from _build(folder, shards, options)
        started = time.perf_counter()
        manifest = read_part(folder, VectorsPart)
        index = open_faiss(folder, manifest, options.rows)
        yield Measurement("open", "s", time.perf_counter() - started)
        queries = _questions(options, part, source)
        yield from _recall(folder, index, shards, queries)
        with Watch(os.getpid()) as watch:
            yield from _times(folder, index, queries)
        yield Measurement("memory of searching, without mapped pages", "MB", watch.peak("main"))


def _write_shards(folder: Path, source: NDArray[np.float32], rows: int, dimension: int) -> None:
    with progress("making vectors", rows, "vectors") as advance:
        for number, first in enumerate(range(0, rows, _SHARD)):
            count = min(_SHARD, rows - first)
            shard = read_shard(folder, number, verify=False)
            if shard is None or shard.rows != count:
                write_shard(folder, number, first, mixtures(source, count, dimension, number))
            advance(count)


def mixtures(source: NDArray[np.float32], rows: int, dimension: int, seed: int) -> NDArray[np.float32]:
    """Vectors made from real ones, float32 [rows, dimension]. Raises `SystemExit` if it is not a multiple."""
    width = source.shape[1]
    if dimension % width:
        raise SystemExit(f"--dimension {dimension}: not a multiple of the source's {width}")
    chance = np.random.default_rng(seed)
    parts = []
    for _ in range(dimension // width):
        share = chance.uniform(0.6, 1.0, (rows, 1)).astype(np.float32)
        one, other = (source[chance.integers(0, len(source), rows)] for _ in range(2))
        noise = chance.standard_normal((rows, width), np.float32) * (0.05 / width**0.5)
        parts.append(share * one + (1 - share) * other + noise)
    made = np.concatenate(parts, axis=1)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def _build(folder: Path, shards: list[Shard], options: argparse.Namespace) -> Iterator[Measurement]:
    started, used = time.perf_counter(), time.process_time()
    with Watch(os.getpid()) as watch, progress("FAISS compact", options.rows, "vectors") as advance:
        ids = map(str, range(options.rows))
        built = build_faiss(folder, shards, COMPACT, options.dimension, ids, advance)
    encoder = {"name": "made up", "sha256": "", "location": ""}
    part = VectorsPart(
        format_version=FORMAT_VERSION, fingerprint={}, files={}, encoder=encoder, factory=COMPACT, **built
    )
    write_manifest(folder, part)
    yield Measurement("build", "s", time.perf_counter() - started)
    yield Measurement("build, processor time", "s", time.process_time() - used)
    yield Measurement("memory of building, without mapped pages", "MB", watch.peak("main"))
    yield Measurement("size of the codes", "MB", (folder / "index").stat().st_size / 1e6)


def _questions(
    options: argparse.Namespace, part: VectorsPart, source: NDArray[np.float32]
) -> NDArray[np.float32]:
    """float32 [Q, d]"""
    if options.questions is None:
        return mixtures(source, options.limit, options.dimension, 1 << 40)
    from linkseek.retriever.models.biencoder import open_biencoder
    from linkseek.retriever.queries import read_queries

    texts = [query.text for query in read_queries(options.questions, options.limit)]
    encoded = open_biencoder(part.encoder["location"]).search_vectors(texts)
    return np.tile(encoded, options.dimension // encoded.shape[1])


def _recall(
    folder: Path, index: FaissIndex, shards: list[Shard], queries: NDArray[np.float32]
) -> Iterator[Measurement]:
    kept = folder / f"exact-{len(queries)}.npy"  # hours at 21 million rows on a slow machine
    if not kept.exists():
        with progress("exact search", len(index), "vectors") as advance:
            blocks = (block for shard in shards for block in shard.blocks(8192))
            np.save(kept, exhaustive_search(blocks, queries, _K, advance)[0])
    for candidates in _CANDIDATES:
        found, _ = index.search(queries, _K, candidates=candidates)
        share = recall(found, open_array(kept))
        yield Measurement(f"recall@{_K}, {candidates} candidates", "per 1,000", 1000 * share)


def _times(folder: Path, index: FaissIndex, queries: NDArray[np.float32]) -> Iterator[Measurement]:
    singles = [queries[at % len(queries)][None] for at in range(_SINGLE)]
    index.search(queries[:_BATCH], _K)  # maps what is read for the first time
    whole, floor = [], []
    for query in singles:
        started = time.perf_counter()
        index.search(query, _K)
        whole.append(time.perf_counter() - started)
        used = time.process_time()
        index.index.candidates(query, CANDIDATES)
        floor.append(time.process_time() - used)
    least = 1000 * float(np.median(floor))
    for percent in (50, 95):
        taken = 1000 * float(np.percentile(whole, percent))
        yield Measurement(f"a question, p{percent} (limit: floor)", "ms", taken, limit=least)
    yield Measurement("reading the codes, all cores", "ms", 1000 * _reading_seconds(folder / "index"))
    batches = []
    for start in range(0, len(queries) - _BATCH + 1, _BATCH)[:10]:
        started = time.perf_counter()
        index.search(queries[start : start + _BATCH], _K)
        batches.append(1000 * (time.perf_counter() - started) / _BATCH)
    yield from percentiles(f"batches of {_BATCH}", "ms a question", batches)


def _reading_seconds(path: Path) -> float:
    """The best of three."""
    words = np.memmap(path, np.uint64, "r", shape=path.stat().st_size // 8)
    threads = os.cpu_count() or 1
    taken = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(3):
            started = time.perf_counter()
            list(pool.map(np.bitwise_xor.reduce, np.array_split(words, threads)))
            taken.append(time.perf_counter() - started)
    return min(taken)


def _options(parser: argparse.ArgumentParser) -> None:
    sample = Path("index/sample/dense/all-MiniLM-L6-v2")
    parser.add_argument("--source", type=Path, default=sample, help="a Flat part dense/NAME of an index")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--questions", type=Path, help="questions in any format that evaluations read")
    parser.add_argument("--limit", type=int, default=500, help="questions of that file")
    parser.add_argument("--folder", type=Path, help="where shards and index stay; default a temporary one")


BENCHMARK = Benchmark("large", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
