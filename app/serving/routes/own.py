"""Linkseek's own routes: any pipeline, evidence and explanations, documents with their links, titles."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import StringConstraints

from linkseek.app.filters import Filter, read_filter
from linkseek.app.service import SearchService
from linkseek.app.serving import reading
from linkseek.app.serving.routes.shared import Body, Id, Json, K, Name, Noted, Question, Searches
from linkseek.app.serving.searching import Found
from linkseek.indexer.base.errors import UsageError
from linkseek.retriever.search.query_words import matched_spans

router = APIRouter(tags=["linkseek"])

_MAX_EXPLAINED = 100

Conditions = tuple[Annotated[str, StringConstraints(max_length=300)], ...]

_Index = Annotated[
    str | None, Query(max_length=200, description="the name of an index, by default the first")
]


class Search(Body):
    """A search by any pipeline."""

    questions: list[Question]
    """questions; an empty one has no results"""
    k: K = 10
    """passages of each"""
    index: Name | None = None
    """the name of an index, by default the first"""
    pipeline: Name | None = None
    """one of /pipelines, by default the pipeline of the service"""
    only: Conditions = ()
    """only documents of a folder, namespace or value of the metadata, as NAME:VALUE: folder:docs/how-to"""
    highlights: bool = False
    """mark the words of the question: [start, end] in characters of the text"""
    evidence: bool = False
    """add the links around each passage: entities of the question, dual links, co-mentions"""
    explain: bool = False
    """add the parts of each score: words of BM25, pipelines of a fusion, models, features"""


@router.post("/search")
async def search(body: Search, searches: Searches, notes: Noted) -> Json:
    """The passages of each question, the milliseconds of each stage, and partitions without an answer."""
    if (body.evidence or body.explain) and (count := body.k * len(body.questions)) > _MAX_EXPLAINED:
        raise UsageError(
            f"evidence or explanations for {count:,} passages", f"At most {_MAX_EXPLAINED} in one request."
        )
    only = read_filter(body.only)
    found = await searches.ask(body.questions, body.k, body.index, body.pipeline, only=only, notes=notes)
    served = searches.indexes.named(body.index)
    name = served.pipeline_name(body.pipeline)

    def answers(service: SearchService) -> list[dict[str, Any]]:
        return [
            _answer(service, question, one, name, body, only)
            for question, one in zip(body.questions, found, strict=True)
        ]

    if body.highlights or body.evidence or body.explain:
        listed = await asyncio.to_thread(served.with_newest, answers)
    else:
        listed = answers(served.service)
    return Json({"index": served.name, "pipeline": name, "answers": listed})


def _answer(
    service: SearchService, question: str, found: Found, pipeline: str, body: Search, only: Filter
) -> dict[str, Any]:
    hits: list[dict[str, Any]] = []
    for rank, hit in enumerate(found.hits, start=1):
        shown: dict[str, Any] = {
            "rank": rank,
            "score": hit.score,
            "id": hit.passage.id,
            "document_id": hit.passage.document_id,
            "title": hit.passage.title,
            "text": hit.passage.text,
            "url": hit.url,
        }
        if body.highlights:
            shown["highlights"] = matched_spans(question, hit.passage.text, service.index.language)
        if body.evidence:
            shown["evidence"] = asdict(service.why(question, hit.passage.id).links)
        if body.explain:
            depth = min(body.k, len(service.index.passages))
            shown["explanation"] = service.explain(question, hit.passage.id, pipeline, depth, only)
        hits.append(shown)
    return {
        "question": question,
        "hits": hits,
        "milliseconds": {stage: round(1000 * seconds, 3) for stage, seconds in found.stages.items()},
        "partial": list(found.missing),
    } | ({"left_out": found.left_out} if only else {})


@router.get("/passages/{id:path}")
async def passage(id: Annotated[Id, Path()], searches: Searches, index: _Index = None) -> Json:
    """A passage: its text, its place in its document, its links."""
    return Json(await _read(searches, index, partial(reading.passage, id_=id)))


@router.get("/documents/{id:path}")
async def document(id: Annotated[Id, Path()], searches: Searches, index: _Index = None) -> Json:
    """A document: its text, the ids of its passages, its links, and the passages that link to it."""
    return Json(await _read(searches, index, partial(reading.document, id_=id)))


@router.get("/suggest")
async def suggest(
    text: Annotated[str, Query(max_length=200)],
    searches: Searches,
    k: Annotated[int, Query(ge=1, le=100)] = 10,
    index: _Index = None,
) -> Json:
    """Titles that match what was typed so far, the number of all matches, and the text as it may be meant."""
    return Json(await _read(searches, index, partial(reading.suggest, text=text, k=k)))


async def _read(searches: Searches, index: str | None, read: Any) -> Any:
    return await asyncio.to_thread(searches.indexes.named(index).with_newest, read)


@router.get("/pipelines")
async def pipelines(searches: Searches) -> Json:
    """The pipelines of each index, the default first, each with a few words on what it does."""
    listed = {}
    for name, served in searches.indexes.all.items():
        default = served.pipeline_name(None)
        names = dict.fromkeys([default, *served.pipelines])
        listed[name] = {one: served.service.pipelines.describe(one) for one in names}
    return Json({"indexes": listed})
