"""Lines on stderr, with Python's library alone, so that code without other packages can log, too."""

from __future__ import annotations

import sys


def log_line(line: str) -> None:
    """Write a line to stderr in one piece, safe with threads: `print` writes the line end separately."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
