"""A line of JSON for each request, to stderr or to a file that is renewed at 10 MB.

A line that cannot be written, as on a full disk, is counted and never disturbs a request.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.base.errors import MachineError

_BYTES = 10 << 20
_OLD_FILES = 5


class RequestLog:
    """The log of one process."""

    def __init__(self, path: Path | None, on_lost: Callable[[], None] = lambda: None) -> None:
        """path: None for stderr. Raises `MachineError` if the file cannot be opened."""
        handler: logging.Handler
        try:
            handler = (
                logging.StreamHandler(sys.stderr)
                if path is None
                else RotatingFileHandler(path, maxBytes=_BYTES, backupCount=_OLD_FILES, encoding="utf-8")
            )
        except OSError as error:
            raise MachineError(f"--log-file {path}: {error.strerror}", "Choose another file.") from None
        handler.handleError = lambda record: on_lost()  # type: ignore[method-assign]
        self._handler = handler

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write one line, with the time before the facts."""
        line = orjson.dumps({"time": datetime.now(UTC), **facts}, option=orjson.OPT_NON_STR_KEYS).decode()
        self._handler.handle(logging.LogRecord("linkseek", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()
