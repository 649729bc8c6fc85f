"""Counts of a service in the text format of Prometheus, added up over its processes.

Each process writes its counts into a file of a folder that they share, and whichever is asked adds up all of
them. The counts of a process that has died stay, so that no count ever falls. (The processes of
prometheus_client share their counts through mapped files, and a full disk ends each that writes there.)
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import orjson

from linkseek.indexer.store.artifacts import write_atomically

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

_HELP = {
    "linkseek_requests_total": ("counter", "Requests by route and status."),
    "linkseek_request_seconds": ("histogram", "Seconds from the first byte of a request to its answer."),
    "linkseek_questions_total": ("counter", "Questions by index and pipeline."),
    "linkseek_batch_size": ("histogram", "Questions, texts or pairs of a batch."),
    "linkseek_refused_total": ("counter", "Requests that were refused because the queue was full."),
    "linkseek_log_lines_lost_total": ("counter", "Lines that could not be written to the log."),
    "linkseek_waiting": ("gauge", "Questions that wait for their batch, in this process."),
}


_Key = tuple[str, tuple[tuple[str, object], ...]]
"""A name and its labels."""


@dataclass
class _Histogram:
    """How many values lie up to each bound and above the one before, then above all; and their sum."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Metrics:
    """The counts of this process, for any thread. Series are written when they are read."""

    def __init__(self, folder: Path | None = None) -> None:
        """folder: shared by all processes of the service; None: there is one."""
        self._counts: defaultdict[_Key, float] = defaultdict(float)
        self._histograms: dict[_Key, _Histogram] = {}
        self._lock = threading.Lock()
        self._file = folder / f"{os.getpid()}.json" if folder else None
        self._is_new = False

    def add(self, name: str, amount: float = 1, **labels: object) -> None:
        """Add to a counter."""
        with self._lock:
            self._counts[name, tuple(labels.items())] += amount
            self._is_new = True

    def observe(self, name: str, value: float, **labels: object) -> None:
        """Count a value of a histogram."""
        key = name, tuple(labels.items())
        with self._lock:
            if key not in self._histograms:
                self._histograms[key] = _Histogram(_SECONDS if name.endswith("_seconds") else _SIZES)
            self._histograms[key].add(value)
            self._is_new = True

    def _series(self) -> dict[str, float]:
        """The counts by their names as Prometheus has them. The caller holds the lock."""
        series = {_series(*key): amount for key, amount in self._counts.items()}
        for (name, labels), histogram in self._histograms.items():
            sums = list(accumulate(histogram.counts))
            for bound, count in zip((*histogram.bounds, float("inf")), sums, strict=True):
                if count:
                    text = "+Inf" if bound == float("inf") else f"{bound:g}"
                    series[_series(f"{name}_bucket", (*labels, ("le", text)))] = count
            series[_series(f"{name}_sum", labels)] = histogram.sum
            series[_series(f"{name}_count", labels)] = sums[-1]
        return series

    def save(self) -> None:
        """Write the counts for the other processes, if there are some and anything is new."""
        with self._lock:
            if self._file is None or not self._is_new:
                return
            self._is_new = False
            data = orjson.dumps(self._series())
        write_atomically(self._file, data)

    def text(self, **gauges: float) -> str:
        """All counts of the service, and gauges of this process."""
        with self._lock:
            total = self._series()
        for path in self._file.parent.glob("*.json") if self._file else ():
            if path != self._file:
                for series, count in orjson.loads(path.read_bytes()).items():
                    total[series] = total.get(series, 0) + count
        total |= {f"linkseek_{name}": value for name, value in gauges.items()}
        return "".join(_lines(total))


def _series(name: str, labels: tuple[tuple[str, object], ...]) -> str:
    if not labels:
        return name
    pairs = ",".join(f'{label}="{_escaped(str(value))}"' for label, value in labels)
    return f"{name}{{{pairs}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _lines(counts: dict[str, float]) -> Iterable[str]:
    for name, (kind, meaning) in _HELP.items():
        of_name = [series for series in counts if _name(series) == name]
        if of_name:
            yield f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"
            yield from (f"{series} {counts[series]:g}\n" for series in sorted(of_name, key=_place))


def _name(series: str) -> str:
    name = series.partition("{")[0]
    base = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
    return base if base in _HELP else name


def _place(series: str) -> tuple[str, float]:
    """Buckets in the order of their bounds."""
    head, _, bound = series.partition('le="')
    return head, float(bound.rstrip('"}').replace("+Inf", "inf")) if bound else 0.0
