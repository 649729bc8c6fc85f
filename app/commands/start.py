"""linkseek app: the search pages in a browser, with Linkseek's own settings of Streamlit.

`streamlit run app/main.py` reads them from `.streamlit/config.toml` only where that folder is; here they are
handed over wherever the command is started.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.page.context import AppOptions
from indexer.base.bundled import bundled
from indexer.base.options import parse_options

PROGRAM = "streamlit run app/main.py --"


def main(argv: Sequence[str], program: str = PROGRAM) -> None:
    """Start the server. Options with a dot, such as `--server.port 8600`, are Streamlit's."""
    own, streamlit = split_options(argv)
    parse_options(AppOptions, own, program)  # so that a misspelt option ends here, and --help is ours
    settings = tomllib.loads(bundled(".streamlit/config.toml").read_text("utf-8"))
    from streamlit.web import cli

    script = str(Path(__file__).parents[1] / "main.py")
    sys.argv = ["streamlit", "run", *streamlit_flags(settings), *streamlit, script, "--", *own]
    cli.main()


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


def streamlit_flags(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The settings of a config.toml as flags: --server.address=localhost."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from streamlit_flags(value, f"{prefix}{name}.")
        else:
            yield f"--{prefix}{name}={str(value).lower() if isinstance(value, bool) else value}"
