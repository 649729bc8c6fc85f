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
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from unittest.mock import patch

from linkseek.indexer.machine.together import ProcessPool, Stop
from linkseek.indexer.program.errors import LinkseekError, MachineError, log_line
from linkseek.indexer.program.extras import install_hint

T = TypeVar("T")

LOCAL = "local"

ATTEMPTS = 3
"""Actors that a piece of work may cost."""
PATIENCE = 60.0
LATE = 4.0
_LOOK = 0.5  # seconds between two looks at the clock

_rays: list[Any] = []
"""The module `ray`, while this process is connected."""


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """The module `ray`, connected to a cluster. `local` starts one on this machine, and ends it afterwards.

    Without an address, nothing is connected. Meanwhile `worker_pool` gives actors on the cluster.
    A cluster runs any code that its members send each other: connect only to clusters of people you trust.
    Raises `MachineError` if Ray is not installed, or no cluster answers.
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
            with _own_handlers_of_faults(), without_dashboard():
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
def without_dashboard() -> Iterator[None]:
    """Start Ray without the process of its dashboard, which asks the metadata services of clouds where it is,
    and without the one that watches for more machines, which serves its metrics to everybody.

    No setting prevents that: `include_dashboard` and `RAY_USAGE_STATS_ENABLED` only suppress the report.
    """
    from ray._private.node import Node

    def nothing(*_: Any, **__: Any) -> None: ...

    with patch.object(Node, "start_api_server", nothing), patch.object(Node, "start_monitor", nothing):
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
    """Workers for functions: processes of this machine, or `Actors` while this process is `connected`.

    begin(*arguments) is called first in each. If a process dies, the pool is broken. On a cluster the work of
    an actor that dies, or hangs (unless patience is None), is done again, so it must begin by removing its
    own leftovers.
    """
    if _rays:
        return Actors(_rays[-1], processes, begin, arguments, patience=patience)
    return ProcessPool(processes, begin, arguments)


@dataclass(frozen=True)
class ClusterQuestion:
    """A function for an actor to call. reference: of Ray's store, to (function, arguments)."""

    function: Callable[..., Any]
    arguments: Sequence[Any] = ()
    reference: Any = None


class _Worker:
    """An actor that calls functions."""

    def __init__(self, begin: Callable[..., object] | None, arguments: Sequence[object]) -> None:
        self._begin = partial(begin, *arguments) if begin else None
        self._state: list[object] = []

    def begin(self) -> None:
        if self._begin is not None:
            made = self._begin()
            self._state = [made] if isinstance(self._begin.func, type) else []
            self._begin = None

    def run(self, content: tuple[Callable[..., Any], Sequence[Any]]) -> Any:
        self.begin()  # again, after an error, so that each piece of work has that error
        function, arguments = content
        return function(*self._state, *arguments)


