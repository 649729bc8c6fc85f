"""uvicorn with our settings: one process or several on one socket, impatient with slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, cast

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

from linkseek.app.rendering.hosts import Application, Message, Receive, Send
from linkseek.app.serving.options import IndexOptions
from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.program.limits import allow_open_files
from linkseek.indexer.program.log import log_line

_BACKLOG = 2048
_HEADER_SECONDS = 15.0
_IDLE_SECONDS = 75  # longer than the pools of clients and proxies keep a connection that is idle
_START_SECONDS = 60  # a process that opens Java and models answers late
_ENDINGS = (signal.SIGINT, signal.SIGTERM)
_END_SECONDS = 4.0
"""For work that nobody waits for any more, at the end of a process."""


class ImpatientProtocol(H11Protocol):
    """HTTP, where a connection is closed whose request does not begin, or whose headers do not end, in time.

    uvicorn waits for both without end. (Bodies are limited in time by `app.serving.gate`.)
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait no more once a request is there."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._patience is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._patience = self.loop.call_later(_HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class _Ending(threading.Event):
    """Set, or about to be: also true while a signal to end waits to be read."""

    def __init__(self, signals: Sequence[int]) -> None:
        super().__init__()
        self._signals = signals

    def is_set(self) -> bool:
        """Whether the service ends."""
        return super().is_set() or any(number in self._signals for number in _ENDINGS)


class Workers(Multiprocess):
    """The processes of a service. One that dies or hangs is replaced, and no signal waits for that.

    uvicorn waits for the answer of each process, up to a minute for one that starts, and reads no signal
    meanwhile.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self.should_exit = _Ending(self.signal_queue)
        self._asked: dict[Process, float] = {}  # when, of those whose answer is awaited

    def run(self) -> None:
        """Until a signal to end. Ctrl-C, which a terminal sends to all processes, waits while one imports."""
        if hasattr(signal, "pthread_sigmask"):
            resource_tracker.ensure_running()  # its start would lift the mask
            # inherited by the processes, until `_until_stopped`
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            threading.Thread(target=self._wait_for_interrupt, name="interrupt", daemon=True).start()
        super().run()

    def _wait_for_interrupt(self) -> None:
        self.signal_queue.append(signal.sigwait({signal.SIGINT}))

    def keep_subprocess_alive(self) -> None:
        """Replace processes that have ended or have not answered in time; end if one cannot start."""
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if process.process.is_alive() and self._answers(process):
                continue
            self._asked.pop(process, None)
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:  # its replacement would fail in the same way
                log_line(f"the process {process.pid} cannot start; the service ends")
                self.should_exit.set()
                return
            self.processes[place] = Process(self.config, self.sockets)
            self.processes[place].start()

    def _answers(self, process: Process) -> bool:
        """Whether a process has answered, and is asked again, or may still answer in time."""
        can_be_asked = process not in self._asked
        while process.parent_conn.poll():
            process.parent_conn.recv()
            can_be_asked = True
        if can_be_asked:
            process.parent_conn.send(b"ping")
            self._asked[process] = time.monotonic()
        return time.monotonic() < self._asked[process] + self.config.timeout_worker_healthcheck


def _until_stopped(create: Callable[..., Application]) -> Application:
    """What a function creates. A signal to end does not wait for it: no request has been taken yet."""
    before = [signal.signal(number, signal.SIG_DFL) for number in _ENDINGS]
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        return _ending_in_time(create())
    finally:
        for number, handler in zip(_ENDINGS, before, strict=True):
            signal.signal(number, handler)


def _ending_in_time(application: Application) -> Application:
    """The application; its process ends soon after its requests, also if a native function runs on."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        async def receive_end() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                _end_soon()
            return message

        await application(scope, receive_end if scope["type"] == "lifespan" else receive, send)

    return answer


def _end_soon() -> None:
    timer = threading.Timer(_END_SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()


def listen(options: IndexOptions) -> socket.socket:
    """The socket of the options. Raises `MachineError` if it cannot be opened."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is named; else an answer waits 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((options.host, options.port))
    except OSError as error:
        listening.close()
        raise MachineError(
            f"--host {options.host} --port {options.port}: {error.strerror}",
            "Choose an address of this machine and a free port, or end the program that listens there.",
        ) from None
    listening.listen(_BACKLOG)
    listening.set_inheritable(True)
    return listening


def address(listening: socket.socket) -> str:
    """The address of a socket, as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run(
    application: Application | Callable[[], Application],
    listening: socket.socket,
    options: IndexOptions,
    workers: int = 1,
    path: str = "",
) -> None:
    """Print the address, and answer until a signal.

    Requests that were begun are answered, within the time limit. The process ends at most seconds later.

    application: with several workers, a function that can be pickled, which each process calls. path: of the
    address.
    """
    with contextlib.suppress(OSError):  # a closed or full output is no reason not to start
        print(f"Linkseek answers at {address(listening)}{path}. Ctrl-C ends it.", file=sys.stderr, flush=True)
    allow_open_files()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    # uvicorn raises signals again at its end, which then is a success
    for number in _ENDINGS:
        signal.signal(number, lambda *_: None)
    with contextlib.closing(listening):
        if workers == 1:
            one = _ending_in_time(cast(Application, application))
            uvicorn.Server(configuration(one, options)).run(sockets=[listening])
            _end_soon()  # if a second signal has ended it
        else:
            create = partial(_until_stopped, cast(Callable[[], Application], application))
            config = configuration(create, options, factory=True, workers=workers)
            Workers(config, sockets=[listening]).run()


def configuration(application: Any, options: IndexOptions, **more: Any) -> uvicorn.Config:
    """uvicorn's settings."""
    return uvicorn.Config(
        application,
        http=ImpatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        log_level="error",
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(options.time_limit) + 1,
        timeout_worker_healthcheck=_START_SECONDS,
        **more,
    )
