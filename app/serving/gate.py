"""The gate before the routes: who is answered, how much is read, how long it may take, and the log.

In this order: the id of the request; Host and Origin (`hosts`); the token; the body, which is read within its
limits before a route sees the request, so that slow and truncated bodies occupy only a connection. The time
limit is for the whole request, which also ends when its client closes the connection. Every refusal is a
`Problem`. Routes see neither a proxy's path nor a host in the target, and GET in the place of HEAD.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import socket
import time
import uuid
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, NotRequired

import orjson
from pydantic import Field
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from typing_extensions import TypedDict

from linkseek.app.rendering.hosts import RESPONSE_HEADERS, Application, Hosts, Message, Receive, Send
from linkseek.app.serving.monitoring import Metrics, RequestLog
from linkseek.app.serving.options import ROOT_PATH, ServeOptions, Tokens
from linkseek.app.serving.searching import Notes

_log = logging.getLogger(__name__)

OPEN_PATHS = ("/health", "/ready")
"""Answered to any host and without a token, for programs that monitor the service: they say nothing else."""

_MAX_VALUES = 50_000
"""Commas and opening brackets of a body, also within texts: what JSON needs for each value."""

_MAX_KEYS = 500
"""The maximum number of keys in a body: the checks of each may take a tenth of a millisecond."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?\s*(:?)', re.DOTALL)
"""A string of JSON, and the colon that makes it a key."""

_LARGE = 1 << 16
"""Bytes of a body that is parsed in its turn."""

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

_HEADERS = [(name.encode(), value.encode()) for name, value in RESPONSE_HEADERS.items()]

CODES = {
    "malformed": 400, "no_token": 401, "wrong_origin": 403, "unknown_address": 404, "unknown_index": 404,
    "unknown_name": 404, "wrong_method": 405, "slow_request": 408, "too_large": 413, "wrong_type": 415,
    "wrong_host": 421, "invalid": 422, "unknown_field": 422, "internal": 500, "unavailable": 503,
    "overloaded": 503, "not_ready": 503, "too_slow": 504,
}  # fmt: skip
"""Kinds of mistakes and their statuses. unknown_name: a pipeline, passage or document that does not exist."""


class Problem(TypedDict):
    """The answer of each status of 400 and more (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    """the error in a sentence"""
    code: Annotated[str, Field(json_schema_extra={"enum": [*CODES]})]
    """the kind of the error, for programs"""
    error: NotRequired[str]
    """the same sentence, for clients of Anserini's routes"""


def problem(path: str, code: str, text: str, headers: dict[str, str] | None = None) -> Response:
    """The answer for a mistake in a request. By Anserini's contract, invalid values have status 400."""
    status, more = CODES[code], {}
    if path.startswith("/v1/"):
        status, more = 400 if code in ("invalid", "unknown_index") else status, {"error": text}
    title, text = HTTPStatus(status).phrase, text.encode("utf-8", "replace").decode()
    content = {"type": "about:blank", "title": title, "status": status, "detail": text, "code": code} | more
    return Response(orjson.dumps(content), status, headers, "application/problem+json")


