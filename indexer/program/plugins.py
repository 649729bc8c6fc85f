"""Plug-ins: modules outside of Linkseek that add formats or re-rankers to it when they are imported.

The environment variable LINKSEEK_PLUGINS names them, separated by commas, so that processes which a command
starts have them as well. Nothing is a plug-in by default.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from linkseek.indexer.program.errors import UsageError

PLUGINS = "LINKSEEK_PLUGINS"


@cache
def load_plugins() -> None:
    """Import the plug-ins. Raises `UsageError` for one that cannot be imported."""
    for name in filter(None, map(str.strip, os.environ.get(PLUGINS, "").split(","))):
        try:
            import_module(name)
        except ImportError as error:
            hint = f"Name modules that Python can import, or unset {PLUGINS}."
            raise UsageError(f"{PLUGINS}: {name} cannot be imported ({error})", hint) from None
