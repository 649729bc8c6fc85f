"""The service as an ASGI application: routes behind the gate, and objects that live as long as they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from linkseek.app.pipelines.open_models import Models
from linkseek.app.rendering.hosts import Application
from linkseek.app.serving import clients, routes
from linkseek.app.serving.batches import OverloadedError, RequestBatches
from linkseek.app.serving.gate import Gate, Problem, internal_error, problem
from linkseek.app.serving.indexes import Cluster, NoSuchIndexError, NoSuchNameError, ServedIndexes
from linkseek.app.serving.mcp_server import create_tools, tools_route
from linkseek.app.serving.monitoring import Metrics, RequestLog
from linkseek.app.serving.options import ServeOptions, Tokens
from linkseek.app.serving.routes import UnknownFieldError
from linkseek.app.serving.searching import MAX_RESULTS, Searching, sentence
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.cluster import connected
from linkseek.indexer.partition_actors import PartitionActors
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.indexer.program.extras import installed_versions

_DESCRIPTION = (
    "Search over documents with links: passages for questions, documents, and the links around them. "
    "A request has at most {0.max_questions:,} questions, {1:,} passages and {0.max_body} MB, and takes at "
    "most {0.time_limit:g} seconds."
)
_ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A description of the error.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}
_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
_KINDS: dict[type[Exception], str] = {
    NoSuchIndexError: "unknown_index",
    NoSuchNameError: "unknown_name",
    UnknownFieldError: "unknown_field",
}
_NO_JSON = "The body cannot be read: expected JSON in UTF-8."
_REFUSALS = {
    404: ("unknown_address", "There is nothing at this address. The page / lists all addresses."),
    405: ("wrong_method", "This address does not support this method. The page / lists the methods."),
}
_COMPRESSED = 1 << 15
"""Bytes of the smallest answer that is compressed, if its client takes that: others would come later."""


def create(options: ServeOptions, models: Models | None = None) -> Application:
    """The application. models: opened in another way than by their names.

    Raises the errors of opening indexes, tokens, log.
    """
    metrics = Metrics()
    log = RequestLog(options.log_file, metrics.lost.inc)
    tokens = Tokens.of(options)
    stack = ExitStack()
    indexes = ServedIndexes(options, stack.enter_context(_cluster(options)), models)
    stack.callback(indexes.close)
    batches = RequestBatches(options.queue, metrics.batch_size.observe)
    metrics.waiting.set_function(lambda: batches.waiting)
    searching = Searching(indexes, batches, options)
    tools = create_tools(searching, options.description)
    mcp = tools_route(tools, options.max_body << 20)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        indexes.start()
        try:
            async with tools.session_manager.run():
                yield
        finally:
            batches.close()
            await asyncio.to_thread(stack.close)

    api = _Api(
        title="Linkseek",
        description=_DESCRIPTION.format(options, MAX_RESULTS),
        version=installed_versions(["linkseek"]).get("linkseek", "0"),
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
        redirect_slashes=False,
        strict_content_type=False,  # a body without a type is JSON; pages of other sites are refused before
    )
    api.limits, api.is_guarded = options, bool(tokens)
    api.state.searching = searching
    api.state.metrics = metrics
    for router in (routes.router, routes.operations, clients.router, clients.anserini):
        api.include_router(router)
    api.router.routes.append(mcp)
    api.add_exception_handler(LinkseekError, partial(_error, metrics))
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _refused)
    api.add_exception_handler(Exception, _failed)
    compressed = GZipMiddleware(api, _COMPRESSED, compresslevel=1)
    return Gate(compressed, options, tokens, log, metrics)


class _Api(FastAPI):
    """Its description has the limits of the options, and the ways of sending a token.

    Defaults are in the description of a field: openapi-typescript requires a field that has `default`.
    """

    limits: ServeOptions
    is_guarded: bool

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            described = super().openapi()
            described["components"]["schemas"]["Problem"] = TypeAdapter(Problem).json_schema()
            described["components"]["securitySchemes"] = _SCHEMES
            described["security"] = [*({name: []} for name in _SCHEMES), *([] if self.is_guarded else [{}])]
            self._adapt(described)
        return self.openapi_schema or {}

    def _adapt(self, described: Any) -> None:
        if isinstance(described, dict):
            if name := described.pop("x-limit", None):
                key = "maximum" if "maximum" in described else "maxItems"
                described[key] = min(described[key], getattr(self.limits, name))
            if not isinstance(described.get("default", {}), dict):
                words, default = described.get("description", ""), orjson.dumps(described.pop("default"))
                described["description"] = f"{words} (default: {default.decode()})".strip()
        for part in described.values() if isinstance(described, dict) else described:
            if isinstance(part, dict | list):
                self._adapt(part)


@contextmanager
def _cluster(options: ServeOptions) -> Iterator[Cluster | None]:
    with connected(options.ray) as ray:

        def actors(index: OpenIndex) -> PartitionActors:
            return PartitionActors(ray, index, replicas=options.replicas, partial=options.partial)

        yield actors if ray else None


async def _error(metrics: Metrics, request: Request, error: Exception) -> Response:
    """A problem that a request can cause, or the machine."""
    assert isinstance(error, LinkseekError)
    answer = partial(problem, request.state.path)
    if isinstance(error, OverloadedError):
        metrics.refused.inc()
        return answer("overloaded", sentence(error), {"retry-after": "1"})
    if isinstance(error, UsageError | InputError):
        return answer(_KINDS.get(type(error), "invalid"), sentence(error))
    request.state.notes["error"] = str(error)  # paths of this machine are for the log
    text = "The service cannot answer this now; its log has the reason."
    return answer("unavailable", text, {"retry-after": "5"})


async def _failed(request: Request, error: Exception) -> Response:
    """An internal error, which the gate logs."""
    return problem(request.state.path, "internal", internal_error(request.state.id))


_NEEDS = {
    "missing": "missing",
    "model_attributes_type": "needs an object",
    **dict.fromkeys(("list_type", "tuple_type"), "needs a list"),
    "string_type": "needs a text",
}
"""What is expected instead of pydantic's sentences about Python."""


async def _invalid(request: Request, error: Exception) -> Response:
    """The error for an invalid body or parameter, without the values of the request."""
    assert isinstance(error, RequestValidationError)
    answer, errors = partial(problem, request.state.path), error.errors()[:5]
    if errors[0]["type"] == "json_invalid":
        return answer("malformed", _NO_JSON)
    if errors[0]["loc"] == ("body",) and isinstance(error.body, bytes):
        return answer("wrong_type", "The body is not declared as JSON: send Content-Type: application/json")
    places = [".".join(map(str, error["loc"][1:]))[:200] or "the body" for error in errors]
    needs = (_NEEDS.get(error["type"], error["msg"]) for error in errors)
    text = "; ".join(f"{place}: {need}" for place, need in zip(places, needs, strict=True))
    return answer("invalid", text)


async def _refused(request: Request, error: Exception) -> Response:
    """The error for an address or a method without a route, and for a body that cannot be read."""
    assert isinstance(error, HTTPException)
    code, text = _REFUSALS.get(error.status_code, ("malformed", _NO_JSON))
    return problem(request.state.path, code, text, dict(error.headers or {}))
