"""Exact dense search on a GPU, `indexer.search.exact`, compared with `torch.topk` over blocks of scores.

As many synthetic vectors as DPR's Wikipedia has passages, 768 wide, in float16 on the GPU; fewer where its
memory is smaller. The limit is one pass over all vectors, or the products of all vectors and queries,
whichever is slower. The rows are compared with the rows of a search in float32.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.support.ceilings import multiplying, reading
from benchmarks.support.harness import Benchmark, Measurement, as_rate, compare, run
from linkseek.indexer.search.exact import _MORE_GROUPS, ExactSearch, _best

_BLOCK = 1 << 19  # vectors


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Milliseconds a search, for one query and for batches."""
    device = options.device or ("cuda:0" if torch.cuda.is_available() else "cpu")
    vectors = _vectors(options.vectors, options.dimension, device)
    precision = "float32" if device == "cpu" else "float16"
    memory = reading(device, options.megabytes)
    product = multiplying(device, precision, options.product)
    yield as_rate(compare("reading", "", memory.run, None, options.rounds), "GB/s", memory.amount / 1e9)
    yield as_rate(
        compare(f"product, {precision}", "", product.run, None, options.rounds),
        "TFLOP/s",
        product.amount / 1e12,
    )
    yield Measurement("vectors", "", len(vectors))
    search = ExactSearch(vectors, [device])
    queries = unit_vectors(torch.Generator().manual_seed(1), max(options.batches), options.dimension)
    wanted = _in_blocks(vectors, queries[:8].to(device), options.k, torch.float32)
    rows, _ = search.search(queries[:8].numpy(), options.k)
    missing = sum(
        len(set(best) - set(found)) for best, found in zip(wanted.tolist(), rows.tolist(), strict=True)
    )
    yield Measurement("rows missing from a search in float32", "", missing)
    for count in options.batches:
        batch = queries[:count]
        on_device = batch.to(device)
        needs = [(vectors.numel() * 2.0, memory), (2.0 * vectors.numel() * count, product)]
        yield compare(
            f"top {options.k}, batch of {count}",
            "ms",
            lambda batch=batch: search.search(batch.numpy(), options.k),
            lambda on=on_device: _in_blocks(vectors, on, options.k, vectors.dtype).cpu(),
            options.rounds,
            1000,
            needs,
        )
        yield from _parts(search, batch, options.k, device, options.rounds)


def _parts(search: ExactSearch, queries: Tensor, k: int, device: str, rounds: int) -> Iterator[Measurement]:
    """The steps of a search: all vectors for the largest score of each group, and the best groups again."""
    [part] = search._parts

    def waited(work: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            with torch.inference_mode():
                work()
                if device != "cpu":
                    torch.cuda.synchronize(device)

        return run

    with torch.inference_mode():
        maxima = part.group_maxima(queries)
        groups = torch.topk(maxima, min(k + _MORE_GROUPS, len(maxima)), dim=0).indices.T
        candidates = part._score(queries.to(device), groups)
    steps: dict[str, Callable[[], Any]] = {
        "largest of each group": lambda: part.group_maxima(queries),
        "best groups": lambda: torch.topk(maxima, groups.shape[1], dim=0),
        "scores of their rows": lambda: part._score(queries.to(device), groups),
        "best rows": lambda: _best(*candidates, k),
    }
    for name, work in [*steps.items()] if part._kernels else ():
        steps[f"{name}, without kernels"] = patch.object(part, "_kernels", None)(work)
    for name, work in steps.items():
        yield compare(f"  {name}", "ms", waited(work), None, rounds, 1000)


def _vectors(count: int, dimension: int, device: str) -> Tensor:
    """Unit vectors, float16 [N, d], made where they are; fewer if they would not fit."""
    if device != "cpu":
        free, _ = torch.cuda.mem_get_info(device)
        count = min(count, int(0.7 * free) // (2 * dimension))
    vectors = torch.empty((count, dimension), dtype=torch.float16, device=device)
    chance = torch.Generator(device).manual_seed(0)
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        vectors[start : start + size] = unit_vectors(chance, size, dimension)
    return vectors


def unit_vectors(chance: torch.Generator, rows: int, dimension: int) -> Tensor:
    """Random directions, float32 [rows, dimension], where the generator is."""
    vectors = torch.randn((rows, dimension), generator=chance, device=chance.device)
    return vectors / vectors.norm(dim=1, keepdim=True)


def _in_blocks(vectors: Tensor, queries: Tensor, k: int, precision: torch.dtype) -> Tensor:
    """The plain way: int64 [Q, k]."""
    blocks: list[tuple[Tensor, Tensor]] = []
    for start in range(0, len(vectors), _BLOCK):
        scores = queries.to(precision) @ vectors[start : start + _BLOCK].to(precision).T  # [Q, b]
        best = torch.topk(scores, min(k, scores.shape[1]), dim=1)
        blocks.append((best.values, best.indices + start))
    scores, rows = (torch.cat(pieces, 1) for pieces in zip(*blocks, strict=True))
    return rows.gather(1, torch.topk(scores, k, dim=1).indices)


def add_options(
    parser: argparse.ArgumentParser, vectors: int = 21_015_324, batches: Sequence[int] = (1, 8, 16, 64, 512)
) -> None:
    """Options of every benchmark of vectors on a GPU."""
    parser.add_argument("--vectors", type=int, default=vectors)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--batches", type=int, nargs="+", default=[*batches])
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--product", type=int, default=8192, help="rows of the largest matrices")
    parser.add_argument("--megabytes", type=int, default=8192, help="of the largest array that is read")
    parser.add_argument("--device", help="cuda:0 where there is one, else cpu")


BENCHMARK = Benchmark("gpu_search", __doc__.partition("\n")[0], measure, add_options)

if __name__ == "__main__":
    run(BENCHMARK)