class _RefusedRequestError(Exception):
    """The request ends here. code: one of `CODES`."""

    def __init__(self, code: str, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.answer = code, text, headers


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
        names = "|".join(re.escape(f"[{name}]" if ":" in name else name) for name in self._hosts.allowed)
        self._cors = CORSMiddleware(
            application,
            allow_methods=("GET", "POST", "HEAD"),
            allow_headers=["*"],
            allow_origin_regex=rf"(?i)https?://(?:{names})(?::\d+)?" if names else None,
            expose_headers=["x-request-id", "retry-after"],
        )
        self._options, self._max_body, self._seconds = options, options.max_body << 20, options.time_limit
        self._log, self._metrics = log, metrics
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":  # the server starts or stops; websockets are off
            await self._application(scope, receive, send)
            return
        began, method = time.perf_counter(), scope["method"]
        scope, path = self._as_routed(scope)
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        id_ = given if _ID.fullmatch(given) else uuid.uuid4().hex.encode()
        notes = Notes()
        state = scope.setdefault("state", {})
        state.update(notes=notes, id=id_.decode(), path=path)
        status, is_complete = 0, False

        async def send_noting(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS, (b"x-request-id", id_)]
            is_complete = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        send_allowed: Send = send_noting
        if b"origin" in headers:
            send_allowed = partial(self._cors.send, send=send_noting, request_headers=Headers(scope=scope))

        async def refuse(*what: Any) -> None:
            await problem(path, *what)(scope, receive, send_allowed)

        try:
            async with asyncio.timeout(self._seconds):
                await self._answer(scope, path, receive, send_allowed)
        except _RefusedRequestError as refused:
            await refuse(*refused.answer)
        except _GoneError:
            status = 499  # as nginx logs it
        except TimeoutError:
            if not status and "is_read" in state:
                text = f"The request took longer than {self._seconds:g} seconds. Ask fewer questions at once."
                await refuse("too_slow", text, {"retry-after": "1"})
            elif not status:
                text = f"The body did not arrive within {self._seconds:g} seconds."
                await refuse("slow_request", text, {"connection": "close"})
        except Exception:
            _log.exception("request %s failed", id_.decode())
            if status and not is_complete:
                raise  # which ends the connection
            if not status:
                await refuse("internal", internal_error(id_.decode()))
        finally:
            seconds = time.perf_counter() - began
            # ids are in no metric; FastAPI alone names the route
            route = getattr(scope.get("route"), "path", path if "endpoint" in scope else "none")
            self._metrics.requests.labels(route, status).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            if "pipeline" in notes:
                asked = self._metrics.questions.labels(notes["index"], notes["pipeline"])
                asked.inc(notes["questions"])
            if not (self._options.log_questions or seconds > (self._options.log_slow or math.inf)):
                notes.pop("asked", None)
            facts = {"id": id_.decode(), "method": method, "route": route, "status": status}
            self._log.write(facts | {"ms": round(1000 * seconds, 2)} | notes)

    def _as_routed(self, scope: Message) -> tuple[Message, str]:
        """The request for the routes, which see GET for HEAD, with its path below the proxy's.

        A proxy has stripped its path or left it. A host in the target replaces `Host` (RFC 9112, 3.2.2).
        """
        headers, path = scope["headers"], scope["path"]
        given = dict(headers).get(b"x-forwarded-prefix", b"").decode("latin-1").rstrip("/")
        root = given if given and ROOT_PATH.fullmatch(given) else self._options.root_path
        if path.startswith(("http://", "https://")):
            host, *rest = path.split("/", 3)[2:]
            path = f"/{''.join(rest)}"
            headers = [(b"host", host.encode()), *(pair for pair in headers if pair[0] != b"host")]
        if path.startswith(f"{root}/"):
            path = path.removeprefix(root)
        path = "/mcp" if path == "/mcp/" else path  # as some clients write it
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        new = {"method": method, "headers": headers, "path": root + path, "root_path": root}
        return {**scope, **new}, path

    async def _answer(self, scope: Message, path: str, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if {b"content-length", b"transfer-encoding"} <= headers.keys():
            text = "A body has a Content-Length or a Transfer-Encoding, not both."
            raise _RefusedRequestError("malformed", text, {"connection": "close"})  # RFC 9112, 6.1
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise _RefusedRequestError("wrong_type", "Send the body uncompressed.")
        if path not in OPEN_PATHS:
            if refusal := self._hosts.refusal(scope["headers"]):
                code = "wrong_host" if refusal.status == CODES["wrong_host"] else "wrong_origin"
                raise _RefusedRequestError(code, " ".join(refusal.text.split()))
            is_preflight = {b"origin", b"access-control-request-method"} <= headers.keys()
            if scope["method"] == "OPTIONS" and is_preflight:
                allowed = self._cors.preflight_response(Headers(scope=scope))
                if allowed.status_code != HTTPStatus.OK:
                    raise _RefusedRequestError("wrong_origin", "Pages may send only GET, HEAD and POST.")
                await allowed(scope, receive, send)
                return
            client = self._tokens.client(scope["headers"])
            if client is None and path != "/":  # the page asks for a token
                text = "This service needs a token. Send it as Authorization: Bearer TOKEN."
                raise _RefusedRequestError("no_token", text, {"www-authenticate": "Bearer"})
            if client:
                scope["state"]["notes"]["client"] = client
        body = await self._body(scope, receive)
        scope["state"]["is_read"] = True
        if len(body) > _LARGE:  # takes long to parse: one in each round of the event loop
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
            "too_large", f"The body is larger than {limit:,} bytes. Send several requests."
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
        if _values(body) > _MAX_VALUES and _values(_STRING.sub(b"", body)) > _MAX_VALUES:
            raise _RefusedRequestError(
                "too_large", f"The body has more than {_MAX_VALUES:,} values. Send several requests."
            )
        if body.count(b":") > _MAX_KEYS:  # they may be in texts
            strings = islice(_STRING.finditer(body), 2 * _MAX_VALUES)
            if sum(map(bool, (found[1] for found in strings))) > _MAX_KEYS:
                raise _RefusedRequestError("too_large", f"The body has more than {_MAX_KEYS} keys.")
        return body


def _values(body: bytes) -> int:
    """At least the number of values in JSON; marks within texts count, too."""
    return sum(map(body.count, (b",", b"[", b"{")))


def internal_error(id_: str) -> str:
    """The sentence for an internal error, whose details are only in the log."""
    return f"This is an internal error; the server's log has the details of request {id_}."
