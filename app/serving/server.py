"""uvicorn with our settings: one process or several on one socket, impatient with slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from linkseek.app.serving.options import IndexOptions
from linkseek.app.web.hosts import Application
from linkseek.indexer.base.errors import MachineError
from linkseek.indexer.base.limits import allow_open_files

_BACKLOG = 2048
_HEADER_SECONDS = 15.0
_IDLE_SECONDS = 75  # longer than the pools of clients and proxies keep a connection that is idle
_START_SECONDS = 60  # a process that opens Java and models answers late


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
            "Choose another port, or end the program that listens there.",
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
) -> None:
    """Answer until a signal. What was begun is finished, within the time limit.

    application: with several workers, a function that can be pickled, which each process calls.
    """
    allow_open_files()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    # uvicorn raises signals again at its end, which then is a success
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with contextlib.closing(listening):
        if workers == 1:
            uvicorn.Server(configuration(application, options)).run(sockets=[listening])
        else:
            config = configuration(application, options, factory=True, workers=workers)
            Multiprocess(config, sockets=[listening]).run()


def configuration(application: Any, options: IndexOptions, **more: Any) -> uvicorn.Config:
    """uvicorn's settings."""
    return uvicorn.Config(
        application,
        http=ImpatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=int(options.time_limit) + 1,
        timeout_worker_healthcheck=_START_SECONDS,
        **more,
    )
