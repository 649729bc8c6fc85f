"""The gate before the routes: who is answered, how much is read, how long it may take, and the log.

In this order: the id of the request; Host and Origin (`hosts`); the token; the body, which is read
within its limits before a route sees the request, so that slow and cut bodies hold nothing but a connection.
The time limit is for the whole request, which also ends when its client closes the connection. Every refusal
is JSON with a sentence.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import time
import uuid
from itertools import islice

import orjson
from starlette.responses import Response

from linkseek.app.rendering.hosts import RESPONSE_HEADERS, Application, Hosts, Message, Receive, Send
from linkseek.app.serving.monitoring import Metrics, RequestLog
from linkseek.app.serving.options import ServeOptions, Tokens
from linkseek.app.serving.searching import Notes

_log = logging.getLogger(__name__)

OPEN_PATHS = ("/health", "/ready")
"""Answered to any host and without a token, for programs that monitor the service: they say nothing else."""

_MAX_VALUES = 50_000
"""Commas and opening brackets of a body, also within texts: what JSON needs for each value."""

_MAX_KEYS = 500
"""Keys of a body: no request needs as many, and the checks of each may take a tenth of a millisecond."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?\s*(:?)', re.DOTALL)
"""A string of JSON, and the colon that makes it a key."""

_LARGE = 1 << 16
"""Bytes of a body that is parsed in its turn."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class _RefusedRequestError(Exception):
    """The request ends here."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.headers = status, text, headers or {}


class _GoneError(Exception):
    """The client has closed the connection."""


class Gate:
    """The middleware. Routes find `Notes` for the log in the state of the request."""

    def __init__(
        self,
        application: Application,
        options: ServeOptions,
        tokens: Tokens,
        log: RequestLog,
        metrics: Metrics,
    ) -> None:
        """options: say which hosts are answered, how large a body and how long a request may be."""
        self._application, self._tokens = application, tokens
        self._hosts = Hosts.of_server(options.host, socket.gethostname(), options.allow_host)
        self._max_body, self._seconds = options.max_body << 20, options.time_limit
        self._log, self._metrics, self._root = log, metrics, options.root_path
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":  # the server starts or stops; websockets are off
            await self._application(scope, receive, send)
            return
        began = time.perf_counter()
        if self._root and scope["path"].startswith(f"{self._root}/"):  # of a proxy that leaves it
            scope["path"] = scope["path"].removeprefix(self._root)
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        id_ = given if _ID.fullmatch(given) else uuid.uuid4().hex.encode()
        notes = Notes()
        scope.setdefault("state", {}).update(notes=notes, id=id_.decode())
        status, is_complete = 0, False

        async def send_noting(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {
                    **message,
                    "headers": [*message.get("headers", ()), *_HEADERS, (b"x-request-id", id_)],
                }
            is_complete = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        async def refuse(status: int, text: str, headers: dict[str, str] | None = None) -> None:
            body = orjson.dumps(error_json(text))
            await Response(body, status, headers, "application/json")(scope, receive, send_noting)

        try:
            async with asyncio.timeout(self._seconds):
                await self._answer(scope, receive, send_noting)
        except _RefusedRequestError as refused:
            await refuse(refused.status, refused.text, refused.headers)
        except _GoneError:
            status = 499  # as nginx logs it
        except TimeoutError:
            text = f"The request took longer than {self._seconds:g} seconds. Ask fewer questions at once."
            if not status:
                await refuse(504, text, {"retry-after": "1"})
        except Exception:
            _log.exception("request %s failed", id_.decode())
            if status and not is_complete:
                raise  # which ends the connection
            if not status:
                await refuse(500, internal_error(id_.decode()))
        finally:
            seconds = time.perf_counter() - began
            route = _route_of(scope)
            self._metrics.requests.labels(route, status).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            if "pipeline" in notes:
                asked = self._metrics.questions.labels(notes["index"], notes["pipeline"])
                asked.inc(notes["questions"])
            facts = {"id": id_.decode(), "method": scope["method"], "route": route, "status": status}
            self._log.write(facts | {"ms": round(1000 * seconds, 2)} | notes)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            text = "A body has a Content-Length or a Transfer-Encoding, not both."
            raise _RefusedRequestError(400, text, {"connection": "close"})  # RFC 9112, 6.1
        if scope["path"] not in OPEN_PATHS:
            if refusal := self._hosts.refusal(scope["headers"]):
                raise _RefusedRequestError(refusal.status, " ".join(refusal.text.split()))
            if not self._tokens.accept(scope["headers"]):
                text = "This service needs a token. Send it as Authorization: Bearer TOKEN."
                raise _RefusedRequestError(401, text, {"www-authenticate": "Bearer"})
        body = await self._body(scope, receive)
        if (
            len(body) > _LARGE
        ):  # takes long to parse: one in each round of the event loop, others between them
            async with self._turn:
                await asyncio.sleep(0)
        is_read = False

        async def receive_body() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()  # waits until the client goes
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        task, has_gone = asyncio.current_task(), False

        async def end_when_gone() -> None:
            nonlocal has_gone
            while (await receive())["type"] != "http.disconnect":
                pass
            has_gone = True
            assert task
            task.cancel()

        watching = asyncio.create_task(end_when_gone())

        async def send_watching(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                watching.cancel()
            await send(message)

        try:
            await self._application(scope, receive_body, send_watching)
        except asyncio.CancelledError:
            if has_gone and task and not task.uncancel():
                raise _GoneError from None
            raise
        finally:
            watching.cancel()

    async def _body(self, scope: Message, receive: Receive) -> bytes:
        limit = self._max_body
        # the rest is read and dropped (`ImpatientProtocol` ends that), else the client may not see the answer
        too_large = _RefusedRequestError(
            413, f"The body is larger than {limit:,} bytes. Send several requests."
        )
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > limit:
            raise too_large
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise too_large
            if not message.get("more_body"):
                break
        body = b"".join(parts)
        if sum(map(body.count, (b",", b"[", b"{"))) > _MAX_VALUES:
            raise _RefusedRequestError(
                413, f"The body has more than {_MAX_VALUES:,} values. Send several requests."
            )
        if body.count(b":") > _MAX_KEYS:  # they may be in texts
            strings = islice(_STRING.finditer(body), 2 * _MAX_VALUES)
            if sum(map(bool, (found[1] for found in strings))) > _MAX_KEYS:
                raise _RefusedRequestError(413, f"The body has more than {_MAX_KEYS} keys.")
        return body


_HEADERS = [(name.encode(), value.encode()) for name, value in RESPONSE_HEADERS.items()]


def _route_of(scope: Message) -> str:
    """The pattern of a request's route, once the application has seen it: ids are in no metric."""
    plain = scope["path"] if "endpoint" in scope else "none"  # FastAPI alone names the route
    return str(getattr(scope.get("route"), "path", plain))


def error_json(text: str) -> dict[str, str]:
    """The body of an error."""
    return {"error": text}


def invalid_status(path: str) -> int:
    """The status of an invalid body or parameter: 400 by Anserini's contract, else 422."""
    return 400 if path.startswith("/v1/") else 422


def internal_error(id_: str) -> str:
    """The sentence for a mistake of ours, whose details are in the log alone."""
    return f"This is an internal error; the server's log has the details of request {id_}."
