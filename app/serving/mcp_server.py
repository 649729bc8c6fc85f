"""The tools of MCP over the standard streams or over HTTP, the latter behind the same gate as the service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from linkseek.app.pipelines.catalogue import Models
from linkseek.app.rendering.hosts import Application
from linkseek.app.serving import server
from linkseek.app.serving.application import open_indexes
from linkseek.app.serving.batches import RequestBatches
from linkseek.app.serving.gate import Gate
from linkseek.app.serving.metrics import Metrics
from linkseek.app.serving.options import IndexOptions, Tokens
from linkseek.app.serving.request_log import RequestLog
from linkseek.app.serving.routes import watching
from linkseek.app.serving.searching import Searching
from linkseek.app.serving.tools import create_tools


def serve_streams(options: IndexOptions) -> None:
    """Answer one program by the standard streams, until it closes them."""
    with closing(open_indexes(options)) as indexes, closing(RequestBatches(options.queue)) as batches:
        indexes.start()
        create_tools(Searching(indexes, batches, options)).run("stdio")


def serve_http(options: IndexOptions) -> None:
    """Answer over HTTP at /mcp until a signal."""
    server.run(create(options), server.listen(options), options, path="/mcp")


def create(options: IndexOptions, models: Models | None = None) -> Application:
    """The application over HTTP: no session is kept, so any process can answer any request."""
    from mcp.server.transport_security import TransportSecuritySettings

    metrics, tokens = Metrics(), Tokens.of(options)
    log = RequestLog(options.log_file)
    indexes = open_indexes(options, models=models)
    batches = RequestBatches(options.queue)
    searching = Searching(indexes, batches, options)
    tools = create_tools(searching)
    api = tools.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=options.max_body << 20,
        # the gate has checked the host, with the names that the options allow
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    async def health(_: Request) -> Response:
        return await watching.health()

    async def ready(_: Request) -> Response:
        return await watching.ready(searching)

    for answer in (health, ready):
        api.add_route(f"/{answer.__name__}", answer, ["GET", "HEAD"])
    inner = api.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Any) -> AsyncIterator[None]:
        indexes.start()
        try:
            async with inner(application):
                yield
        finally:
            batches.close()
            indexes.close()
            log.close()

    api.router.lifespan_context = lifespan
    return Gate(api, options, tokens, log, metrics, lambda scope: "/mcp")
