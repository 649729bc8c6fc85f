"""Linkseek's own routes: any pipeline, evidence and explanations, documents with their links, titles."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field, StringConstraints

from linkseek.app.pipelines.filters import Filter, read_filter
from linkseek.app.service import SearchService
from linkseek.app.serving import reading
from linkseek.app.serving.routes.shared import Body, Id, Json, K, Many, Name, Noted, Question, Searches
from linkseek.app.serving.searching import ServedHit
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.search.query_words import matched_spans

router = APIRouter(tags=["linkseek"])

_MAX_EXPLAINED = 100
_MAX_AT_ONCE = 1000
"""Passages that become JSON in the event loop, which others wait for."""

Conditions = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=300)], ...], Field(max_length=100, fail_fast=True)
]

_Index = Annotated[
    str | None, Query(max_length=200, description="the name of an index, by default the first")
]


class Search(Body):
    """A search by any pipeline."""

    questions: Many[Question]
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
    shown = [
        (question, rank, hit)
        for question, one in zip(body.questions, found, strict=True)
        for rank, hit in enumerate(one.hits, start=1)
    ]

    def show(hits: list[tuple[str, int, ServedHit]]) -> list[dict[str, Any]]:
        return served.with_newest(lambda new: [_shown(new, *one, name, body, only) for one in hits])

    if body.highlights or body.evidence or body.explain or len(shown) > _MAX_AT_ONCE:
        listed = iter(await searches.batches.run(("show", served.name), object(), shown, show))
    else:
        listed = iter(show(shown))
    answers = [
        {
            "question": question,
            "hits": list(islice(listed, len(one.hits))),
            "milliseconds": {stage: round(1000 * seconds, 3) for stage, seconds in one.stages.items()},
            "partial": list(one.missing),
        }
        | ({"left_out": one.left_out} if only else {})
        for question, one in zip(body.questions, found, strict=True)
    ]
    return Json({"index": served.name, "pipeline": name, "answers": answers})


def _shown(
    service: SearchService,
    question: str,
    rank: int,
    hit: ServedHit,
    pipeline: str,
    body: Search,
    only: Filter,
) -> dict[str, Any]:
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
    return shown


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
