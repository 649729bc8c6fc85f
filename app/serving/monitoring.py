"""What a service writes about itself: counts for Prometheus, and a line of JSON for each request.

Each process writes its counts into a file of a folder that they share, and whichever is asked adds up all of
them. The counts of a process that has died stay, so that no count ever falls. (The processes of
prometheus_client share their counts through mapped files, and a full disk ends each that writes there.)

The log goes to stderr, or to a file that is renewed at 10 MB. A line that cannot be written, as on a full
disk, is counted and never disturbs a request; the first is reported. The file is opened again for the next.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.program.log import log_line
from linkseek.indexer.store.artifacts import write_atomically

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

_HELP = {
    "linkseek_requests_total": ("counter", "Requests by route and status."),
    "linkseek_request_seconds": ("histogram", "Seconds from the first byte of a request to its answer."),
    "linkseek_questions_total": ("counter", "Questions by index and pipeline."),
    "linkseek_batch_size": ("histogram", "Questions of a batch."),
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


# --- the log ----------------------------------------------------------------------------------------

_BYTES = 10 << 20
_OLD_FILES = 5


class RequestLog:
    """The log of one process."""

    def __init__(self, path: Path | None, on_lost: Callable[[], None] = lambda: None) -> None:
        """path: None for stderr. Raises `MachineError` if the file cannot be opened."""
        handler: logging.Handler
        try:
            handler = (
                logging.StreamHandler(sys.stderr)
                if path is None
                else RotatingFileHandler(path, maxBytes=_BYTES, backupCount=_OLD_FILES, encoding="utf-8")
            )
        except OSError as error:
            raise MachineError(f"--log-file {path}: {error.strerror}", "Choose another file.") from None
        handler.handleError = lambda record: self._lose()  # type: ignore[method-assign]
        self._handler, self._path, self._on_lost, self._is_reported = handler, path, on_lost, False
        self._may_be_cut = path is not None

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write one line, with the time before the facts."""
        line = orjson.dumps({"time": datetime.now(UTC), **facts}, option=orjson.OPT_NON_STR_KEYS).decode()
        if self._may_be_cut and self._path:
            self._may_be_cut = False
            with suppress(OSError):  # a full disk, or no file with an end
                _end_last_line(self._path)
        self._handler.handle(logging.LogRecord("linkseek", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # of a line that is counted as lost
            self._handler.close()

    def _lose(self) -> None:
        """Count the line that the handler could not write. Called by it, in the block of the exception."""
        self._on_lost()
        self._may_be_cut = True
        if isinstance(self._handler, RotatingFileHandler) and self._handler.stream is not None:
            with suppress(OSError, ValueError):  # its buffer holds the lost line
                self._handler.stream.close()
            self._handler.stream = None
        if self._path and not self._is_reported:
            self._is_reported = True
            with suppress(OSError):
                log_line(f"{self._path}: {sys.exc_info()[1]}; lines are lost, requests are answered")


def _end_last_line(path: Path) -> None:
    """End a line of which a full disk, or the end of a process, has left a part."""
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
