"""The chosen index and the options, which the shell hands to every page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, field_validator

from linkseek.app.service import SearchService
from linkseek.app.web.hosts import host_name
from linkseek.indexer.base.options import Options


class AppOptions(Options):
    """Search an index in the browser: pipelines side by side, articles, evaluations, indexes."""

    index: Path = Path("index/sample")
    """the folder of the index; others in the same folder can be chosen on the page"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    results: Path = Path("results")
    """the folder of finished evaluations"""
    allow_host: list[str] = Field([])
    """a further name of the application, such as that of a reverse proxy; may be repeated"""

    @field_validator("allow_host")
    @classmethod
    def _are_names(cls, names: list[str]) -> list[str]:
        if not all(map(host_name, names)):
            raise ValueError("a host name alone is needed, without http://, port, path or *")
        return names


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
