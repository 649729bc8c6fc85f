"""The application that the tests of pages open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).parents[2]
SECONDS = 180_000  # milliseconds that anything on a page may take; the machine may be busy


@dataclass(frozen=True)
class Application:
    """The running application, and where its indexes and reports lie."""

    address: str
    indexes: Path
    results: Path

    def __call__(self, page: str = "", **params: Any) -> str:
        """The address of a page with parameters."""
        query = urlencode(params, doseq=True)
        return f"{self.address}/{page}" + (f"?{query}" if query else "")
