"""linkseek mcp: search and links as tools for language models, by the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from linkseek.app.serving.options import IndexOptions
from linkseek.indexer.program.options import parse_service_options

PROGRAM = "linkseek mcp"


class McpOptions(IndexOptions):
    """Give language models tools by the protocol MCP: search, fetch, indexes, links, backlinks, related.

    The program that runs the model starts this command and talks to it through its standard streams; over
    HTTP, `linkseek serve` has the same tools at /mcp. Options can also be set in the environment: --pipeline
    as LINKSEEK_PIPELINE.
    """


def main(argv: Sequence[str]) -> None:
    """Run the command, until the program closes the streams."""
    options = parse_service_options(McpOptions, argv, PROGRAM)
    from linkseek.app.serving.batches import RequestBatches
    from linkseek.app.serving.indexes import ServedIndexes
    from linkseek.app.serving.mcp_server import create_tools
    from linkseek.app.serving.searching import Searching

    with closing(ServedIndexes(options)) as indexes, closing(RequestBatches(options.queue)) as batches:
        indexes.start()
        create_tools(Searching(indexes, batches, options), options.description).run("stdio")
