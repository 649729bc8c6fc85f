"""uvicorn with our settings: impatient with slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from http import HTTPStatus

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from linkseek.app.rendering.hosts import Application, Message, Receive, Send
from linkseek.app.serving.gate import problem
from linkseek.app.serving.options import ServeOptions
from linkseek.indexer.program.errors import MachineError, log_line
from linkseek.indexer.program.limits import allow_open_files

_BACKLOG = 2048
_HEADER_SECONDS = 15.0
_IDLE_SECONDS = 75  # longer than the pools of clients and proxies keep a connection that is idle
_ENDINGS = (signal.SIGINT, signal.SIGTERM)
_END_SECONDS = 4.0
"""The time for abandoned work at the end of a process."""


class ImpatientProtocol(H11Protocol):
    """HTTP, where a connection is closed whose request does not begin, or whose headers do not end, in time.

    uvicorn waits for both without end. (Bodies are limited in time by `app.serving.gate`.)
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock for the headers."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Stop waiting once a request has arrived."""
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
            if self.conn.trailing_data[0]:
                self._end("slow_request", f"The headers did not arrive within {_HEADER_SECONDS:g} seconds.")
            else:
                self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """The answer to anything but HTTP, in the form of all others."""
        self._end("malformed", msg)

    def _end(self, code: str, text: str) -> None:
        answer = problem("", code, text, {"connection": "close"})
        status = answer.status_code
        for event in (
            h11.Response(status_code=status, headers=answer.raw_headers, reason=HTTPStatus(status).phrase),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


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


def listen(options: ServeOptions) -> socket.socket:
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
            "Choose an address of this machine and a free port, or end the program that listens on it.",
        ) from None
    listening.listen(_BACKLOG)
    return listening


def address(listening: socket.socket) -> str:
    """The address of a socket, as a browser takes it."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run(application: Application, listening: socket.socket, options: ServeOptions) -> None:
    """Print the address, and answer until a signal.

    Requests that were begun are answered, within the time limit. The process ends at most seconds later.
    """
    with contextlib.suppress(OSError):  # a closed or full output is no reason not to start
        log_line(f"Linkseek answers at {address(listening)}. Ctrl-C ends it.")
    allow_open_files()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    # uvicorn raises signals again at its end, which then is a success
    for number in _ENDINGS:
        signal.signal(number, lambda *_: None)
    with contextlib.closing(listening):
        configured = configuration(_ending_in_time(application), options)
        uvicorn.Server(configured).run(sockets=[listening])
        _end_soon()  # if a second signal has ended it


def configuration(application: Application, options: ServeOptions) -> uvicorn.Config:
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
    )
