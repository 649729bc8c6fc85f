"""Who may talk to a server: an ASGI middleware that checks `Host` and `Origin` before anything else does.

A server that listens on this machine only is still within reach of every web page that its user visits. By
DNS rebinding, a page makes its own name resolve to 127.0.0.1, and is then of the same origin as the server;
its name remains in `Host`. Without rebinding, a page can open a WebSocket or post a form; its name is in
`Origin`. So a request is answered only if

- its `Host` is a name or an address of this server, and
- its `Origin`, if it has one, has the same host and port, or a name that was allowed.

A missing `Origin` is accepted: browsers send it with each WebSocket and each request that changes something,
programs need not. Nothing is looked up for any of this. Responses get headers that keep other sites from
showing them in frames, and browsers from loading anything from elsewhere.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
"""An application of ASGI: scope, receive, send."""

RESPONSE_HEADERS = {
    "content-security-policy": (
        "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
        "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
    ),
    "x-frame-options": "SAMEORIGIN",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
"""Streamlit's pages need inline styles and scripts, and evaluate the charts' expressions."""

_REMEDY = "Start the server with --allow-host NAME to allow the name of a reverse proxy or of this machine."
_HOST = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?", re.I | re.A
)
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>.+)", re.I | re.A)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_WILDCARDS = ("", "0.0.0.0", "::")
_LOGGED = 200  # characters of a header

_log = logging.getLogger(__name__)


class Host(NamedTuple):
    """A name in lower case without a final dot, or an address as `ipaddress` writes it; the port, if any."""

    name: str
    port: int | None


@lru_cache(1024)  # each request has one
def read_host(text: str) -> Host | None:
    """The value of a `Host` header; None if it is not one host with at most a port."""
    match = _HOST.fullmatch(text)
    if match is None or not (name := _canonical(match["v6"] or match["name"], in_brackets=bool(match["v6"]))):
        return None
    port = int(match["port"]) if match["port"] else None
    return Host(name, port) if port is None or port < 65536 else None


def _canonical(name: str, *, in_brackets: bool) -> str:
    """One form of a name or an address; empty if it is neither."""
    if not in_brackets:
        name = name.lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return "" if in_brackets else name
    if (address.version == 6) is not in_brackets:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of one server. Names and addresses are canonical (`read_host`).

    names: accepted in `Host`, with any port, next to the loopback addresses.
    any_address: whether every IP address is accepted; an address is not looked up, so it cannot be rebound.
    allowed: accepted in `Host`, and in `Origin` with any `Host`, which a reverse proxy may replace.
    """

    names: frozenset[str]
    any_address: bool = False
    allowed: frozenset[str] = frozenset()

    @classmethod
    def of_server(cls, address: str, machine: str, allowed: Iterable[str] = ()) -> Hosts:
        """The hosts of a server that listens on an address.

        address: an IP address, a name, or empty. On 0.0.0.0, :: and an empty one it listens everywhere, and
        every IP address and the machine's name are accepted. allowed: further names or addresses.
        """
        everywhere = address in _WILDCARDS
        own = (host_name(machine if everywhere else address), "localhost")
        return cls(frozenset(filter(None, own)), everywhere, frozenset(filter(None, map(host_name, allowed))))

    def __contains__(self, name: str) -> bool:
        """Whether a canonical name or address is one of this server."""
        if name in self.names or name in self.allowed:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.any_address or address.is_loopback

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Why a request with these headers is not answered; None if it is."""
        values: dict[bytes, list[str]] = {b"host": [], b"origin": []}
        for name, value in headers:
            if name.lower() in values:
                values[name.lower()].append(value.decode("latin-1"))
        hosts, origins = values[b"host"], values[b"origin"]
        host = read_host(hosts[0]) if len(hosts) == 1 else None
        if host is None or host.name not in self:
            return Refusal(421, f"This server does not answer requests for this host.\n{_REMEDY}\n", hosts)
        if origins and not (len(origins) == 1 and self._may_ask(origins[0], host)):
            return Refusal(403, f"This server does not answer pages of other sites.\n{_REMEDY}\n", origins)
        return None

    def _may_ask(self, origin: str, host: Host) -> bool:
        """Whether a page of an origin may ask for a host."""
        match = _ORIGIN.fullmatch(origin)
        page = read_host(match["host"]) if match else None
        if match is None or page is None:
            return False
        default = _DEFAULT_PORTS[match["scheme"].lower()]
        same = page.name == host.name and (page.port or default) == (host.port or default)
        return same or page.name in self.allowed


class Refusal(NamedTuple):
    """Status and text of the response to a refused request, and the values of the header that was refused."""

    status: int
    text: str
    values: list[str]


def host_name(text: str) -> str:
    """A name or an address alone, as users write it, in its canonical form; empty if it is anything else."""
    host = read_host(f"[{text}]" if text.count(":") > 1 else text)
    return host.name if host and host.port is None else ""


def checked_host_names(names: list[str]) -> list[str]:
    """The values of `--allow-host`. Raises `ValueError` for anything but a host name alone."""
    if not all(map(host_name, names)):
        raise ValueError("expected a host name alone, without http://, port, path or *")
    return names


class HostGuard:
    """The middleware: refuses requests of other hosts and origins, and adds `RESPONSE_HEADERS` to responses.

    A refused WebSocket is closed before it is accepted (403). Other requests get 421 for their host, 403 for
    their origin. The application never sees them.
    """

    def __init__(self, application: Application, hosts: Hosts) -> None:
        self._application = application
        self._hosts = hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one connection, as ASGI has it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _with_headers(message.get("headers", ()))}
            await send(message)

        if scope["type"] not in ("http", "websocket"):  # the server starts or stops
            await self._application(scope, receive, send)
        elif (refusal := self._hosts.refusal(scope["headers"])) is None:
            await self._application(scope, receive, send_with_headers)
        else:
            _log.warning("refused a request (%d): %.*r", refusal.status, _LOGGED, refusal.values)
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": ""})
                return
            from starlette.responses import PlainTextResponse

            answer = PlainTextResponse(refusal.text, refusal.status, {"cache-control": "no-store"})
            await answer(scope, receive, send_with_headers)


def _with_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response, and ours; all policies of a response are in force, of other headers one."""
    pairs = list(headers)
    given = {name.lower() for name, _ in pairs} - {b"content-security-policy"}
    ours = ((name.encode(), value.encode()) for name, value in RESPONSE_HEADERS.items())
    return pairs + [(name, value) for name, value in ours if name not in given]
