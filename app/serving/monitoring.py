"""What a service writes about itself: counts for Prometheus, and a line of JSON for each request.

The log goes to stderr, or to a file that is renewed at 10 MB. A line that cannot be written, as on a full
disk, is counted and never disturbs a request; the first is reported. The file is opened again for the next.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.program.log import log_line

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counts of a service, for any thread."""

    def __init__(self) -> None:
        ours = self._registry = CollectorRegistry()
        self.requests = Counter(
            "linkseek_requests_total", "Requests by route and status.", ["route", "status"], registry=ours
        )
        self.seconds = Histogram(
            "linkseek_request_seconds",
            "Seconds from the first byte of a request to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=ours,
        )
        self.questions = Counter(
            "linkseek_questions_total",
            "Questions by index and pipeline.",
            ["index", "pipeline"],
            registry=ours,
        )
        self.batch_size = Histogram(
            "linkseek_batch_size", "Questions of a batch.", buckets=_SIZES, registry=ours
        )
        self.refused = Counter(
            "linkseek_refused_total",
            "Requests that were refused because the queue was full.",
            registry=ours,
        )
        self.lost = Counter(
            "linkseek_log_lines_lost_total", "Lines that could not be written to the log.", registry=ours
        )
        self.waiting = Gauge("linkseek_waiting", "Questions that wait for their batch.", registry=ours)

    def text(self) -> bytes:
        """All counts in the format of Prometheus."""
        return generate_latest(self._registry)


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
