"""linkseek mcp: search and links as tools for language models, by the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Sequence

from linkseek.app.serving.options import IndexOptions, Tokens
from linkseek.indexer.program.options import parse_service_options

PROGRAM = "linkseek mcp"


class McpOptions(IndexOptions):
    """Give language models the tools search, fetch, links, backlinks and related, by the protocol MCP.

    The program that has the model starts this command and talks to it by its standard streams; or, with
    --http, reaches it at http://HOST:PORT/mcp. Each option may also come from the environment, --port from
    LINKSEEK_PORT.
    """

    http: bool = False
    """answer over HTTP instead of the standard streams"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_service_options(McpOptions, argv, PROGRAM)
    if options.http:
        Tokens.of(options)
    from linkseek.app.serving.mcp_server import serve_http, serve_streams

    (serve_http if options.http else serve_streams)(options)
