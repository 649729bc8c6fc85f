"""Tasks that do not depend on each other, at the same time, and how they end.

The stages of a build spend their time in Java, in a model, in hashing, all of which let Python's lock go, so
a thread each is enough. Tasks that fail do not leave the others working for hours: whoever calls `Stop.check`
now and then ends as soon as one of its siblings has failed, or Ctrl-C was pressed.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


class Stop:
    """Whether tasks should end early. One for all tasks that run together."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Have every task end at its next `check`."""
        self._event.set()

    def check(self) -> None:
        """Raise `StoppedError` once `set` was called."""
        if self._event.is_set():
            raise StoppedError


class StoppedError(Exception):
    """A task ended because another one had failed. `run_together` never lets it out."""


def run_together(tasks: Sequence[Callable[[], T]], stop: Stop) -> list[T]:
    """Run all tasks, each in a thread; their results in order.

    The first error is raised when all have ended; errors that others ran into while they were stopped are
    dropped. Ctrl-C, which Python gives to the calling thread, stops all in the same way.
    """
    if len(tasks) < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(len(tasks), "stage") as pool:
        try:
            running = [pool.submit(task) for task in tasks]
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()  # nothing is left to stop, unless one has failed or this thread was interrupted
    for future in running:
        if future in done and (error := future.exception()):
            raise error
    return [future.result() for future in running]


def end_with_parent() -> None:
    """Called first in a process of a pool: end it when its parent is killed.

    It would wait for work for ever, since each process of a pool holds both ends of the pipe for work.
    """

    def wait_for_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()
