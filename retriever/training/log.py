"""The log of a run: a progress bar, lines on stderr, and the same as JSON lines in a file.

    {"step": 50, "epoch": 0.1, "loss": 3.2, "learning_rate": ..., "grad_norm": ..., "pairs_per_second": ...}
    {"step": 500, "epoch": 1.0, "average_rank": 12.4}

`loss` is the mean since the line before. So are `mlm_loss`, the part of masked tokens where there are any,
`negatives`, with how many texts a query's relevant one was compared, and `masked`, how many were omitted
because they may be relevant as well (`loss.mask_duplicates`).
Where a run has stages, each counts its own steps, and "stage" comes first. A run that resumes first removes
the lines after its checkpoint, so the file equals the log of an uninterrupted run, apart from the speed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.program.errors import log_line
from linkseek.indexer.program.progress import progress

NEGATIVES, MASKED = "negatives", "masked"
"""The names of these means among the losses of a `retriever.training.loop.Task`."""


class Log:
    """How a run reports its progress; only the first process of several has one.

    unit: the name of a sample. batch: samples in a step. step: of `steps`, where the run resumes. per_epoch:
    steps in an epoch. stage: its name, if the run has several.
    """

    def __init__(
        self, path: Path, unit: str, batch: int, step: int, steps: int, per_epoch: int, stage: str = ""
    ) -> None:
        self._path, self._unit, self._batch, self._stage = path, unit, batch, stage
        self._steps, self._per_epoch = steps, per_epoch
        self._step, self._time = step, 0.0

    @contextmanager
    def opened(self) -> Iterator[Log]:
        """With its progress bar."""
        remove_after(self._path, self._step)
        if self._step:
            print(f"resuming from step {self._step:,} of {self._steps:,}", file=sys.stderr)
        total, done = self._steps * self._batch, self._step * self._batch
        with progress(f"training {self._stage}".strip(), total, self._unit, done) as self._advance:
            self._time = time.monotonic()
            yield self

    def advance(self) -> None:
        """One more step is done."""
        self._advance(self._batch)

    def write_losses(self, step: int, values: dict[str, float]) -> None:
        """The means since the line before, by name, with the speed."""
        seconds = max(time.monotonic() - self._time, 1e-9)
        speed = (step - self._step) * self._batch / seconds
        self._write(
            step,
            values | {f"{self._unit}_per_second": round(speed, 2)},
            f"loss {values['loss']:.4f}, {speed:,.1f} {self._unit}/s",
        )

    def write_measure(self, step: int, name: str, value: float) -> None:
        """The dev measure."""
        self._write(step, {name: value}, f"{name.replace('_', ' ')} {value:,.3f}")

    def _write(self, step: int, values: dict[str, float], words: str) -> None:
        self._step, self._time = step, time.monotonic()
        place: dict[str, Any] = {"stage": self._stage} if self._stage else {}
        place |= {"step": step, "epoch": round(step / self._per_epoch, 6)}
        with self._path.open("ab") as file:
            file.write(orjson.dumps(place | values) + b"\n")
        log_line(f"{self._stage} step {step:,} of {self._steps:,}: {words}".lstrip())


def remove_after(path: Path, step: int) -> None:
    """Remove the lines after a step, and one that was cut off."""
    kept = [line for line in _complete_lines(path) if orjson.loads(line)["step"] <= step]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(kept))


def _complete_lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    return [line for line in lines if line.endswith(b"\n")]


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's file."""
    return [orjson.loads(line) for line in _complete_lines(path)]
