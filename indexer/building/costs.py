"""The cost of a build, for `linkseek build --plan`: measured of its pieces, and computed for the whole."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from linkseek.indexer.files.sources import Reading
from linkseek.indexer.machine.devices import memory_bytes
from linkseek.indexer.machine.watch import Watch
from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.readers.reader import Reader, Record
from linkseek.indexer.search.compact import COMPACT
from linkseek.indexer.search.faiss_index import FLAT
from linkseek.indexer.store.manifest_files import inventory

T = TypeVar("T")

READING_SECONDS = 6.0


@dataclass(frozen=True)
class Used:
    """The cost of a piece of work: seconds, processor seconds, and the memory that it added, in bytes.

    seconds: by the clock, without waiting for other programs.
    """

    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0

    def grown(self, many: float, rows: float, few: float = 0, smaller: Used | None = None) -> Used:
        """The time of `rows` if `many` took this and `few` took `smaller`; in proportion without that."""
        few, smaller = (few, smaller) if smaller else (many, self)
        grow = partial(line, few, many, rows)
        return replace(self, seconds=grow(smaller.seconds, self.seconds), cpu=grow(smaller.cpu, self.cpu))

    def then(self, after: Used) -> Used:
        """The cost of both, one after the other."""
        memory = max(self.memory, after.memory)
        return Used(self.seconds + after.seconds, self.cpu + after.cpu, memory)


NOTHING = Used()


class Meter:
    """Measures work in this process and its children."""

    def __init__(self, watch: Watch) -> None:
        """watch: the started watch of this process."""
        self._watch = watch

    def measured(self, work: Callable[[], T], *hashed: Path) -> tuple[Used, T]:
        """The cost of a piece of work, hashing of its files included, and its result."""
        used = self.started()
        result = work()
        for folder in hashed:
            inventory(folder)
        return used(), result

    def so_far(self) -> Used:
        """The processor time and the memory of this process until now."""
        seconds = time.process_time()
        return Used(seconds, seconds, int(self._watch.take().together * 2**20))

    def started(self) -> Callable[[], Used]:
        """Begin to measure; the function returns what was used since then."""
        before, cpu = self._watch.take(), time.process_time()

        def used() -> Used:
            now, own = self._watch.take(), time.process_time() - cpu
            both = own + now.children - before.children
            added = max(self._watch.peak("together", before.moment, now.moment) - before.together, 0)
            return Used(min(now.moment - before.moment, both), both, int(added * 2**20))

        return used


class FirstRecords:
    """The first records of a corpus, for some seconds, and the share of its bytes that they take."""

    def __init__(self, reader: Reader, used: Callable[[], Used]) -> None:
        """used: the cost of the reading so far."""
        self._reader = reader
        self._used = used
        self._halfway: tuple[int, Used] | None = None
        self._bytes = 0
        self.share = 1.0

    def records(self, on_open: Callable[[Reading], None]) -> Iterator[Record]:
        """As `Reader.records`. A file that is read to its end meanwhile is not cut off."""
        sources: list[Reading] = []

        def opened(source: Reading) -> None:
            sources.append(source)
            on_open(source)

        began, ahead = time.perf_counter(), 0  # bytes that are read before they are parsed
        for record in self._reader.records(opened):
            [source] = sources
            ahead = ahead or source.position
            yield record
            seconds = time.perf_counter() - began
            self._bytes = source.position - ahead
            if self._halfway is None and seconds > READING_SECONDS / 2:
                self._halfway = self._bytes, self._used()
            if seconds > READING_SECONDS and ahead < source.position < source.size:
                self.share = self._bytes / source.size
                return

    def scaled(self, reading: Used, scale: float) -> Used:
        """The cost of reading `scale` times as much; processes start only once."""
        if scale == 1:
            return reading
        bytes_, halfway = self._halfway or (0, NOTHING)
        return reading.grown(self._bytes, self._bytes * scale, bytes_, halfway)


def line(few: float, many: float, rows: float, small: float, large: float) -> float:
    """The line through (few, small) and (many, large) at `rows`; proportional if there is no line."""
    slope = (large - small) / (many - few) if many > few and large > small else large / many
    return large + slope * (rows - many)


RECALL = {FLAT: 1.0, COMPACT: 0.99}
"""The share of the exact top 100 that searches of a type return by default; others: unknown before."""

BEFORE = "before"
"""The chain of documents and passages, before all others, which then run at the same time."""


class Cost(NamedTuple):
    """The cost of a stage.

    chain: the stages that run one after another. used: while nothing else runs; the memory that it adds to
    the process. disk_bytes: the size of its files until the index is published. faiss: the only type of FAISS
    index that it belongs to.
    """

    name: str
    chain: str
    used: Used = NOTHING
    disk_bytes: int = 0
    faiss: str | None = None


@dataclass(frozen=True)
class Estimate:
    """The cost of a build with one type of FAISS index. base: of the process without stages."""

    faiss: str | None
    passages: int
    base: Used
    stages: Sequence[Cost]
    alternatives: Sequence[Estimate] = field(default=())

    @property
    def disk_bytes(self) -> int:
        """The disk needed until the index is published."""
        return sum(stage.disk_bytes for stage in self.stages)

    @property
    def used(self) -> Used:
        """Time and peak memory, where chains run at the same time.

        They take as long as the longest, and as the cores need for all. Two cores gain nothing from overlap:
        the stages share Python's lock and the memory, and took as long as one after another.
        """
        chains: dict[str, Used] = {BEFORE: NOTHING}
        for stage in self.stages:
            chains[stage.chain] = chains.get(stage.chain, NOTHING).then(stage.used)
        before, cores = chains.pop(BEFORE), os.cpu_count() or 1
        after = [chain.seconds for chain in chains.values()]
        cpu = sum(chain.cpu for chain in chains.values())
        seconds = max([*after, sum(after) * min(2 / cores, 1), cpu / cores])
        memory = max(before.memory, sum(chain.memory for chain in chains.values()))
        whole = self.base.then(before).then(Used(seconds, cpu))
        return replace(whole, memory=self.base.memory + memory)

    def check(self, folder: Path, slack: float = 1.0) -> None:
        """Raises `MachineError` if the build cannot fit the disk of `folder` or this machine's memory.

        slack: how much more than there is the estimate may be.
        """
        free, memory = shutil.disk_usage(folder).free, memory_bytes()
        if self._fits(slack * free, slack * memory):
            return
        fits = [f"--faiss {other.faiss}" for other in self.alternatives if other._fits(free, memory)]
        needed = f"{byte_size(self.disk_bytes)} of disk and {byte_size(self.used.memory)} of memory"
        raise MachineError(
            f"this build needs {needed}; {byte_size(free)} are free in {folder}, "
            f"and this machine has {byte_size(memory)} of memory",
            f"{' or '.join(fits)} fits."
            if fits
            else "Free some space, or use a larger disk: a build resumes.",
        )

    def _fits(self, free: float, memory: float) -> bool:
        return self.disk_bytes <= free and self.used.memory <= memory

    def to_json(self) -> dict[str, Any]:
        """For --json: each stage has the same numbers as the whole."""
        stages = []
        for stage in self.stages:
            base = self.base.memory if stage.used.seconds else 0  # a reused part takes none
            used = replace(stage.used, memory=base + stage.used.memory)
            stages.append({"name": stage.name, **self._numbers(stage.disk_bytes, used)})
        return {
            "faiss": self.faiss,
            "recall": RECALL.get(self.faiss or ""),
            **self._numbers(self.disk_bytes, self.used),
            "stages": stages,
            "alternatives": [other.to_json() for other in self.alternatives],
        }

    def _numbers(self, disk_bytes: int, used: Used) -> dict[str, Any]:
        times = {"seconds": round(used.seconds, 1), "cpu_seconds": round(used.cpu, 1)}
        return {"passages": self.passages, "disk_bytes": disk_bytes, "memory_bytes": used.memory, **times}
