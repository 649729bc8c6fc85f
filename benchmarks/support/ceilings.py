"""The machine's ceilings: how fast it reads its memory, and how fast it multiplies matrices.

Measured by the simplest possible work in torch: the sum of a large array, and the product of two large square
matrices. No program on this machine can beat a limit computed from these.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.support.harness import Ceiling


def reading(device: str = "cpu", megabytes: int = 1024) -> Ceiling:
    """Bytes read from memory, in float32 and by all cores."""
    numbers = torch.ones(megabytes * (1 << 20) // 4, device=device)
    return Ceiling(_finished(lambda: numbers.sum(), device), numbers.numel() * 4)


def multiplying(device: str = "cpu", precision: str = "float32", size: int = 2048) -> Ceiling:
    """Floating point operations of a product, a multiplication and an addition each."""
    a, b = (torch.ones((size, size), dtype=getattr(torch, precision), device=device) for _ in range(2))
    return Ceiling(_finished(lambda: a @ b, device), 2.0 * size**3)


def rate(ceiling: Ceiling, seconds: float = 1.0) -> float:
    """Amount per second: the best of as many rounds as fit into `seconds`."""
    best, until = float("inf"), time.perf_counter() + seconds
    ceiling.run()
    while best == float("inf") or time.perf_counter() < until:
        started = time.perf_counter()
        ceiling.run()
        best = min(best, time.perf_counter() - started)
    return ceiling.amount / best


def _finished(work: Callable[[], Any], device: str) -> Callable[[], Any]:
    """Work whose end is waited for: a GPU's goes on behind Python's back."""
    if not device.startswith("cuda"):
        return work

    def run() -> None:
        work()
        torch.cuda.synchronize(device)

    return run


def encoder_operations(layers: int, width: int, inner: int, lengths: list[int]) -> float:
    """Floating point operations of a transformer's layers on sequences of these lengths.

    A token costs 8 width^2 (query, key, value, output), 4 width x inner (feed-forward) and, with L tokens to
    look at, 4 L width (scores and sums) in each layer; nothing for padding.
    """
    each = 8.0 * width**2 + 4.0 * width * inner
    return sum(layers * length * (each + 4.0 * length * width) for length in lengths)
