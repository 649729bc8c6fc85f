"""Observes a process and its children from outside: processor time and memory, sampled by psutil."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import psutil

_SECONDS = 0.2


class UsageSample(NamedTuple):
    """At a moment (`time.perf_counter`): processor seconds so far, and memory in MB.

    cpu, children: processor seconds of the process with its children, and of the children alone, including
    ended ones. main, together: memory of the process, and with its children's, without the pages of mapped
    files, which the system takes back when it needs them. Only Linux counts mapped pages apart, and children
    that have ended.
    """

    moment: float
    cpu: float
    children: float
    main: float
    together: float


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

    def peak(self, field: str, start: float = -np.inf, end: float = np.inf) -> float:
        """The largest of a field of `UsageSample` between two moments."""
        first, last = start - self._interval, end + self._interval
        within = (getattr(s, field) for s in self.samples if first <= s.moment <= last)
        return float(max(within, default=0.0))

    def _run(self) -> None:
        with suppress(psutil.NoSuchProcess):  # the process has ended
            while not self._over.wait(self._interval):
                self.take()


def _sample(process: psutil.Process) -> UsageSample:
    own, children = _cpu(process)
    main = together = _memory(process)
    for child in process.children():
        with suppress(psutil.NoSuchProcess):  # it has just ended: counted as reaped next time
            cpu, memory = _cpu(child)[0], _memory(child)
            children += cpu
            together += memory
    return UsageSample(time.perf_counter(), own + children, children, main, together)


def _cpu(process: psutil.Process) -> tuple[float, float]:
    """Processor seconds of a process, and of its children that have ended."""
    times = process.cpu_times()
    return times.user + times.system, times.children_user + times.children_system


def _memory(process: psutil.Process) -> float:
    """Its own memory in MB, without the pages of mapped files."""
    memory = process.memory_info()
    return float((memory.rss - getattr(memory, "shared", 0)) / (1 << 20))
