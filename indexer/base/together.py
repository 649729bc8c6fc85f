"""Tasks that do not depend on each other, at the same time, and how they end.

The stages of a build spend their time in Java, in a model, in hashing, all of which let Python's lock go, so
a thread each is enough; what holds it goes to the processes of a `ProcessPool`. Tasks that fail do not leave
the others working for hours: whoever calls `Stop.check` now and then ends as soon as one of its siblings has
failed, or Ctrl-C was pressed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Stop:
    """Whether tasks should end early. One for all tasks that run together."""

    def __init__(self) -> None:
        self._stopped = False

    def set(self) -> None:
        """Have every task end at its next `check`."""
        self._stopped = True

    def check(self) -> None:
        """Raise `StoppedError` once `set` was called."""
        if self._stopped:
            raise StoppedError


class StoppedError(Exception):
    """A task ended because another one had failed. `run_together` never lets it out."""


def run_together(tasks: Sequence[Callable[[], T]], stop: Stop) -> list[T]:
    """Run all tasks, each in a thread; their results in order.

    The first error is raised when all have ended; errors that others ran into while they were stopped are
    dropped. Ctrl-C, which Python gives to the calling thread, stops all in the same way; pressed again, it
    is raised at once.
    """
    if len(tasks) < 2:
        return [task() for task in tasks]
    news: SimpleQueue[Future[T] | None] = SimpleQueue()  # a task that has ended, or Ctrl-C
    with _ctrl_c_tells(lambda: news.put(None)), ThreadPoolExecutor(len(tasks), "stage") as pool:
        try:
            running = [pool.submit(task) for task in tasks]
            for future in running:
                future.add_done_callback(news.put)
            failed = None
            for _ in tasks:
                ended = _next(news)
                if ended is None or ended.exception():
                    failed = ended
                    break
        finally:
            stop.set()  # nothing is left to stop, unless one has failed or Ctrl-C was pressed
    if failed:
        failed.result()
    return [future.result() for future in running]


def _next(news: SimpleQueue[T]) -> T:
    """The next element. Waited for in short turns: a signal just before a wait is only seen after it."""
    while True:
        try:
            return news.get(timeout=0.2)
        except Empty:
            continue


@contextmanager
def _ctrl_c_tells(tell: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C calls `tell`, and is raised as `KeyboardInterrupt` at the end; pressed again, at once.

    Raised wherever this thread happens to be, it can leave a lock taken that the other threads wait for, or
    be lost in the callback of a weak reference. Outside the main thread, which alone gets Ctrl-C, nothing is
    done.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    pressed = False

    def press(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tell()

    signal.signal(signal.SIGINT, press)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


class ProcessPool(ProcessPoolExecutor):
    """Processes that leave Ctrl-C to their parent from their first instruction, and end when it is killed.

    They are spawned, not forked: the parent may hold a JVM or threads. begin(*arguments) is called first in
    each. Left by an exception, work that has not begun is dropped.
    """

    def __init__(
        self, processes: int, begin: Callable[..., object] | None = None, arguments: Sequence[object] = ()
    ) -> None:
        super().__init__(processes, multiprocessing.get_context("spawn"), _begin, (begin, arguments))

    def submit(self, *call: Any, **options: Any) -> Future[Any]:
        """As in the base. It starts the processes, which inherit what this thread does not listen to."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(*call, **options)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)


def _begin(begin: Callable[..., object] | None, arguments: Sequence[object]) -> None:
    _end_with_parent()
    if begin is not None:
        begin(*arguments)


def _end_with_parent() -> None:
    """A process of a pool would wait for work for ever: each holds both ends of the pipe for work."""

    def wait_for_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()
