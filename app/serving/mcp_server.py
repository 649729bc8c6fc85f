"""Tools for language models by MCP, over the standard streams or over HTTP behind the gate of the service.

search and fetch as ChatGPT's connectors expect them, and the links of documents. Each answer is one item of
JSON text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Annotated, Any

import orjson
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from linkseek.app.pipelines.catalogue import Models
from linkseek.app.rendering.hosts import Application
from linkseek.app.service import SearchService
from linkseek.app.serving import reading, routes, server
from linkseek.app.serving.application import open_indexes
from linkseek.app.serving.batches import RequestBatches
from linkseek.app.serving.gate import Gate
from linkseek.app.serving.indexes import NoSuchNameError
from linkseek.app.serving.monitoring import Metrics, RequestLog
from linkseek.app.serving.options import IndexOptions, Tokens
from linkseek.app.serving.searching import Searching, sentence
from linkseek.indexer.program.errors import LinkseekError, UsageError

_INSTRUCTIONS = (
    "Search documents that link to each other. search gives passages; fetch gives the text of a passage or "
    "of its whole document; links, backlinks and related lead from a document to its neighbours."
)
_MAX_LISTED = 100

Id = Annotated[str, Field(max_length=2_000, description="the id of a passage or a document")]
IndexName = Annotated[
    str | None, Field(max_length=200, description="the name of an index, by default the first")
]


class _Server(MCPServer[Any]):
    """Says which argument is wrong without the library's own words about its models."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:  # a fault inside a tool stays hidden, whatever its cause
            raise
        except ToolError as error:
            if not isinstance(wrong := error.__cause__, ValidationError):
                raise
            each = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong.errors()]
            raise ToolError(f"{name}: {'; '.join(each)}.") from None


def create_tools(searching: Searching) -> MCPServer:
    """The tools over the indexes of a service."""
    server = _Server("Linkseek", instructions=_INSTRUCTIONS, log_level="WARNING")

    def tool(function: Callable[..., Any]) -> None:
        server.tool(structured_output=False)(function)

    async def read(index: str | None, use: Callable[[SearchService], Any]) -> str:
        try:
            served = searching.indexes.named(index)
            return _text(await asyncio.to_thread(served.with_newest, use))
        except LinkseekError as error:
            raise _told(error) from None

    @tool
    async def search(
        query: Annotated[str, Field(max_length=10_000, description="a question or words")],
        k: Annotated[int, Field(ge=1, le=100, description="how many results")] = 10,
        index: IndexName = None,
    ) -> str:
        """Search for passages. Gives the id, title and address of each; fetch gives their texts."""
        try:
            [found] = await searching.ask([query], k, index)
        except LinkseekError as error:
            raise _told(error) from None
        return _text({"results": [
            {"id": hit.passage_id, "title": hit.heading, "url": hit.url or hit.document_id}
            for hit in found.hits
        ]})  # fmt: skip

    @tool
    async def fetch(id: Id, index: IndexName = None) -> str:
        """The text of a passage or a document, with its title and address."""
        return await read(index, lambda service: _fetched(service, id))

    @tool
    async def links(id: Id, index: IndexName = None) -> str:
        """The documents that a document links to, with the words of each link."""
        return await read(
            index, lambda service: _listed(reading.links_out(service, reading.document_row(service, id)))
        )

    @tool
    async def backlinks(id: Id, index: IndexName = None) -> str:
        """The passages of other documents that link to a document."""
        return await read(
            index, lambda service: _listed(reading.links_in(service, reading.document_row(service, id)))
        )

    @tool
    async def related(id: Id, index: IndexName = None) -> str:
        """The documents around a document: linked in both directions first, then by the number of links."""
        return await read(
            index, lambda service: _listed(reading.related(service, reading.document_row(service, id)))
        )

    return server


def _fetched(service: SearchService, id_: str) -> dict[str, Any]:
    try:
        found = reading.passage(service, id_)
        metadata = {"document_id": found["document_id"], "passage": found["number"], "passages": found["of"]}
    except NoSuchNameError:
        found = reading.document(service, id_)
        metadata = {"document_id": found["id"], "passages": len(found["passages"]), "is_cut": found["is_cut"]}
    title, url = found["title"] or metadata["document_id"], found["url"] or metadata["document_id"]
    return {"id": found["id"], "title": title, "text": found["text"], "url": url, "metadata": metadata}


def _listed(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The first entries; the number of all says whether some are omitted."""
    return {"count": len(entries), "results": entries[:_MAX_LISTED]}


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _told(error: LinkseekError) -> ToolError:
    """An error for the model; the message of a machine error is hidden, since it may name paths."""
    if isinstance(error, UsageError | NoSuchNameError):
        return ToolError(sentence(error))
    return ToolError("The service cannot answer this now.")


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
        return await routes.health()

    async def ready(_: Request) -> Response:
        return await routes.ready(searching)

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