class Actors(ThreadPoolExecutor):
    """Actors that call functions for this process, which has a thread for each that waits for it.

    An actor that dies or hangs is replaced, and its work done again by the new one. Work that has cost
    several actors is at fault itself, and raises `MachineError`. Errors of Linkseek are raised as they are.
    """

    def __init__(
        self,
        ray: Any,
        count: int,
        begin: Callable[..., object] | None = None,
        arguments: Sequence[object] = (),
        *,
        patience: float | None = PATIENCE,
        any_first: bool = False,
        **needs: float,
    ) -> None:
        """Start the actors; each calls begin(*arguments) before its first work.

        begin: a function, or a class: then an instance is the first argument of every function. patience: an
        actor hangs after these seconds, and `LATE` times the longest that the same function has taken;
        doubled at each attempt. None: never. any_first: not before the function has returned once. needs: the
        resources that an actor reserves, in Ray's form; by default nothing, spread over all machines.
        """
        super().__init__(count, "ray")
        options: dict[str, Any] = needs or {"num_cpus": 0, "scheduling_strategy": "SPREAD"}
        self._ray = ray
        self._start = partial(ray.remote(**options)(_Worker).remote, begin, arguments)
        self._lock = threading.Lock()
        self._patience, self._any_first = patience, any_first
        self._slowest: dict[Callable[..., Any], float] = {}
        self._stop = Stop()
        self._all: set[Any] = set()
        self._beginning: dict[Any, Any] = {}  # actors that have not worked yet
        self._free: list[Any] = []  # the one that has been free for longest first
        for _ in range(count):
            self._add()

    def submit(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        """See the base class."""
        return self.ask(ClusterQuestion(partial(function, **options) if options else function, arguments))

    def ask(
        self, question: ClusterQuestion, what: str = "a task", attempts: int | None = None
    ) -> Future[Any]:
        """The answer of one of the actors. what: the subject of the question, for messages."""
        return super().submit(self._run, question, what, attempts or ATTEMPTS)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As in the base; ends the actors. With cancel_futures also busy ones."""
        if cancel_futures:
            super().shutdown(wait=False, cancel_futures=True)
            self._kill()
        super().shutdown(wait=wait)
        self._kill()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def _kill(self) -> None:
        self._stop.set()
        for actor in list(self._all):
            self._ray.kill(actor)

    def _add(self) -> None:
        actor = self._start()
        self._beginning[actor] = actor.begin.remote()
        self._all.add(actor)
        self._free.append(actor)

    def _run(self, question: ClusterQuestion, what: str, attempts: int) -> Any:
        for attempt in range(attempts):
            answer, problem = self._attempt(question, 2**attempt)
            if not problem:
                return answer
            if attempt + 1 < attempts:
                log_line(f"--ray: the actor of {what} {problem}; trying again")
        actors = "its actor" if attempts == 1 else f"the last of its {attempts} actors"
        raise MachineError(
            f"--ray: {what}: {actors} {problem}", "Out of memory? See Ray's logs; run the same command again."
        )

    def _attempt(self, question: ClusterQuestion, patience: float) -> tuple[Any, str]:
        """The answer of an actor, and the fault of the actor, which is then replaced."""
        actor, problem = self._take(), ""
        if actor is None:
            return None, f"did not start in {self._patience or 0.0:.0f} s"
        try:
            answer, problem = self._answer(actor, question, patience)
            return answer, problem
        finally:
            if problem:
                self._ray.kill(actor)  # it may only be out of reach, and would keep its cores
                self._all.discard(actor)
                self._stop.check()
                self._add()
            else:
                self._free.append(actor)

    def _take(self) -> Any:
        """A free actor that has begun, as soon as there is one; None if none begins in time.

        Another one may never begin: its machine is gone.
        """
        started, begun = time.monotonic(), set[Any]()
        while self._patience is None or self._any_first or time.monotonic() - started < self._patience:
            self._stop.check()
            with self._lock:
                for actor in self._free:
                    if self._beginning.get(actor) in (None, *begun):
                        self._free.remove(actor)
                        return actor
                waiting = [self._beginning[actor] for actor in self._free]
            if waiting:
                begun |= {*self._ray.wait(waiting, num_returns=1, timeout=_LOOK)[0]}
            else:
                time.sleep(_LOOK)
        return None

    def _answer(self, actor: Any, question: ClusterQuestion, patience: float) -> tuple[Any, str]:
        """The answer of an actor, or the fault of the actor."""
        errors, started = self._ray.exceptions, time.monotonic()
        function = question.function
        self._beginning.pop(actor, None)
        reference = actor.run.remote(question.reference or (function, question.arguments))
        while True:
            try:
                answer = self._ray.get(reference, timeout=_LOOK)
            except errors.GetTimeoutError:
                waited, slowest = time.monotonic() - started, self._slowest.get(function)
                if self._patience is None or (self._any_first and slowest is None):
                    continue
                if waited > patience * (self._patience + LATE * (slowest or 0.0)):
                    return None, f"gave no answer in {waited:.0f} s"
            except errors.RayActorError as error:
                return None, f"died ({' '.join(str(error).split())[:300]})"
            except errors.RayTaskError as error:
                if isinstance(error.cause, LinkseekError):
                    raise error.cause from None
                raise
            else:
                self._slowest[function] = max(self._slowest.get(function, 0.0), time.monotonic() - started)
                return answer, ""


def _check_answers(address: str) -> None:
    """Raises `OSError` if nothing answers at an address with a port: Ray would try for minutes."""
    if match := re.fullmatch(r"(?:ray://)?(.+):(\d{1,5})", address):
        socket.create_connection((match[1], int(match[2])), timeout=10).close()


_FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")


@contextmanager
def _own_handlers_of_faults() -> Iterator[None]:
    """Keep the handlers of faults: Java uses faults of memory, which Ray would take for crashes.

    Does nothing on Windows, where faults are not signals.
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
