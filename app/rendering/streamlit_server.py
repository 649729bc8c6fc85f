"""What Streamlit's server is started with: the guard before it, and nothing that it could look up."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import uvicorn
from starlette.middleware import Middleware
from streamlit import config, net_util
from streamlit.starlette import App
from streamlit.web.server import server_util

from linkseek.app.rendering.hosts import HostGuard, Hosts


def guards(allowed: Sequence[str]) -> list[Middleware]:
    """The middleware of Streamlit's application, which checks each request before Streamlit does.

    allowed: the names of `--allow-host`.
    """
    address = str(config.get_option("server.address") or "")
    hosts = Hosts.of_server(address, socket.gethostname(), [*allowed, *_browser_address()])
    # Streamlit checks origins again, with these names after others that it would ask the network for.
    origins = [*config.get_option("server.corsAllowedOrigins"), *hosts.allowed]
    config.set_option("server.corsAllowedOrigins", origins)
    net_util.get_internal_ip = net_util.get_external_ip = _ask_nobody
    return [Middleware(HostGuard, hosts=hosts)]


def _ask_nobody() -> None:
    """The address of this machine, for which Streamlit would connect to 8.8.8.8 and checkip.amazonaws.com."""
    return


def _browser_address() -> list[str]:
    """The name that `--browser.serverAddress` gives, if it differs from our own settings."""
    address = str(config.get_option("browser.serverAddress"))
    return [] if address == "localhost" else [address]


@asynccontextmanager
async def lifespan(prepare: Callable[[], None], _application: App) -> AsyncIterator[dict[str, Any] | None]:
    """Prepare for visitors in a thread, and print the address of the application, instead of Streamlit."""
    threading.Thread(target=prepare, name="preparing", daemon=True).start()
    address = str(config.get_option("server.address") or "0.0.0.0")
    shown = server_util.get_display_address(address)
    url = server_util.get_url(f"[{shown}]" if ":" in shown else shown)
    everywhere = "" if shown == address else ", and at the addresses and the name of this machine"
    _end_with_success()
    with suppress(OSError):  # a closed or full output is no reason not to start
        print(f"Linkseek is at {url}{everywhere}. Ctrl-C ends it.", flush=True)
    yield None


def _end_with_success() -> None:
    """Let Ctrl-C and SIGTERM end the server with exit code 0; uvicorn would raise them again at its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        server = getattr(signal.getsignal(number), "__self__", None)
        if isinstance(server, uvicorn.Server):
            signal.signal(number, partial(_stop, server))


def _stop(server: uvicorn.Server, *_: Any) -> None:
    server.force_exit = server.should_exit  # the second time, without waiting for open connections
    server.should_exit = True
