"""What actors of the tests run: they import this file alone, which imports little.

They may die at a chosen moment of their work, hang, or fail.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from linkseek.indexer.program.errors import InputError
from tests.support.tiny.encoder import FakeEncoder

AT_ONCE, IN_THE_MIDDLE, WHEN_DONE = 0, 300, sys.maxsize
"""The moments: before the work, after 300 calls of functions, and between the work and its answer."""


@dataclass(frozen=True)
class Dying:
    """A function whose process ends after `calls` calls of Python functions, at the latest when done."""

    function: Callable[..., Any]
    calls: int

    def __call__(self, *arguments: Any) -> None:
        left = self.calls

        def count(frame: FrameType, event: str, argument: Any) -> None:
            nonlocal left
            left -= event == "call"
            if left < 0:
                os._exit(1)

        sys.setprofile(count)
        self.function(*arguments)
        os._exit(1)


NOISY = {"batch_noise": 0.01, "shard_rows": 4}


def open_noisy(on_batch: Callable[[], object] | None, name: str, title: bool) -> FakeEncoder:
    return FakeEncoder(name, title=title, on_batch=on_batch, **NOISY)


def hang_if_there_is(place: Path) -> None:
    """Hang for the first of all actors that sees this file, and remove it."""
    try:
        place.unlink()
    except FileNotFoundError:
        return
    time.sleep(600)


def hang(place: Path) -> None:
    """Leave a file, and hang."""
    place.touch()
    time.sleep(600)


def fail() -> None:
    raise InputError("no such text", "Write another.")


def process_id(part: object) -> int:
    return os.getpid()
