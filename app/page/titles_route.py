"""An address next to the pages: titles while a question is typed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from linkseek.app.background import services
from linkseek.app.context.titles import find_articles
from linkseek.app.page.context import AppOptions
from linkseek.app.rendering.addresses import article_address
from linkseek.app.service import list_indexes
from linkseek.indexer.program.errors import LinkseekError
from linkseek.indexer.program.text import harmless

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
            {"title": harmless(each.title), "address": article_address(each.id, name)} for each in articles
        ]
        return JSONResponse(listed)

    return Route(TITLES_PATH, titles)
