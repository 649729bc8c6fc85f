"""An index of millions of vectors on a GPU: built, opened and searched by the product's own classes.

Made-up vectors of unit length in shards, as encoding leaves them; then each type of index: building it on the
CPU, opening it on the device, and searches. The peer of a `Flat` index, which torch searches, is FAISS's own
flat index on the GPU in float16; of other types, and where FAISS is not built for GPUs, FAISS on the CPU.
The limit is one pass over all vectors, or their products, whichever is slower.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.dense import opened
from benchmarks.gpu.search import add_options, unit_vectors
from benchmarks.support.ceilings import multiplying, reading
from benchmarks.support.harness import Benchmark, Ceiling, Measurement, compare, run
from linkseek.indexer.encoding.shards import Shard, write_shard
from linkseek.indexer.program.errors import LinkseekError
from linkseek.indexer.search.faiss_index import FLAT, FaissIndex
from linkseek.indexer.search.faiss_tools import import_faiss
from linkseek.indexer.search.gpu_index import on_device
from linkseek.indexer.store.artifacts import VECTORS

_SHARD = 1 << 18  # vectors


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Seconds to build and to open, milliseconds a search."""
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    ceilings = (
        reading(device, options.megabytes),
        multiplying(device, "float32" if device == "cpu" else "float16", options.product),
    )
    with tempfile.TemporaryDirectory() as name:
        shards = _shards(Path(name) / VECTORS, options.vectors, options.dimension, device)
        yield Measurement("vectors", "", options.vectors)
        for factory in options.faiss:
            try:
                yield from _type(Path(name), shards, factory, device, ceilings, options)
            except LinkseekError as error:
                print(f"{factory}: {error.message}", flush=True)


def _type(
    scratch: Path,
    shards: list[Shard],
    factory: str,
    device: str,
    ceilings: tuple[Ceiling, Ceiling],
    options: argparse.Namespace,
) -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        (Path(name) / VECTORS).symlink_to(scratch / VECTORS)  # a compact index reads them
        started = time.perf_counter()
        on_cpu = opened(Path(name), shards, factory, options.dimension)
        yield Measurement(f"{factory}: built", "s", time.perf_counter() - started)
        started = time.perf_counter()
        index = on_device(on_cpu, "cpu" if device == "cpu" else "cuda")
        yield Measurement(f"{factory}: opened on the device", "s", time.perf_counter() - started)
        peer = _peer(on_cpu, device)
        size = float(options.vectors * options.dimension)
        memory, product = ceilings
        for count in options.batches:
            queries = unit_vectors(torch.Generator().manual_seed(1), count, options.dimension).numpy()
            yield compare(
                f"{factory}: top {options.k}, batch of {count}",
                "ms",
                partial(index.search, queries, options.k),
                partial(peer.search, queries, options.k),
                options.rounds,
                1000,
                [(2.0 * size, memory), (2.0 * size * count, product)] if factory == FLAT else (),
            )


def _peer(index: FaissIndex, device: str) -> Any:
    faiss = import_faiss()
    if index.manifest.factory != FLAT or device == "cpu" or not hasattr(faiss, "GpuIndex"):
        return index
    options = faiss.GpuClonerOptions()
    options.useFloat16 = True
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index.index, options)


def _shards(folder: Path, count: int, dimension: int, device: str) -> list[Shard]:
    folder.mkdir()
    chance = torch.Generator(device).manual_seed(0)
    return [
        write_shard(
            folder,
            number,
            start,
            unit_vectors(chance, min(_SHARD, count - start), dimension).half().cpu().numpy(),
        )
        for number, start in enumerate(range(0, count, _SHARD))
    ]


def _options(parser: argparse.ArgumentParser) -> None:
    add_options(parser, 2_000_000, (1, 16, 512))
    parser.add_argument(
        "--faiss", nargs="+", default=["Flat", "IVF1024,SQfp16", "compact"], help="types of index"
    )


BENCHMARK = Benchmark("gpu_index", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
