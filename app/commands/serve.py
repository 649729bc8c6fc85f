"""linkseek serve: indexes over HTTP, for agents and programs."""

from __future__ import annotations

from collections.abc import Sequence

from linkseek.app.serving.options import ServeOptions, Tokens, check_options
from linkseek.indexer.program.options import parse_service_options

PROGRAM = "linkseek serve"


def main(argv: Sequence[str]) -> None:
    """Run the command: open everything before listening, so that an index that cannot be served is an error
    here.
    """
    options = parse_service_options(ServeOptions, argv, PROGRAM)
    check_options(options)
    Tokens.of(options)
    from linkseek.app.serving import server
    from linkseek.app.serving.application import create

    server.run(create(options), server.listen(options), options)
