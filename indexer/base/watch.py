"""Observes a process and its children from outside: processor time and memory, sampled from /proc (Linux)."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_SECONDS = 0.2
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """At a moment (`time.perf_counter`): processor seconds so far, and memory in MB.

    cpu, children: of the process and its children, and of the latter alone, with those that have ended.
    main, together: memory of the process, and with its children's, without the pages of mapped files,
    which the system takes back when it needs them. mapped: of the process, with those pages.
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
        self._pid = pid
        self._interval = interval
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> Watch:
        self.take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def take(self) -> Sample:
        """Take a sample now. Raises `ProcessLookupError` or `FileNotFoundError` if the process has ended."""
        with self._lock:
            self.samples.append(_sample(self._pid))
            return self.samples[-1]

    def cpu(self, start: float, end: float) -> float:
        """Processor seconds between two moments, those of children included."""
        return self.at("cpu", end) - self.at("cpu", start)

    def at(self, field: str, moment: float) -> float:
        """A field of `Sample` at a moment, between two samples in proportion."""
        values = [getattr(sample, field) for sample in self.samples]
        return float(np.interp(moment, [sample.moment for sample in self.samples], values))

    def peak(self, field: str, start: float = -np.inf, end: float = np.inf) -> float:
        """The largest of a field of `Sample` between two moments."""
        values = [
            getattr(s, field)
            for s in self.samples
            if start - self._interval <= s.moment <= end + self._interval
        ]
        return max(values, default=0.0)

    def _run(self) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
            while not self._over.wait(self._interval):
                self.take()


def _sample(pid: int) -> Sample:
    own, children = _cpu(pid)
    main, mapped = _memory(pid)
    together = main
    for child in _children(pid):
        try:
            children += _cpu(child)[0]
            together += _memory(child)[0]
        except (FileNotFoundError, ProcessLookupError):  # it has just ended: counted as reaped next time
            continue
    return Sample(time.perf_counter(), own + children, children, main, together, mapped)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has just ended
            children += map(int, (thread / "children").read_text().split())
    return children


def _cpu(pid: int) -> tuple[float, float]:
    """Processor seconds of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, children_user, children_system = map(int, fields[11:15])
    return (user + system) / _TICK, (children_user + children_system) / _TICK


def _memory(pid: int) -> tuple[float, float]:
    """(memory of its own, all that is resident), in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)
                 if name in ("RssAnon", "VmRSS")}  # fmt: skip
    return kilobytes.get("RssAnon", 0) / 1024, kilobytes.get("VmRSS", 0) / 1024
