"""linkseek app: the search pages in a browser.

Wherever it is started, Streamlit reads our settings from `.streamlit/config.toml` next to `app/main.py`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from linkseek.app.background.services import SERVICES
from linkseek.app.page.context import AppOptions
from linkseek.app.web.rendering import compile_templates
from linkseek.indexer.base.errors import LinkseekError
from linkseek.indexer.base.options import parse_options

PROGRAM = "linkseek app"


def main(argv: Sequence[str]) -> None:
    """Start the server. Options with a dot, such as `--server.port 8600`, are Streamlit's."""
    own, streamlit = split_options(argv)
    options = parse_options(AppOptions, own, PROGRAM)  # a misspelt option ends here, and --help is ours
    threading.Thread(target=warm, args=(options,), daemon=True).start()
    from streamlit.web import cli

    script = str(Path(__file__).parents[1] / "main.py")
    sys.argv = ["streamlit", "run", *streamlit, script, "--", *own]
    cli.main()


def warm(options: AppOptions) -> None:
    """Open the index, the pipelines and the templates of a first visit, once the server has started."""
    from streamlit import runtime

    while not runtime.exists():
        time.sleep(0.05)
    with suppress(LinkseekError):  # which the page shows
        service = SERVICES.open(options.index.resolve(), options.pipelines_file, options.results)
        if options.simple:
            service.warm([service.pipelines.recommended])
    compile_templates()


def split_options(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of the pages, and those of Streamlit."""
    own: list[str] = []
    streamlit: list[str] = []
    words = iter(argv)
    for word in words:
        name, equals, _ = word.partition("=")
        if name.startswith("--") and "." in name:
            streamlit += [word] if equals else [word, next(words, "")]
        else:
            own.append(word)
    return own, streamlit
