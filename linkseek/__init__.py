"""Search that learns from hyperlinks."""

from __future__ import annotations

from pathlib import Path

if not Path(__file__).with_name("indexer").is_dir():
    # A clone without symbolic links, as on Windows: the packages are the folders next to this one.
    __path__.append(str(Path(__file__).parents[1]))
