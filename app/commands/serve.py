"""linkseek serve: indexes over HTTP, for agents and programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from linkseek.app.serving.options import ServeOptions, Tokens, check_options
from linkseek.indexer.base.options import parse_service_options

PROGRAM = "linkseek serve"


def main(argv: Sequence[str]) -> None:
    """Run the command: open everything, then listen, so that what cannot be served is an error here."""
    options = parse_service_options(ServeOptions, argv, PROGRAM)
    check_options(options)
    Tokens.of(options)
    from linkseek.app.serving import server
    from linkseek.app.serving.application import create, open_indexes

    if options.workers == 1:
        application = create(options)
        listening = server.listen(options)
        _print_address(server.address(listening))
        server.run(application, listening, options)
        return
    open_indexes(options)
    with TemporaryDirectory(prefix="linkseek-") as folder:
        listening = server.listen(options)
        _print_address(server.address(listening))
        server.run(partial(create, options, Path(folder)), listening, options, options.workers)


def _print_address(address: str) -> None:
    with suppress(OSError):  # a closed or full output is no reason not to start
        print(f"Linkseek answers at {address}. Ctrl-C ends it.", file=sys.stderr, flush=True)
