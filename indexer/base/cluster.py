"""A Ray cluster, for the commands with `--ray`. Ray is imported here, and only when asked for."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

from linkseek.indexer.base.errors import LinkseekError, MachineError
from linkseek.indexer.base.extras import install_hint
from linkseek.indexer.base.log import log_line
from linkseek.indexer.base.together import ProcessPool

T = TypeVar("T")

LOCAL = "local"

_ATTEMPTS = 3
"""Actors that a piece of work may end or keep waiting: it is then its fault, not theirs."""
PATIENCE = 60.0
LATE = 4.0
"""An actor hangs that takes `LATE` times as long as the slowest work before, and `PATIENCE` seconds more."""

_rays: list[Any] = []
"""The module `ray`, while this process is connected."""


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """The module `ray`, connected to a cluster. `local` starts one on this machine, and ends it afterwards.

    Without an address, nothing is connected. Meanwhile `worker_pool` gives actors on the cluster.
    A cluster runs any code that its members send each other: connect to those of people you trust. Raises
    `MachineError` if Ray is not installed, or no cluster answers.
    """
    if address is None:
        yield None
        return
    try:
        import ray
    except ImportError as error:
        problem = f"--ray: Ray is not installed ({error})"
        raise MachineError(problem, install_hint("ray")) from None
    with TemporaryDirectory(prefix="linkseek-") as folder:
        own: dict[str, Any] = {}
        if address == LOCAL:  # with niceness 15, Ray's default, a search would wait for other work
            own = {"include_dashboard": False, "_temp_dir": folder, "_system_config": {"worker_niceness": 0}}
        try:
            _check_answers(address)
            with _own_handlers_of_faults(), _no_dashboard():
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except (OSError, ValueError, RuntimeError) as error:
            raise MachineError(
                f"--ray {address}: no Ray cluster answers there ({' '.join(str(error).split())[:200]})",
                "Start one by `ray start --head`, and give its address; or --ray local. For one with a token "
                "set RAY_AUTH_MODE=token, and copy ~/.ray/auth_token from its head.",
            ) from None
        _rays.append(ray)
        try:
            yield ray
        finally:
            _rays.remove(ray)
            with _own_handlers_of_faults():
                ray.shutdown()


@contextmanager
def _no_dashboard() -> Iterator[None]:
    """Start Ray without the process of its dashboard, which asks the metadata services of clouds where it is.

    It does so whatever is set: `include_dashboard` and `RAY_USAGE_STATS_ENABLED` only keep it from telling.
    """
    from ray._private.node import Node

    with patch.object(Node, "start_api_server", lambda *_, **__: None):
        yield


def worker_count(processes: int) -> int:
    """How many workers `worker_pool` gives: the cores of the cluster; without one, `processes`."""
    if not _rays:
        return processes
    return max(int(_rays[-1].cluster_resources().get("CPU", 1)), 1)


def worker_pool(
    processes: int,
    begin: Callable[..., object] | None = None,
    arguments: Sequence[object] = (),
    patience: float | None = 10 * PATIENCE,
) -> Executor:
    """Workers for functions: processes of this machine, or actors while this process is `connected`.

    begin(*arguments) is called first in each. If a process dies, the pool is broken. On a cluster the work of
    an actor that dies, or hangs (unless patience is None), is done again by another one, so it must begin by
    removing what it leaves behind; after the third actor, `MachineError` is raised.
    """
    if _rays:
        return _ActorPool(_rays[-1], processes, begin, arguments, patience)
    return ProcessPool(processes, begin, arguments)


class _Worker:
    """The actor of a pool."""

    def __init__(self, begin: Callable[..., object] | None, arguments: Sequence[object]) -> None:
        self._begin: Callable[[], object] | None = partial(begin, *arguments) if begin else None

    def run(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        if self._begin is not None:  # here, so that its errors are those of the work
            self._begin()
            self._begin = None
        return function(*arguments)


class _ActorPool(ThreadPoolExecutor):
    """A thread for each actor, which waits for it. After an exception, work that has not begun is dropped."""

    def __init__(
        self,
        ray: Any,
        count: int,
        begin: Callable[..., object] | None,
        arguments: Sequence[object],
        patience: float | None,
    ) -> None:
        super().__init__(count, "ray")
        self._ray = ray
        self._class = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(_Worker)
        self._start = partial(self._class.remote, begin, arguments)
        self._own = threading.local()
        self._actors: set[Any] = set()
        self._patience = patience
        self._slowest = 0.0

    def submit(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        """As in the base."""
        return super().submit(self._run, partial(function, **options) if options else function, arguments)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As in the base; ends the actors, of which none works for its own sake."""
        super().shutdown(wait=wait, cancel_futures=cancel_futures)
        for actor in list(self._actors):
            self._ray.kill(actor)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def _run(self, function: Callable[..., T], arguments: Sequence[Any]) -> T:
        errors = self._ray.exceptions
        for _ in range(_ATTEMPTS):
            actor = self._actor()
            started = time.monotonic()
            limit = None if self._patience is None else self._patience + LATE * self._slowest
            try:
                result: T = self._ray.get(actor.run.remote(function, arguments), timeout=limit)
            except (errors.RayActorError, errors.GetTimeoutError) as error:
                reason = " ".join(str(error).split())[-300:]
                self._actors.discard(actor)
                self._ray.kill(actor)  # it may only be out of reach
                del self._own.actor
                log_line("--ray: an actor died or hangs, another one does its work")
            except errors.RayTaskError as error:
                if isinstance(error.cause, LinkseekError):
                    raise error.cause from None
                raise
            else:
                self._slowest = max(self._slowest, time.monotonic() - started)
                return result
        raise MachineError(
            f"--ray: {_ATTEMPTS} actors died of the same work, or hang (out of memory?): {reason}",
            "See Ray's logs; run the same command again.",
        )

    def _actor(self) -> Any:
        """The actor of this thread."""
        if not hasattr(self._own, "actor"):
            self._own.actor = self._start()
            self._actors.add(self._own.actor)
        return self._own.actor


def _check_answers(address: str) -> None:
    """Raises `OSError` if nothing answers at an address with a port: Ray would try for minutes."""
    if match := re.fullmatch(r"(?:ray://)?(.+):(\d{1,5})", address):
        socket.create_connection((match[1], int(match[2])), timeout=10).close()


_FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")


@contextmanager
def _own_handlers_of_faults() -> Iterator[None]:
    """Keep the handlers of faults: Java uses faults of memory, which Ray would take for crashes.

    Does nothing on Windows, where faults are no signals.
    """
    if os.name != "posix":
        yield
        return
    library = ctypes.CDLL(None)
    before = [(getattr(signal, name), ctypes.create_string_buffer(_SIGACTION_BYTES)) for name in _FAULTS]
    for fault, action in before:
        library.sigaction(fault, None, action)
    try:
        yield
    finally:
        for fault, action in before:
            library.sigaction(fault, action, None)


_SIGACTION_BYTES = 512  # more than a `struct sigaction` takes anywhere
