"""Whether the service lives, whether it is ready, and its counts."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse

from linkseek.app.serving.routes.shared import Error, Json, Searches

router = APIRouter(tags=["operations"])


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health() -> Json:
    """Whether the process lives; needs no token."""
    return Json({"status": "ok"})


@router.head("/ready", include_in_schema=False)
@router.get("/ready", responses={503: {"model": Error}})
async def ready(searches: Searches) -> Json:
    """Whether the pipelines of requests that name none are open; needs no token."""
    if not searches.indexes.is_ready:
        return Json(
            {"error": "The pipelines are being opened. Ask again in a second."}, 503, {"retry-after": "1"}
        )
    return Json({"status": "ready"})


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request, searches: Searches) -> PlainTextResponse:
    """The counts of all processes, for Prometheus."""
    text = request.app.state.metrics.text(waiting=searches.batches.waiting)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@router.get("/", include_in_schema=False)
async def page() -> HTMLResponse:
    """The routes for people, from the OpenAPI description."""
    return HTMLResponse(_PAGE.read_text("utf-8"))


_PAGE = Path(__file__).parents[1] / "api.html"
