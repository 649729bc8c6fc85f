"""Tools for language models by MCP, over the standard streams or at /mcp of the service.

search and fetch as ChatGPT's connectors expect them, and the links of documents. Each answer is one item of
JSON text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from textwrap import shorten
from typing import Annotated, Any

import orjson
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import INVALID_PARAMS, ToolAnnotations
from pydantic import Field, ValidationError
from starlette.routing import BaseRoute, Route

from linkseek.app.pipelines.filters import read_filter
from linkseek.app.service import SearchService
from linkseek.app.serving import reading
from linkseek.app.serving.routes import check_names
from linkseek.app.serving.searching import Searching, sentence
from linkseek.indexer.program.errors import LinkseekError, UsageError
from linkseek.indexer.program.extras import installed_versions

_INSTRUCTIONS = (
    "Search documents that link to each other. search returns passages; fetch returns the text of a passage "
    "or of its document; links, backlinks and related lead from a document to its neighbours."
)
_MAX_LISTED = 100
_SNIPPET = 300  # characters
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)

Id = Annotated[str, Field(max_length=2_000, description="the id of a passage or a document")]
IndexName = Annotated[
    str | None, Field(max_length=200, description="the name of an index, by default the first")
]

Around = Callable[[SearchService, int], Sequence[Any]]
"""(service, row of a document) -> the documents linked with it."""


class _Server(MCPServer[Any]):
    """Says which argument is wrong without the library's own words about its models."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            for known in await self.list_tools():
                if known.name == name:
                    names = known.input_schema.get("properties", {})
                    arguments = arguments if names else {}  # clients fill in something where there is nothing
                    check_names(arguments, names)
            return await super().call_tool(name, arguments, context)
        except UsageError as error:
            raise _told(error) from None
        except UnexpectedToolError:  # a fault inside a tool stays hidden, whatever its cause
            raise
        except ToolError as error:
            if not isinstance(wrong := error.__cause__, ValidationError):
                raise
            each = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong.errors()]
            raise ToolError(f"{name}: {'; '.join(each)}.") from None

    async def get_prompt(self, name: str, arguments: Any = None, context: Any = None) -> Any:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name[:100]}")  # the library's error has a traceback


def create_tools(searching: Searching, description: str = "") -> MCPServer:
    """The tools over the indexes of a service. description: of their contents, for the model."""
    server = _Server(
        "Linkseek",
        instructions=f"{description} {_INSTRUCTIONS}".strip(),
        version=installed_versions(["linkseek"]).get("linkseek", "0"),
        log_level="WARNING",
    )

    def tool(function: Callable[..., Any]) -> None:
        title = function.__name__.capitalize()
        server.tool(title=title, annotations=_READS, structured_output=False)(function)

    async def read(index: str | None, use: Callable[[SearchService], Any]) -> str:
        try:
            served = searching.indexes.named(index)
            return _text(await asyncio.to_thread(served.with_newest, use))
        except LinkseekError as error:
            raise _told(error) from None

    async def around(index: str | None, id_: str, kind: Around) -> str:
        return await read(index, lambda service: _listed(kind(service, reading.document_row(service, id_))))

    @tool
    async def search(
        query: Annotated[str, Field(max_length=10_000, description="a question or words")],
        k: Annotated[int, Field(ge=1, le=100, description="the number of results")] = 10,
        index: IndexName = None,
        pipeline: Annotated[str | None, Field(max_length=200, description="one that `indexes` lists")] = None,
        only: Annotated[tuple[str, ...], Field(max_length=100, description="such as folder:docs")] = (),
        *,
        context: Context[Any, Any],
    ) -> str:
        """Search for passages. Gives the id, title, address, score and beginning of each; fetch gives all."""
        request = context.request_context.request  # None by the standard streams
        notes = request.state.notes if request else None
        try:
            [found] = await searching.ask([query], k, index, pipeline, only=read_filter(only), notes=notes)
        except LinkseekError as error:
            raise _told(error) from None
        return _text({"results": [
            {"id": hit.passage_id, "title": hit.heading, "section": hit.section,
             "url": hit.url or hit.document_id,
             "text": shorten(hit.text, _SNIPPET, placeholder=" ..."), "score": round(hit.score, 4)}
            for hit in found.hits
        ]})  # fmt: skip

    @tool
    async def indexes() -> str:
        """The indexes that can be searched, each with its pipelines, the default first."""
        return _text(searching.indexes.described())

    @tool
    async def fetch(id: Id, index: IndexName = None) -> str:
        """The text of a passage or a document, with its title and address."""
        return await read(index, lambda service: _fetched(service, id))

    @tool
    async def links(id: Id, index: IndexName = None) -> str:
        """The documents that a document links to, with the words of each link."""
        return await around(index, id, reading.links_out)

    @tool
    async def backlinks(id: Id, index: IndexName = None) -> str:
        """The passages of other documents that link to a document."""
        return await around(index, id, reading.links_in)

    @tool
    async def related(id: Id, index: IndexName = None) -> str:
        """The documents around a document: linked in both directions first, then by the number of links."""
        return await around(index, id, reading.related)

    return server


def _fetched(service: SearchService, id_: str) -> dict[str, Any]:
    found: Any = reading.passage_or_document(service, id_)
    if "of" in found:
        metadata = {"document_id": found["document_id"], "passage": found["number"], "passages": found["of"]}
    else:
        metadata = {"document_id": found["id"], "passages": len(found["passages"]), "is_cut": found["is_cut"]}
    title, url = found["title"] or metadata["document_id"], found["url"] or metadata["document_id"]
    return {"id": found["id"], "title": title, "text": found["text"], "url": url, "metadata": metadata}


def _listed(entries: Sequence[Any]) -> dict[str, Any]:
    """The first entries; the number of all says whether some are omitted."""
    return {"count": len(entries), "results": entries[:_MAX_LISTED]}


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _told(error: LinkseekError) -> ToolError:
    """An error for the model; the message of a machine error is hidden, since it may name paths."""
    if isinstance(error, UsageError):
        return ToolError(sentence(error))
    return ToolError("The service cannot answer this now.")


def tools_route(tools: MCPServer, max_body: int) -> BaseRoute:
    """The tools at /mcp. No session is kept, and the gate has checked the host. max_body: bytes."""
    application = tools.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=max_body,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    [route] = application.routes
    assert isinstance(route, Route)
    # A stream from the server is not offered: clients of one that ends would come back for ever.
    return Route(route.path, route.app, methods=["POST", "DELETE"])
