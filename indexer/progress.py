"""A progress bar with remaining time on stderr; in a log file, a line every ten seconds instead."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

_LOG_SECONDS = 10.0


@contextmanager
def progress(
    label: str, total: float | None = None, unit: str = "", done: float = 0
) -> Iterator[Callable[[float], None]]:
    """Show how far `label` is; call what it yields with the number of units that were just finished.

    total: units in all, None where unknown. done: units finished by an earlier, interrupted run.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        columns = [
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
        ]
        if unit and unit != "bytes":
            columns += [MofNCompleteColumn(), TextColumn(unit)]
        columns += [TimeRemainingColumn(), TextColumn("left")]
        with Progress(*columns, console=console, speed_estimate_period=60) as bar:
            task = bar.add_task(label, total=total)
            bar.advance(task, done)
            yield lambda count: bar.advance(task, count)
    else:
        yield _Log(label, total, unit, done)


class _Log:
    """The same for a stream that is no terminal."""

    def __init__(self, label: str, total: float | None, unit: str, done: float) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.first = self.done = done
        self.started = self.said = time.monotonic()

    def __call__(self, count: float) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.said < _LOG_SECONDS:
            return
        self.said = now
        rate = (self.done - self.first) / (now - self.started)
        line = f"{self.label}: {self.done:,.0f} {self.unit}, {rate:,.0f}/s"
        if self.total and rate > 0:
            line += f", {self.done / self.total:.0%}, {(self.total - self.done) / rate:,.0f} s left"
        print(line, file=sys.stderr, flush=True)
