"""Addresses next to the pages: the files of the search page, and titles while a question is typed."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from linkseek.app.background import services
from linkseek.app.context.titles import find_articles
from linkseek.app.page.context import AppOptions
from linkseek.app.pipelines.filters import read_filter
from linkseek.app.rendering import exports
from linkseek.app.rendering.addresses import EXPORT, SearchView, article_address, read_search_view
from linkseek.app.service import SearchService, list_indexes
from linkseek.indexer.program.errors import LinkseekError, UsageError
from linkseek.indexer.program.text import harmless

TITLES_PATH = "/titles"
_TITLES = 6
_MAX_CHARACTERS = 80


def export_route(options: AppOptions) -> Route:
    """GET /export/FILE?ADDRESS: `exports.TSV`, `exports.JSON`, or PIPELINE.run, as the page has them.

    ADDRESS: the parameters of a view of the search page; the question is searched again. 404 for another
    file or index, 400 with a sentence for a question or pipeline that cannot be searched.
    """

    def export(request: Request) -> Response:  # in a thread, because it is not async
        params = parse_qs(request.url.query)
        name = params.get("index", [options.index.resolve().name])[0]
        index = list_indexes(options.index).get(name)
        if index is None:
            return PlainTextResponse("There is no such index.\n", 404)
        try:
            service = services.SERVICES.open(index, options.pipelines_file, options.results)
            view = read_search_view(params, service.pipelines.available(), ())
            return _file(service, view, request.path_params["file"])
        except LinkseekError as error:
            return PlainTextResponse(f"{error}\n", 400 if isinstance(error, UsageError) else 503)

    return Route(f"/{EXPORT}/{{file}}", export)


def _file(service: SearchService, view: SearchView, file: str) -> Response:
    chosen = [name for name in view.pipelines if file in (exports.TSV, exports.JSON, exports.run_name(name))]
    if not chosen:
        return PlainTextResponse("There is no such file, or its address names no pipeline.\n", 404)
    only = read_filter(view.only)
    answers = [service.search(view.question, name, view.k, only) for name in chosen]
    if file == exports.TSV:
        return Response(exports.tsv(answers), media_type="text/tab-separated-values")
    if file == exports.JSON:
        return Response(exports.json(answers), media_type="application/json")
    return Response(exports.trec_run(answers[0], service.index.passages.ids), media_type="text/plain")


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
