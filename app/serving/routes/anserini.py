"""The REST contract of Anserini and Pyserini, version 1 (usage-rest.md of Anserini)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from linkseek.app.service import SearchService
from linkseek.app.serving import reading
from linkseek.app.serving.indexes import NoSuchNameError
from linkseek.app.serving.routes.shared import Json, Noted, Searches
from linkseek.app.serving.searching import Searching
from linkseek.indexer.program.errors import UsageError

router = APIRouter(tags=["anserini"])

_Index = Annotated[str, Path(max_length=200, description="the name of an index")]


@router.get("/v1/{index}/search")
async def search(
    index: _Index,
    query: Annotated[str, Query(min_length=1, max_length=10_000)],
    searches: Searches,
    notes: Noted,
    hits: Annotated[int, Query(ge=1, le=100_000)] = 10,
    parse: Annotated[bool, Query(description="whether doc is an object, or the text alone")] = True,
    max_doc_length: Annotated[int | None, Query(ge=1, description="characters of each text")] = None,
    k1: Annotated[float | None, Query(description="if given, must be the k1 of the pipeline")] = None,
    b: Annotated[float | None, Query(description="if given, must be the b of the pipeline")] = None,
) -> Json:
    """Anserini, Pyserini: the passages of one question, by the pipeline of the service."""
    _check_parameters(searches, index, {"k1": k1, "b": b})
    [found] = await searches.ask([query], hits, index, notes=notes)
    candidates = [
        {
            "docid": hit.passage.id,
            "score": hit.score,
            "rank": rank,
            "doc": _doc(hit.passage.id, hit.title, hit.passage.text[:max_doc_length], parse),
        }
        for rank, hit in enumerate(found.hits, start=1)
    ]
    return Json({"api": "v1", "index": index, "query": {"text": query}, "candidates": candidates})


def _check_parameters(searches: Searching, index: str, given: dict[str, float | None]) -> None:
    """Raises `UsageError` for other parameters than those that the pipeline searches with."""
    served = searches.indexes.named(index)
    name = served.pipeline_name(None)
    entry = served.service.pipelines.entries[name]
    for parameter, value in given.items():
        if value is not None and value != getattr(entry, parameter, None):
            raise UsageError(
                f'the pipeline "{name}" does not search with {parameter} = {value:g}',
                f"Leave out {parameter}, or serve a pipeline with it: --pipelines-file.",
            )


@router.get("/v1/{index}/doc/{docid:path}")
async def doc(
    index: _Index,
    docid: Annotated[str, Path(max_length=2_000)],
    searches: Searches,
    parse: Annotated[bool, Query()] = True,
) -> Json:
    """Anserini, Pyserini: one passage or document by its id."""
    found = await asyncio.to_thread(searches.indexes.named(index).with_newest, partial(_read, docid))
    text = _doc(found["id"], found["title"], found["text"], parse)
    return Json({"api": "v1", "index": index, "docid": docid, "doc": text})


def _read(id_: str, service: SearchService) -> dict[str, Any]:
    try:
        return reading.passage(service, id_)
    except NoSuchNameError:
        return reading.document(service, id_)


def _doc(id_: str, title: str, text: str, parse: bool) -> Any:
    return {"id": id_, "title": title, "contents": text} if parse else text
