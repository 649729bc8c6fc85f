"""The time and size of a file of mined data, from a few lines that are mined for it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

import psutil
import zstandard

from linkseek.indexer.program.text import byte_size, duration
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.pairs import LONG

SAMPLE = 200
"""Lines that are mined for a plan."""


@dataclass(frozen=True, slots=True)
class MiningPlan:
    """Counts of lines, and estimates.

    shares: the largest number of lines of each objective. size, compressed: bytes as .jsonl and .jsonl.zst;
    the latter is a limit, since many lines share more text than a few. seconds: on this machine.
    memory: bytes of a process that has the candidates.
    """

    unit: str
    shares: dict[str, int]
    size: float
    compressed: float
    seconds: float
    memory: int

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.shares.items())
        return (
            f"{sum(self.shares.values()):,} {self.unit}s at most ({counts}): about {byte_size(self.size)} as "
            f".jsonl, up to {byte_size(self.compressed)} as .jsonl.zst, {duration(self.seconds)}, "
            f"{byte_size(self.memory)} of memory in each process"
        )


def plan_mining(miner: Miner[Any], total: int | None) -> MiningPlan:
    """The plan of a file of `total` lines, None: of all. Raises `InputError` as `Miner.lines` does."""
    shares = miner.shares(total)
    expected = sum(shares.values())
    started = time.monotonic()
    lines = [*miner.lines(min(SAMPLE, expected))]
    seconds = time.monotonic() - started
    data = b"".join(lines)
    compressed = len(zstandard.ZstdCompressor(compression_params=LONG).compress(data))
    scale = expected / len(lines)
    memory = psutil.Process(os.getpid()).memory_info().rss
    return MiningPlan(miner.unit, shares, len(data) * scale, compressed * scale, seconds * scale, memory)
