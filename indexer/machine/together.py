"""Independent tasks at the same time, and how they end.

The stages of a build spend their time in Java, in a model or in hashing, which all release Python's lock, so
a thread each is enough; work that holds the lock goes to the processes of a `ProcessPool`. A failed task
stops the others: a task that calls `Stop.check` now and then ends as soon as another task has failed, Ctrl-C
was pressed, or SIGTERM came.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.reduction import ForkingPickler
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from linkseek.indexer.program.errors import Interruption, handling

T = TypeVar("T")


class Stop(threading.Event):
    """A request to end early, shared by all tasks that run together: each ends at its next `check`."""

    def check(self) -> None:
        """Raise `StoppedError` once `set` was called."""
        if self.is_set():
            raise StoppedError


class StoppedError(Exception):
    """Raised inside a task when another task failed; never reaches the caller."""


def run_together(tasks: Sequence[Callable[[], T]], stop: Stop) -> list[T]:
    """Run all tasks, each in a thread; their results in order.

    The first error is raised when all have ended; errors of others while they were stopped are dropped.
    Ctrl-C and SIGTERM, which Python delivers to the main thread, stop all in the same way; a second time,
    they are raised at once.
    """
    if len(tasks) < 2:
        return [task() for task in tasks]
    events: SimpleQueue[Future[T] | None] = SimpleQueue()  # a task that has ended, or Ctrl-C
    with _on_interruption(lambda: events.put(None)), ThreadPoolExecutor(len(tasks), "stage") as pool:
        try:
            running = [pool.submit(task) for task in tasks]
            for future in running:
                future.add_done_callback(events.put)
            failed = None
            for _ in tasks:
                ended = _next(events)
                if ended is None or ended.exception():
                    failed = ended
                    break
        finally:
            stop.set()  # nothing is left to stop, unless one has failed or Ctrl-C was pressed
    if failed:
        failed.result()
    return [future.result() for future in running]


def _next(events: SimpleQueue[T]) -> T:
    """The next event, with short waits: a signal just before a wait is only handled after it."""
    while True:
        try:
            return events.get(timeout=0.2)
        except Empty:
            continue


@contextmanager
def _on_interruption(report: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `report`, and do what they did before at the end; a second time, at once.

    An exception at any place of this thread could leave a lock held that the other threads wait for, or be
    lost in the callback of a weak reference. Does nothing outside the main thread, which alone gets signals,
    for Ctrl-C where it is ignored, and for SIGTERM outside of a command: that is a program's own.
    """
    before: dict[signal.Signals, Any] = {}
    if callable(handler := signal.getsignal(signal.SIGINT)):
        before[signal.SIGINT] = handler
    if isinstance(handler := signal.getsignal(signal.SIGTERM), Interruption):
        before[signal.SIGTERM] = handler
    pressed: list[int] = []

    def press(number: int, *_: object) -> None:
        pressed.append(number)
        signal.signal(number, before[signal.Signals(number)])
        report()

    with handling(press, before):
        yield
    if pressed:
        signal.raise_signal(pressed[0])
        raise KeyboardInterrupt


_starting = threading.Lock()


class _Process(SpawnProcess):
    """A process that does not import the program that runs.

    It needs only functions of Linkseek, and a script that lacks `if __name__ == "__main__"` would do all of
    its work again in each.
    """

    def start(self) -> None:
        main = vars(sys.modules["__main__"])
        with _starting:
            hidden: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
            main.pop("__file__", None)
            main["__spec__"] = None
            try:
                super().start()
            finally:
                main.update(hidden)


class _Context(SpawnContext):
    Process = _Process


class ProcessPool(ProcessPoolExecutor):
    """Processes that leave Ctrl-C to their parent from their first instruction, and end when it is killed.

    They are spawned, not forked: the parent may hold a JVM or threads. begin(*arguments) is
    called first in each. After
    an exception, work that has not begun is dropped.
    """

    def __init__(
        self, processes: int, begin: Callable[..., object] | None = None, arguments: Sequence[object] = ()
    ) -> None:
        # Python sends what a process inherits while it starts, and waits for ever if the process dies before
        # it has read more than a pipe holds.
        context = _Context()
        sent = context.SimpleQueue() if arguments else None
        super().__init__(processes, context, _begin, (begin, sent))
        self._sender: threading.Thread | None = None
        if sent is not None:
            pickled = bytes(ForkingPickler.dumps(tuple(arguments)))
            self._sender = threading.Thread(target=_send, args=(sent, pickled, processes), daemon=True)

    def submit(self, *call: Any, **options: Any) -> Future[Any]:
        """As in the base. It starts the processes, which inherit the signals blocked in this thread."""
        with _blocked_ctrl_c():
            future = super().submit(*call, **options)
            sender, self._sender = self._sender, None
            if sender:
                sender.start()
        return future

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)


@contextmanager
def _blocked_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C in this thread and in processes that it starts. On Windows `_begin` does it there."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send(queue: Any, pickled: bytes, processes: int) -> None:
    for _ in range(processes):
        queue.put(pickled)


def _begin(begin: Callable[..., object] | None, sent: Any) -> None:
    if not hasattr(signal, "pthread_sigmask"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Without its parent a process would wait for work for ever: each holds both ends of the pipe.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    arguments = () if sent is None else ForkingPickler.loads(sent.get())
    if begin is not None:
        begin(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
