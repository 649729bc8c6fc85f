"""The time and memory that pieces of a build take, and a line from two of them to the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from linkseek.indexer.files.sources import Reading
from linkseek.indexer.machine.watch import Watch
from linkseek.indexer.readers.reader import Reader, Record
from linkseek.indexer.store.manifest_files import inventory

T = TypeVar("T")

READING_SECONDS = 6.0


@dataclass(frozen=True)
class Used:
    """The cost of a piece of work: seconds, processor seconds, and the memory that it added, in bytes.

    seconds: by the clock, without waiting for other programs.
    """

    seconds: float
    cpu: float
    memory: int


class Meter:
    """Measures work in this process and its children."""

    def __init__(self, watch: Watch) -> None:
        """watch: of this process, begun."""
        self._watch = watch

    def measured(self, work: Callable[[], T], *hashed: Path) -> tuple[Used, T]:
        """The cost of a piece of work, hashing of its files included, and its result."""
        used = self.started()
        result = work()
        for folder in hashed:
            inventory(folder)
        return used(), result

    def memory(self) -> int:
        """The memory in use, in bytes."""
        return int(self._watch.take().together * 2**20)

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
        bytes_, halfway = self._halfway or (0, replace(reading, seconds=0, cpu=0))
        grow = partial(line, bytes_, self._bytes, self._bytes * scale)
        return replace(
            reading, seconds=grow(halfway.seconds, reading.seconds), cpu=grow(halfway.cpu, reading.cpu)
        )


def line(few: float, many: float, rows: float, small: float, large: float) -> float:
    """The line through (few, small) and (many, large) at `rows`; proportional if there is no line."""
    slope = (large - small) / (many - few) if many > few and large > small else large / many
    return large + slope * (rows - many)
