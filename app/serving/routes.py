"""Linkseek's own routes, and the common parts of all routes: searching, JSON, and types of fields.

Any pipeline, evidence and explanations, documents with their links; whether the service lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated, Any, NotRequired, TypeVar

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from typing_extensions import TypedDict

from linkseek.app.context.evidence import LinkEvidence
from linkseek.app.pipelines.filters import read_filter, values_by_name
from linkseek.app.serving import reading
from linkseek.app.serving.gate import problem
from linkseek.app.serving.indexes import PipelinesReply
from linkseek.app.serving.searching import EXTRAS, Notes, Searching
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import nearest
from linkseek.retriever.ranking import MAX_QUESTION_CHARACTERS
from linkseek.retriever.search.explanation import Explanation
from linkseek.retriever.search.query_words import Span


class Json(Response):
    """JSON by orjson, which writes texts of passages several times faster than Python's."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body as JSON."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


class Body(BaseModel):
    """The body of a request. Fields of other versions of a client are ignored; null is an absent field."""

    model_config = ConfigDict(use_attribute_docstrings=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _known(cls, fields: Any) -> Any:
        """The fields that are set: clients send null for fields that their caller has not set."""
        if not isinstance(fields, dict):
            return fields
        return {name: fields[name] for name in cls.model_fields if fields.get(name) is not None}


class UnknownFieldError(UsageError):
    """A field or parameter that a route of Linkseek's own does not know."""


class OwnBody(Body):
    """The body of a route of Linkseek's own, whose fields are all known."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_others(cls, fields: Any) -> Any:
        check_names(fields, cls.model_fields)
        return fields


def check_names(given: Any, known: Collection[str]) -> None:
    """Raises `UnknownFieldError` for a name that is not known, with the known one that is near to it."""
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            raise UnknownFieldError(f'there is no "{name[:100]}"', nearest(name[:100], known))


# FastAPI would run functions that are not async in a thread


async def _known_parameters(request: Request) -> None:
    check_names(request.query_params, {item.name for item in request.scope["route"].dependant.query_params})


async def _searching(request: Request) -> Searching:
    searching: Searching = request.app.state.searching
    return searching


async def _notes(request: Request) -> Notes:
    notes: Notes = request.state.notes
    return notes


router = APIRouter(tags=["linkseek"], dependencies=[Depends(_known_parameters)])
operations = APIRouter(tags=["operations"])

Searches = Annotated[Searching, Depends(_searching)]
Noted = Annotated[Notes, Depends(_notes)]

K = Annotated[int, Field(ge=1, le=100_000, json_schema_extra={"x-limit": "max_k"})]
"""Passages of a question; `--max-k` limits them further."""
Question = Annotated[str, Field(max_length=MAX_QUESTION_CHARACTERS)]
Name = Annotated[str, Field(max_length=200)]
Id = Annotated[str, Field(max_length=2_000)]

T = TypeVar("T")
Many = Annotated[
    list[T], Field(max_length=100_000, fail_fast=True, json_schema_extra={"x-limit": "max_questions"})
]
"""A list, read to its first mistake; `--max-questions` limits it further."""


def _cut(text: Any) -> Any:
    return "" if text is None else text[:MAX_QUESTION_CHARACTERS] if isinstance(text, str) else text


BatchQuestion = Annotated[str, BeforeValidator(_cut)]
"""A question that must not fail its batch: null is empty, and one that is too long is cut."""


_SHOWN = ("rank", "score", "document_id", "title", "section", "text", "url")
_MAX_EXPLAINED = 100
_MAX_AT_ONCE = 1000
"""Passages that become JSON in the event loop, which others wait for."""

Conditions = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=300)], ...], Field(max_length=100, fail_fast=True)
]

_Index = Annotated[
    str | None, Query(max_length=200, description="the name of an index, by default the first")
]


class Search(OwnBody):
    """A search by any pipeline."""

    questions: Many[Question]
    """the questions; an empty question has no results"""
    k: K = 10
    """the number of passages for each question"""
    offset: Annotated[int, Field(ge=0, le=100_000)] = 0
    """the number of first passages to skip, for further pages; beyond place 100 a fusion reads more
    results, and its pages may repeat passages
    """
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


class HitReply(reading.Named):
    """A passage with its rank and score."""

    rank: int
    score: float
    document_id: str
    section: str
    """the headings above the passage, unless its title has them"""
    text: str
    url: str
    highlights: NotRequired[list[Span]]
    """the words of the question: [start, end] in characters of the text"""
    evidence: NotRequired[LinkEvidence]
    explanation: NotRequired[Explanation | None]


class QuestionReply(TypedDict):
    """The passages of one question."""

    question: str
    hits: list[HitReply]
    total: int | None
    """passages of all pages, where these are the last; null where others may follow"""
    milliseconds: dict[str, float]
    """the time of each stage"""
    partial: list[str]
    """partitions of the index without an answer"""
    excluded_documents: NotRequired[int]
    """the number of documents that the filter excludes"""


class SearchReply(TypedDict):
    """The passages of each question."""

    index: str
    pipeline: str
    answers: list[QuestionReply]


@router.post("/search", response_model=SearchReply)
async def search(body: Search, searches: Searches, notes: Noted) -> Json:
    """The passages of each question, the milliseconds of each stage, and partitions without an answer."""
    depth = body.offset + body.k
    if (body.evidence or body.explain) and (count := depth * len(body.questions)) > _MAX_EXPLAINED:
        raise UsageError(
            f"evidence or explanations for {count:,} passages", f"At most {_MAX_EXPLAINED} in one request."
        )
    only, extras = read_filter(body.only), frozenset(name for name in EXTRAS if getattr(body, name))
    found = await searches.ask(
        body.questions, depth, body.index, body.pipeline, only=only, extras=extras, notes=notes
    )

    def shown() -> list[dict[str, Any]]:
        return [
            {
                "question": question,
                "hits": [
                    {"id": hit.passage_id} | {name: getattr(hit, name) for name in _SHOWN} | hit.extras
                    for hit in one.hits[body.offset :]
                ],
                "total": len(one.hits) if len(one.hits) < depth and not one.missing else None,
                "milliseconds": {stage: round(1000 * seconds, 3) for stage, seconds in one.stages.items()},
                "partial": list(one.missing),
            }
            | ({"excluded_documents": one.excluded} if only else {})
            for question, one in zip(body.questions, found, strict=True)
        ]

    many = depth * len(body.questions) > _MAX_AT_ONCE
    answers = await asyncio.to_thread(shown) if many else shown()
    return Json({"index": notes["index"], "pipeline": notes["pipeline"], "answers": answers})


@router.get("/search", response_model=SearchReply)
async def search_one(
    q: Annotated[Question, Query(description="a question")],
    searches: Searches,
    notes: Noted,
    k: Annotated[K, Query()] = 10,
    offset: Annotated[int, Query(ge=0, le=100_000)] = 0,
    pipeline: Annotated[Name | None, Query()] = None,
    only: Annotated[Conditions, Query()] = (),
    index: _Index = None,
) -> Json:
    """The passages of one question, as POST /search gives them, for the address bar of a browser."""
    body = Search(questions=[q], k=k, offset=offset, pipeline=pipeline, only=only, index=index)
    return await search(body, searches, notes)


@router.get("/passages/{id:path}", response_model=reading.PassageReply)
async def passage(id: Annotated[Id, Path()], searches: Searches, index: _Index = None) -> Json:
    """A passage: its text, its place in its document, its links."""
    return Json(await _read(searches, index, partial(reading.passage, id_=id)))


@router.get("/documents/{id:path}", response_model=reading.DocumentReply)
async def document(id: Annotated[Id, Path()], searches: Searches, index: _Index = None) -> Json:
    """A document: its text, the ids of its passages, its links, and the passages that link to it."""
    return Json(await _read(searches, index, partial(reading.document, id_=id)))


async def _read(searches: Searches, index: str | None, read: Any) -> Any:
    return await asyncio.to_thread(searches.indexes.named(index).with_newest, read)


@router.get("/pipelines", response_model=PipelinesReply)
async def pipelines(searches: Searches) -> Json:
    """The pipelines of each index, the default first, each with a short description."""
    return Json(searches.indexes.described())


class FiltersReply(TypedDict):
    """Name -> values that some documents have and others lack, the commonest first."""

    filters: dict[str, list[str]]


@router.get("/filters", response_model=FiltersReply)
async def filters(searches: Searches, index: _Index = None) -> Json:
    """The names of filters for `only`, each with values that some documents have, the commonest first."""
    conditions = await _read(searches, index, lambda service: service.conditions)
    return Json({"filters": values_by_name(conditions)})


# --- operations: whether the service lives, whether it is ready, and its counts ---------------------


class StatusReply(TypedDict):
    """The status of the process, or of its pipelines."""

    status: str


_OPEN: dict[str, Any] = {"security": []}


@operations.get("/health", response_model=StatusReply, openapi_extra=_OPEN)
async def health() -> Json:
    """Whether the process lives; needs no token."""
    return Json({"status": "ok"})


@operations.get("/ready", response_model=StatusReply, openapi_extra=_OPEN)
async def ready(request: Request, searches: Searches) -> Response:
    """Whether the pipelines of requests that name none are open (else 503); needs no token."""
    if searches.indexes.is_ready:
        return Json({"status": "ready"})
    text = "The pipelines are being opened. Ask again in a second."
    return problem(request.state.path, "not_ready", text, {"retry-after": "1"})


@operations.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """The counts of the service, for Prometheus."""
    return PlainTextResponse(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")


@operations.get("/", include_in_schema=False)
async def page() -> HTMLResponse:
    """The routes for people, from the OpenAPI description."""
    return HTMLResponse(_PAGE.read_text("utf-8"))


_PAGE = FilePath(__file__).with_name("api.html")
