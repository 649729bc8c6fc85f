"""The chosen index and the options, which the shell hands to every page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from linkseek.app.service import SearchService
from linkseek.app.web.hosts import checked_host_names
from linkseek.indexer.base.options import Options


class AppOptions(Options):
    """Search an index in the browser: pipelines side by side, articles, evaluations, indexes."""

    index: Path = Path("index/sample")
    """the folder of the index; others in the same folder can be chosen on the page"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    results: Path = Path("results")
    """the folder of finished evaluations"""
    allow_host: Annotated[list[str], AfterValidator(checked_host_names)] = Field([])
    """a further name of the application, such as that of a reverse proxy; may be repeated"""


@dataclass(frozen=True, slots=True)
class Context:
    """The folder of the chosen index, and its service; None where there is no index that can be opened."""

    index: Path
    service: SearchService | None
    options: AppOptions

    @property
    def name(self) -> str:
        """The name of the index, which every link carries."""
        return self.index.name
