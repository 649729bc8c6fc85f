"""What the shell hands to every page: the chosen index and the options; what a first visit needs; titles."""

from __future__ import annotations

import importlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from linkseek.app.background import services
from linkseek.app.background.job_requests import Workplace
from linkseek.app.background.jobs import READ_ONLY, READ_ONLY_HINT, Jobs
from linkseek.app.context.titles import find_articles
from linkseek.app.rendering.addresses import article_address
from linkseek.app.rendering.hosts import checked_host_names
from linkseek.app.rendering.html_templates import compile_templates
from linkseek.app.service import SearchService, list_indexes
from linkseek.indexer.program.errors import LinkseekError, UsageError
from linkseek.indexer.program.options import Options
from linkseek.indexer.program.text import harmless


class AppOptions(Options):
    """Search an index in the browser: pipelines side by side, articles, evaluations, indexes."""

    index: Path = Path("index/sample")
    """the folder of the index; others in the same folder can be chosen on the page"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    results: Path = Path("results")
    """the folder of finished evaluations"""
    asked: list[Path] = Field([])
    """a log of `linkseek serve --log-questions`, whose questions Compare offers; may be repeated"""
    log_questions: Path | None = None
    """write the questions that visitors ask into this file, which Compare offers, too"""
    allow_host: Annotated[list[str], AfterValidator(checked_host_names)] = Field([])
    """a further host name of the application, such as a reverse proxy's; may be repeated"""

    simple: bool = False
    """one question box and one list of results, of the recommended pipeline"""
    read_only: bool = False
    """only search and read: nothing can be built, evaluated, judged or deleted"""


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

    @property
    def jobs(self) -> Jobs:
        """The jobs of all indexes in the same folder; none can be started or ended if this is read-only."""
        return Jobs.next_to(self.index, read_only=self.options.read_only)

    @property
    def asked_logs(self) -> list[Path]:
        """The logs of questions that people asked."""
        own = self.options.log_questions
        return [*self.options.asked, *([own] if own and own.exists() else [])]

    def workplace(self) -> Workplace:
        """Where jobs of the index ask questions. Raises as `to_change`."""
        known = self.service.pipelines.available() if self.service else []
        options = self.options
        results = self.to_change(options.results)
        return Workplace(self.jobs, results, self.index, known, options.pipelines_file)

    def to_change(self, path: Path) -> Path:
        """The same path, for a change. Raises `UsageError` if this application is read-only."""
        if self.options.read_only:
            raise UsageError(READ_ONLY, READ_ONLY_HINT)
        return path


def prepare(options: AppOptions) -> None:
    """Open the index and the pipelines of a first visit; load the start page and the templates."""
    with suppress(LinkseekError):  # which the page shows
        service = services.SERVICES.open(options.index.resolve(), options.pipelines_file, options.results)
        if options.simple:
            service.pipelines.warm([service.pipelines.recommended])
    importlib.import_module("linkseek.app.page." + ("simple" if options.simple else "search") + "_page")
    compile_templates()


TITLES_PATH = "/titles"
_TITLES = 6
_MAX_CHARACTERS = 80


def titles_route(options: AppOptions) -> Route:
    """GET /titles?index=NAME&text=TEXT: a few titles that match, with the addresses of their articles.

    None for a text that is too short or too long, and for an index that cannot be opened.
    """

    def titles(request: Request) -> JSONResponse:  # in a thread, because it is not async
        text = " ".join(request.query_params.get("text", "").split())
        name = request.query_params.get("index", "") or options.index.resolve().name
        index = list_indexes(options.index).get(name)
        if index is None or not 2 <= len(text) <= _MAX_CHARACTERS:
            return JSONResponse([])
        try:
            service = services.SERVICES.open(index, options.pipelines_file, options.results)
            articles, _ = find_articles(service.index, text, _TITLES)
        except LinkseekError:  # the page shows what is wrong with the index
            return JSONResponse([])
        listed = [
            {"title": harmless(item.title), "address": article_address(item.id, name)} for item in articles
        ]
        return JSONResponse(listed)

    return Route(TITLES_PATH, titles)
