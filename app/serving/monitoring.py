"""What a service writes about itself: counts for Prometheus, and a line of JSON for each request.

The log goes to stdout, which has nothing else, or to a file that is renewed at 10 MB. A line that cannot be
written, as on a full disk, is counted and never disturbs a request; the first is reported. The file is opened
for each line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from linkseek.app.context.question_log import append_line, log_record
from linkseek.indexer.program.errors import MachineError, log_line

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counts of a service, for any thread."""

    def __init__(self) -> None:
        ours = self._registry = CollectorRegistry()
        count, histogram = partial(Counter, registry=ours), partial(Histogram, registry=ours)
        self.requests = count("linkseek_requests_total", "Requests by route and status.", ["route", "status"])
        self.seconds = histogram(
            "linkseek_request_seconds",
            "Seconds from the first byte of a request to its answer.",
            ["route"],
            buckets=_SECONDS,
        )
        self.questions = count(
            "linkseek_questions_total", "Questions by index and pipeline.", ["index", "pipeline"]
        )
        self.batch_size = histogram("linkseek_batch_size", "Questions of a batch.", buckets=_SIZES)
        self.refused = count(
            "linkseek_refused_total", "Requests that were refused because the queue was full."
        )
        self.lost = count("linkseek_log_lines_lost_total", "Lines that could not be written to the log.")
        self.waiting = Gauge("linkseek_waiting", "Questions waiting for their batch.", registry=ours)

    def text(self) -> bytes:
        """All counts in the format of Prometheus."""
        return generate_latest(self._registry)


class RequestLog:
    """The log of one process, written in its event loop."""

    def __init__(self, path: Path | None, on_lost: Callable[[], None] = lambda: None) -> None:
        """path: None for stdout. Raises `MachineError` if the file cannot be opened."""
        self._path, self._on_lost, self._is_reported = path, on_lost, False
        self._stdout = sys.stdout
        try:
            if path is not None:
                path.open("ab").close()
        except OSError as error:
            raise MachineError(f"--log-file {path}: {error.strerror}", "Choose another file.") from None

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write one line, with the time before the facts."""
        line = log_record(facts)
        try:
            if self._path is None:
                print(line.decode(), end="", file=self._stdout, flush=True)
            else:
                append_line(self._path, line)
        except (OSError, ValueError) as error:
            self._on_lost()
            if self._path and not self._is_reported:
                self._is_reported = True
                with suppress(OSError):
                    log_line(f"{self._path}: {error}; lines are lost, but requests are answered")
