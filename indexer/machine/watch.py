"""Observes a process and its children from outside: processor time and memory, sampled by psutil."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import psutil

_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class UsageSample:
    """At a moment (`time.perf_counter`): processor seconds so far, and memory in MB.

    cpu, children: processor seconds of the process with its children, and of the children alone, including
    ended ones. main, together: memory of the process, and with its children's, without the pages of mapped
    files, which the system takes back when it needs them. mapped: of the process, with those pages. Only
    Linux counts mapped pages apart, and children that have ended.
    """

    moment: float
    cpu: float
    children: float
    main: float
    together: float
    mapped: float


class Watch:
    """Samples a process until it ends. Use as a context manager."""

    def __init__(self, pid: int, interval: float = _SECONDS) -> None:
        """interval: seconds between two samples."""
        self._process = psutil.Process(pid)
        self._interval = interval
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[UsageSample] = []

    def __enter__(self) -> Watch:
        self.take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def take(self) -> UsageSample:
        """Take a sample now. Raises `psutil.NoSuchProcess` if the process has ended."""
        with self._lock:
            self.samples.append(_sample(self._process))
            return self.samples[-1]

    def cpu(self, start: float, end: float) -> float:
        """Processor seconds between two moments, child processes included."""
        return self.at("cpu", end) - self.at("cpu", start)

    def at(self, field: str, moment: float) -> float:
        """A field of `UsageSample` at a moment, between two samples in proportion."""
        values = [getattr(sample, field) for sample in self.samples]
        return float(np.interp(moment, [sample.moment for sample in self.samples], values))

    def peak(self, field: str, start: float = -np.inf, end: float = np.inf) -> float:
        """The largest of a field of `UsageSample` between two moments."""
        values = [
            getattr(s, field)
            for s in self.samples
            if start - self._interval <= s.moment <= end + self._interval
        ]
        return max(values, default=0.0)

    def _run(self) -> None:
        with suppress(psutil.NoSuchProcess):  # the process has ended
            while not self._over.wait(self._interval):
                self.take()


def _sample(process: psutil.Process) -> UsageSample:
    own, children = _cpu(process)
    main, mapped = _memory(process)
    together = main
    for child in process.children():
        with suppress(psutil.NoSuchProcess):  # it has just ended: counted as reaped next time
            cpu, memory = _cpu(child)[0], _memory(child)[0]
            children += cpu
            together += memory
    return UsageSample(time.perf_counter(), own + children, children, main, together, mapped)


def _cpu(process: psutil.Process) -> tuple[float, float]:
    """Processor seconds of a process, and of its children that have ended."""
    times = process.cpu_times()
    return times.user + times.system, times.children_user + times.children_system


def _memory(process: psutil.Process) -> tuple[float, float]:
    """(memory of its own, all that is resident), in MB."""
    memory = process.memory_info()
    return (memory.rss - getattr(memory, "shared", 0)) / (1 << 20), memory.rss / (1 << 20)
