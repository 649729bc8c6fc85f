"""linkseek app: the search pages in a browser.

Wherever it is started, Streamlit reads our settings from `.streamlit/config.toml` next to `app/main.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from linkseek.app.page.context import AppOptions
from linkseek.indexer.program.errors import log_line
from linkseek.indexer.program.options import parse_options
from linkseek.indexer.store.manifest_files import is_index, no_index

PROGRAM = "linkseek app"


def main(argv: Sequence[str]) -> None:
    """Start the server. Options with a dot, such as `--server.port 8600`, are Streamlit's."""
    own, streamlit = split_options(argv)
    options = parse_options(AppOptions, own, PROGRAM)  # a misspelt option ends here, and --help is ours
    if not is_index(options.index):
        log_line(str(no_index(options.index)))
    from streamlit.web import cli

    script = str(Path(__file__).parents[1] / "main.py")
    sys.argv = ["streamlit", "run", *streamlit, script, "--", *own]
    cli.main()


def split_options(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of the pages, and the options of Streamlit."""
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
