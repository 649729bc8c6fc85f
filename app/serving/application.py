"""The service as an ASGI application: routes behind the gate, and what lives as long as they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from linkseek.app.pipelines.catalogue import Models
from linkseek.app.rendering.hosts import Application
from linkseek.app.serving import clients, routes
from linkseek.app.serving.batches import OverloadedError, RequestBatches
from linkseek.app.serving.gate import Gate, error_json, internal_error, invalid_status
from linkseek.app.serving.indexes import Cluster, NoSuchNameError, ServedIndexes
from linkseek.app.serving.mcp_server import create_tools, tools_route
from linkseek.app.serving.monitoring import Metrics, RequestLog
from linkseek.app.serving.options import IndexOptions, ServeOptions, Tokens
from linkseek.app.serving.routes import Error, Json
from linkseek.app.serving.searching import Searching, sentence
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.cluster import connected
from linkseek.indexer.partition_actors import PartitionActors
from linkseek.indexer.program.errors import InputError, LinkseekError, UsageError
from linkseek.indexer.program.extras import installed_versions

_DESCRIPTION = (
    "Search over documents with links: passages for questions, documents, and the links around them."
)
_ERRORS: dict[int | str, dict[str, Any]] = {
    "default": {"model": Error, "description": "A sentence on what went wrong."}
}


def open_indexes(
    options: IndexOptions, cluster: Cluster | None = None, models: Models | None = None
) -> ServedIndexes:
    """Open the indexes that the options name for a service."""
    return ServedIndexes(options.index, options.pipelines_file, options.pipeline, cluster, models)


def create(options: ServeOptions, models: Models | None = None) -> Application:
    """The application. models: opened in another way than by their names.

    Raises the errors of opening indexes, tokens, log.
    """
    metrics = Metrics()
    log = RequestLog(options.log_file, metrics.lost.inc)
    tokens = Tokens.of(options)
    stack = ExitStack()
    indexes = open_indexes(options, stack.enter_context(_cluster(options)), models)
    stack.callback(indexes.close)
    batches = RequestBatches(options.queue, metrics.batch_size.observe)
    metrics.waiting.set_function(lambda: batches.waiting)
    searching = Searching(indexes, batches, options, options.log_questions)
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

    api = FastAPI(
        title="Linkseek",
        description=_DESCRIPTION,
        version=installed_versions(["linkseek"]).get("linkseek", "0"),
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
        root_path=options.root_path,
        lifespan=lifespan,
        redirect_slashes=False,
        strict_content_type=False,  # a body without a type is JSON; pages of other sites are refused before
    )
    api.state.searching = searching
    api.state.metrics = metrics
    for router in (clients.router, routes.router, clients.anserini, routes.operations):
        api.include_router(router)  # the first match answers
    api.router.routes.append(mcp)
    api.add_exception_handler(LinkseekError, partial(_error, metrics))
    api.add_exception_handler(RequestValidationError, _invalid)
    api.add_exception_handler(HTTPException, _refused)
    api.add_exception_handler(Exception, _failed)
    return Gate(api, options, tokens, log, metrics)


@contextmanager
def _cluster(options: ServeOptions) -> Iterator[Cluster | None]:
    with connected(options.ray) as ray:

        def actors(index: OpenIndex) -> PartitionActors:
            return PartitionActors(ray, index, replicas=options.replicas, partial=options.partial)

        yield actors if ray else None


async def _error(metrics: Metrics, request: Request, error: Exception) -> Json:
    """A problem that a request can cause, or the machine."""
    assert isinstance(error, LinkseekError)
    if isinstance(error, OverloadedError):
        metrics.refused.inc()
        return Json(error_json(sentence(error)), 503, {"retry-after": "1"})
    if isinstance(error, NoSuchNameError):
        return Json(error_json(sentence(error)), 404)
    if isinstance(error, UsageError | InputError):
        return Json(error_json(sentence(error)), 400)
    request.state.notes["error"] = str(error)  # paths of this machine are for the log
    text = "The service cannot answer this now; its log says why."
    return Json(error_json(text), 503, {"retry-after": "5"})


async def _failed(request: Request, error: Exception) -> Json:
    """A mistake of ours, which the gate logs."""
    return Json(error_json(internal_error(request.state.id)), 500)


async def _invalid(request: Request, error: Exception) -> Json:
    """A body or parameter that is no such thing; the values of the request are not repeated."""
    assert isinstance(error, RequestValidationError)
    problems = []
    for one in error.errors()[:5]:
        if one["loc"] == ("body",) and isinstance(error.body, bytes):
            problems.append("The body is no JSON by its type: send Content-Type: application/json")
            continue
        place = ".".join(map(str, one["loc"][1:]))[:200]
        problems.append(f"{place}: {one['msg']}" if place else str(one["msg"]))
    text = "; ".join(problems).encode("utf-8", "replace").decode()
    path = request.url.path
    return Json(error_json(text), invalid_status(path))


async def _refused(request: Request, error: Exception) -> Json:
    """An address or a method that is no route, and a body that cannot be read."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        text = "There is nothing at this address. The page / lists what there is."
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        text = "This address takes another method. The page / lists them."
    else:
        text = "The body cannot be read: JSON in UTF-8 is needed."
    return Json(error_json(text), error.status_code, dict(error.headers or {}))
