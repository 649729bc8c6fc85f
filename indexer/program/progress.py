"""Progress bars with remaining time on stderr; in a log file, a line every ten seconds instead.

The bars of all threads are lines of one display: a terminal can have only one that moves. A program that
runs a command can read the same from a file, which the environment variable LINKSEEK_PROGRESS names.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from linkseek.indexer.program.errors import log_line
from linkseek.indexer.program.text import printable

Advance = Callable[[float], None]

NOTES = "LINKSEEK_PROGRESS"

_LOG_SECONDS = 10.0
_NOTE_SECONDS = 0.25


@contextmanager
def progress(label: str, total: float | None = None, unit: str = "", done: float = 0) -> Iterator[Advance]:
    """Show the progress of `label`; call the yielded function with the number of units just finished.

    total: all units, None if unknown. done: units finished by an earlier, interrupted run.
    """
    outer = _outer.get()
    if outer is not None:
        yield lambda count: outer(count / total if total else 0.0)
        return
    bars = _display if Console(stderr=True).is_terminal else _notes
    with bars.bar(printable(label), total, unit, done) as advance:
        yield advance


_outer: ContextVar[Advance | None] = ContextVar("outer", default=None)


@contextmanager
def part_of(advance: Advance, units: float) -> Iterator[None]:
    """Work for `units` of a bar: bars within it are not shown, they advance that one by their shares."""
    given = 0.0

    def step(share: float) -> None:
        nonlocal given
        count = min(share * units, units - given)
        given += count
        advance(count)

    token = _outer.set(step)
    try:
        yield
    finally:
        _outer.reset(token)
    advance(units - given)


class _Display:
    """The live display, which exists while it has a running bar."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bars: Progress | None = None
        self._running = 0

    @contextmanager
    def bar(self, label: str, total: float | None, unit: str, done: float) -> Iterator[Advance]:
        """Show one bar; the yielded function advances it."""
        with self._lock:
            if self._bars is None:
                self._bars = Progress(
                    TextColumn("{task.description:<24}", markup=False),
                    BarColumn(bar_width=30),
                    TaskProgressColumn(),
                    _CountColumn(),
                    TimeRemainingColumn(),
                    TextColumn("left"),
                    console=Console(stderr=True),
                    speed_estimate_period=60,
                )
                self._bars.start()
            bars = self._bars
            self._running += 1
            task = bars.add_task(label, total=total, unit=unit)
            bars.advance(task, done)
        try:
            yield lambda count: bars.advance(task, count)
            if total is None:
                bars.update(task, total=1, completed=1)
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    bars.stop()
                    self._bars = None


_display = _Display()


class _CountColumn(ProgressColumn):
    """Finished and total units, unless they are bytes."""

    def render(self, task: Task) -> Text:
        """For example "1,024/4,096 passages"."""
        unit = task.fields["unit"]
        if not unit or unit == "bytes" or task.total is None:
            return Text()
        return Text(f"{task.completed:,.0f}/{task.total:,.0f} {unit}", "progress.download")


class _Notes:
    """The same as lines of a log, and as JSON for another program: bars that run and bars that have ended.

        [{"label", "unit", "total", "first", "done", "began", "ended"}, ...]

    Ordered by their beginning; times are seconds since 1970, `ended` is null while the bar runs, `first` is
    the number of units that an earlier run had finished. The file is replaced atomically.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[dict[str, Any]] = []
        self._written = 0.0

    @contextmanager
    def bar(self, label: str, total: float | None, unit: str, done: float) -> Iterator[Advance]:
        """Add one bar; the yielded function advances it."""
        file = os.environ.get(NOTES)
        entry: dict[str, Any] = {"label": label, "unit": unit, "total": total, "first": done, "done": done}
        entry |= {"began": time.time(), "ended": None}
        started = logged = time.monotonic()
        with self._lock:
            if file is not None:
                self._entries.append(entry)
            self._write(file)

        def advance(count: float) -> None:
            nonlocal logged
            with self._lock:
                entry["done"] += count
                if time.time() - self._written >= _NOTE_SECONDS:
                    self._write(file)
            now = time.monotonic()
            if now - logged >= _LOG_SECONDS:
                logged = now
                rate = (entry["done"] - done) / (now - started)
                line = f"{label}: {entry['done']:,.0f} {unit}, {rate:,.0f}/s"
                if total and rate > 0:
                    counts = f"{entry['done']:,.0f} of {total:,.0f} {unit}, " if unit else ""
                    share, left = 100 * entry["done"] / total, (total - entry["done"]) / rate
                    line = f"{label}: {counts}{share:.0f} %, {left:,.0f} s left"
                log_line(line)

        try:
            yield advance
        finally:
            with self._lock:
                entry["ended"] = time.time()
                self._write(file)

    def _write(self, file: str | None) -> None:
        if file is None:
            return
        self._written = time.time()
        path = Path(file)
        temporary = path.with_name(f"{path.name}.linkseek-tmp")
        with suppress(OSError):  # a reader of progress must not stop the work
            temporary.write_bytes(orjson.dumps(self._entries, option=orjson.OPT_SERIALIZE_NUMPY))
            temporary.replace(path)


_notes = _Notes()
