"""What a run says: a bar or lines on stderr, and a JSON line for each of them in a file.

    {"step": 50, "epoch": 0.1, "loss": 3.2, "learning_rate": ..., "grad_norm": ..., "pairs_per_second": ...}
    {"step": 500, "epoch": 1.0, "average_rank": 12.4}

`loss` is the mean since the line before, and so is `mlm_loss`, the part of masked tokens where there are any.
Where a run has stages, each counts its own steps, and "stage" comes first. A run that goes on from a
checkpoint first takes back the lines that it will write again, so the file is that of an undisturbed run,
apart from the speed.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
from transformers import TrainerCallback

from indexer.base.progress import log_line, progress

_KEPT = ("loss", "mlm_loss", "learning_rate", "grad_norm")
_DEV = "eval_"
_OF_THE_LIBRARY = {"eval_runtime", "eval_samples_per_second", "eval_steps_per_second", "eval_loss"}


class Log(TrainerCallback):  # type: ignore[misc]
    """Tells how far a run is. unit: what a row of the data is called; batch: rows a step; stage: its name."""

    def __init__(self, path: Path, unit: str, batch: int, stage: str = "") -> None:
        self.path = path
        self._unit, self._batch, self._stage = unit, batch, stage
        self._stack = ExitStack()
        self._advance: Any = None
        self._last = (0, 0.0)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Open bar and file."""
        if not state.is_world_process_zero:
            return
        take_back(self.path, state.global_step)
        if state.global_step:
            print(f"going on from step {state.global_step:,} of {state.max_steps:,}", file=sys.stderr)
        total, done = state.max_steps * self._batch, state.global_step * self._batch
        name = f"training {self._stage}".strip()
        self._advance = self._stack.enter_context(progress(name, total, self._unit, done))
        self._last = (state.global_step, time.monotonic())

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Advance; a checkpoint has a line of its own, so that going on from it repeats none in part."""
        if self._advance:
            self._advance(self._batch)
        if control.should_save:
            control.should_log = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """As after a step."""
        if control.should_save:
            control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        """Write one line."""
        if not state.is_world_process_zero:
            return
        place: dict[str, Any] = {"stage": self._stage} if self._stage else {}
        place |= {"step": state.global_step, "epoch": round(state.epoch or 0.0, 6)}
        told = f"{self._stage} step {state.global_step:,} of {state.max_steps:,}: ".lstrip()
        if "loss" in logs:
            step, then = self._last
            now = time.monotonic()
            speed = (state.global_step - step) * self._batch / max(now - then, 1e-9)
            self._last = (state.global_step, now)
            values = {name: logs[name] for name in _KEPT if name in logs}
            values["grad_norm"] = float(values.get("grad_norm", 0.0))
            values[f"{self._unit}_per_second"] = round(speed, 2)
            told += f"loss {values['loss']:.4f}, {speed:,.1f} {self._unit}/s"
        else:
            values = {
                name.removeprefix(_DEV): value
                for name, value in logs.items()
                if name.startswith(_DEV) and name not in _OF_THE_LIBRARY
            }
            told += ", ".join(f"{name.replace('_', ' ')} {value:,.3f}" for name, value in values.items())
            self._last = (state.global_step, time.monotonic())
        if values:
            with self.path.open("ab") as file:
                file.write(orjson.dumps(place | values) + b"\n")
            log_line(told)

    def close(self) -> None:
        """Take the bar away; also after an error."""
        self._stack.close()


def take_back(path: Path, step: int) -> None:
    """Remove the lines after a step, and one that was cut off."""
    kept = [line for line in _whole_lines(path) if orjson.loads(line)["step"] <= step]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(kept))


def _whole_lines(path: Path) -> list[bytes]:
    if not path.is_file():
        return []
    return [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's file."""
    return [orjson.loads(line) for line in _whole_lines(path)]
