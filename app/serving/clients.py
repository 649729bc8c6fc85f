"""The contracts of other projects' clients: search agents, those who train them, and Anserini's.

Search-R1's is at the root, where verl, slime, SkyRL, NeMo RL and verl-agent expect it, and so is ASearcher's
`/access`. `/retrieve` means different bodies elsewhere, so the others have a prefix: a client's base address
is then `http://HOST:8000/PREFIX`. Anserini's REST contract is version 1 (its usage-rest.md).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Literal, NotRequired

from fastapi import APIRouter, Path, Query
from pydantic import Field
from typing_extensions import TypedDict

from linkseek.app.answers import Answer, AnswerHit
from linkseek.app.service import SearchService
from linkseek.app.serving import reading
from linkseek.app.serving.routes import BatchQuestion, Body, Json, K, Many, Noted, Searches, StatusReply
from linkseek.app.serving.searching import Searching
from linkseek.indexer.program.errors import UsageError

router = APIRouter(tags=["agents"])
anserini = APIRouter(tags=["anserini"])

_TOPK = 3
_MAX_URLS = 256

Result = Literal["result"]


class Retrieve(Body):
    """Search-R1's request."""

    queries: Many[BatchQuestion]
    """questions; an empty one or null has no results, and of a longer one 10,000 characters are read"""
    topk: K | None = None
    """the number of passages for each question, 3 by default"""
    return_scores: bool | None = False
    """answer {"document", "score"} instead of only documents"""
    topk_retrieval: K | None = None
    """for a pipeline that re-ranks: number of first-stage results to re-rank"""
    topk_rerank: K | None = None
    """with topk_retrieval: the number of passages for each question"""


class ContentsReply(TypedDict):
    """A passage. contents: the title in double quotes, a line end, and the text."""

    id: str
    contents: str
    url: NotRequired[str]


class ScoredReply(TypedDict):
    """A passage and its score; with a re-ranker, its contents alone."""

    document: ContentsReply | str
    score: float


@router.post("/retrieve", response_model=dict[Result, list[list[ContentsReply | str | ScoredReply]]])
async def retrieve(body: Retrieve, searches: Searches, notes: Noted) -> Json:
    """Search-R1, verl, slime, SkyRL, NeMo RL, verl-agent, ASearcher: passages of each question.

    A document is {"id", "contents", "url"}; contents is the title in double quotes, a line end, and the text.
    With topk_retrieval, as for Search-R1's server with a re-ranker, a document is only its contents.
    """
    if body.topk_retrieval is None and body.topk_rerank is None:
        found, form = await searches.ask(body.queries, body.topk or _TOPK, notes=notes), _document
    else:
        k, form = body.topk_rerank or _TOPK, lambda hit: hit.contents
        found = await searches.ask(body.queries, k, candidates=max(body.topk_retrieval or 10, k), notes=notes)
    return Json({"result": [_scored(one, [*map(form, one.hits)], body.return_scores) for one in found]})


def _scored(found: Answer, documents: list[Any], scores: bool | None) -> list[Any]:
    if not scores:
        return documents
    pairs = zip(documents, found.hits, strict=True)
    return [{"document": document, "score": hit.score} for document, hit in pairs]


def _document(hit: AnswerHit) -> Any:
    return {"id": hit.passage_id, "contents": hit.contents, "url": hit.url or hit.document_id}


class Access(Body):
    """ASearcher's request for pages."""

    urls: Annotated[Many[BatchQuestion], Field(max_length=_MAX_URLS)]
    """addresses, ids or titles of documents"""


@router.post("/access", response_model=dict[Result, list[reading.ASearcherPage | None]])
async def access(body: Access, searches: Searches) -> Json:
    """ASearcher: the page behind each link, null for one that is not in the index."""

    def read(service: SearchService) -> list[reading.ASearcherPage | None]:
        return [reading.page(service, url) for url in body.urls]

    return Json({"result": await asyncio.to_thread(searches.indexes.named().with_newest, read)})


class ZeroSearch(Body):
    """ZeroSearch's request in its wiki mode."""

    query: BatchQuestion
    top_k: K = 5


@router.post("/zerosearch/retrieve", response_model=list[dict[Literal["text"], str]])
async def zerosearch(body: ZeroSearch, searches: Searches, notes: Noted) -> Json:
    """ZeroSearch: passages of one question."""
    [found] = await searches.ask([body.query], body.top_k, notes=notes)
    return Json([{"text": hit.contents} for hit in found.hits])


class Rllm(Body):
    """rllm's request."""

    query: BatchQuestion
    top_k: K = 10
    k: K | None = None
    """the same as top_k, over which it wins"""


class RllmReply(TypedDict):
    """Passages for rllm. method: the pipeline."""

    query: str
    method: str
    results: list[dict[Literal["id", "content", "score"], str | float]]
    num_results: int


@router.post("/rllm/retrieve", response_model=RllmReply)
async def rllm(body: Rllm, searches: Searches, notes: Noted) -> Json:
    """rllm: passages of one question."""
    [found] = await searches.ask([body.query], body.k or body.top_k, notes=notes)
    results = [{"id": hit.passage_id, "content": hit.contents, "score": hit.score} for hit in found.hits]
    return Json(
        {"query": body.query, "method": notes["pipeline"], "results": results, "num_results": len(results)}
    )


@router.get("/rllm/health", response_model=StatusReply, name="rllm_health")
@router.get("/flashrag/health", response_model=StatusReply, name="flashrag_health")
async def health() -> Json:
    """rllm, ReSearch: whether the service answers, below the address that these clients are given."""
    return Json({"status": "healthy"})


class FlashRag(Body):
    """The request of ReSearch, ReCall, SmartSearch and AutoTIR, which serve FlashRAG's retrievers."""

    query: BatchQuestion
    top_n: K = 10
    return_score: bool = False


class FlashRagBatch(Body):
    """FlashRAG's request for several questions."""

    query: Many[BatchQuestion]
    top_n: K = 10
    return_score: bool = False


Plain = list[ContentsReply]
WithScores = tuple[list[ContentsReply], list[float]]
ManyWithScores = tuple[list[list[ContentsReply]], list[list[float]]]


@router.post("/flashrag/search", response_model=Plain | WithScores)
async def flashrag(body: FlashRag, searches: Searches, notes: Noted) -> Json:
    """ReSearch, ReCall, SmartSearch, AutoTIR: passages of one question; with scores [documents, scores]."""
    [found] = await searches.ask([body.query], body.top_n, notes=notes)
    return Json(_flashrag(found, body.return_score))


@router.post("/flashrag/batch_search", response_model=list[Plain] | ManyWithScores)
async def flashrag_batch(body: FlashRagBatch, searches: Searches, notes: Noted) -> Json:
    """For several questions: a list of these; with scores [lists of documents, lists of scores]."""
    answers = [
        _flashrag(one, body.return_score) for one in await searches.ask(body.query, body.top_n, notes=notes)
    ]
    return Json(
        [list(part) for part in zip(*answers, strict=True)] or [[], []] if body.return_score else answers
    )


def _flashrag(found: Answer, scores: bool) -> list[Any]:
    documents = [{"id": hit.passage_id, "contents": hit.contents} for hit in found.hits]
    return [documents, [hit.score for hit in found.hits]] if scores else documents


class Queries(Body):
    """R1-Searcher's request."""

    queries: Many[BatchQuestion]
    k: K = 5


@router.post("/r1-searcher/queries", response_model=dict[Literal["answers"], list[list[str]]])
async def r1_searcher(body: Queries, searches: Searches, notes: Noted) -> Json:
    """R1-Searcher: the texts of each question's passages."""
    found = await searches.ask(body.queries, body.k, notes=notes)
    return Json({"answers": [[hit.contents for hit in answer.hits] for answer in found]})


class Scaling(Body):
    """retrieval-scaling's request."""

    query: BatchQuestion | Many[BatchQuestion]
    n_docs: K = 10
    domains: str | None = None
    """ignored: the index that is served is the domain"""


class ScalingReply(TypedDict):
    """The answer of retrieval-scaling."""

    message: str
    query: str | list[str]
    n_docs: int
    results: dict[Literal["results"], dict[Literal["IDs", "passages", "scores"], list[list[str | float]]]]


@router.post("/retrieval-scaling/search", response_model=ScalingReply)
async def retrieval_scaling(body: Scaling, searches: Searches, notes: Noted) -> Json:
    """retrieval-scaling (MassiveDS): ids, passages and scores in lists of a list for each question."""
    questions = [body.query] if isinstance(body.query, str) else body.query
    found = await searches.ask(questions, body.n_docs, notes=notes)
    results = {
        "IDs": [[hit.passage_id for hit in answer.hits] for answer in found],
        "passages": [[hit.contents for hit in answer.hits] for answer in found],
        "scores": [[hit.score for hit in answer.hits] for answer in found],
    }
    answer = {"message": "Search completed", "query": body.query, "n_docs": body.n_docs}
    return Json(answer | {"results": {"results": results}})


# --- Anserini, Pyserini ----------------------------------------------------------------------------


_IndexPath = Annotated[str, Path(max_length=200, description="the name of an index")]


class AnseriniCandidate(TypedDict):
    """A passage for Anserini's clients."""

    docid: str
    score: float
    rank: int
    doc: reading.Titled | str


class AnseriniCandidates(TypedDict):
    """The passages of one question."""

    api: str
    index: str
    query: dict[Literal["text"], str]
    candidates: list[AnseriniCandidate]


class AnseriniDocument(TypedDict):
    """One passage or document."""

    api: str
    index: str
    docid: str
    doc: reading.Titled | str


@anserini.get("/v1/{index}/search", response_model=AnseriniCandidates)
async def anserini_search(
    index: _IndexPath,
    query: Annotated[str, Query(min_length=1, max_length=10_000)],
    searches: Searches,
    notes: Noted,
    hits: Annotated[int, Query(ge=1, le=100_000)] = 10,
    parse: Annotated[bool, Query(description="whether doc is an object, or only the text")] = True,
    max_doc_length: Annotated[int | None, Query(ge=1, description="characters of each text")] = None,
    k1: Annotated[float | None, Query(description="if given, must be the k1 of the pipeline")] = None,
    b: Annotated[float | None, Query(description="if given, must be the b of the pipeline")] = None,
) -> Json:
    """Anserini, Pyserini: the passages of one question, by the pipeline of the service."""
    _check_parameters(searches, index, {"k1": k1, "b": b})
    [found] = await searches.ask([query], hits, index, notes=notes)
    candidates = [
        {
            "docid": hit.passage_id,
            "score": hit.score,
            "rank": rank,
            "doc": _doc(hit.passage_id, hit.heading, hit.text[:max_doc_length], parse),
        }
        for rank, hit in enumerate(found.hits, start=1)
    ]
    return Json({"api": "v1", "index": index, "query": {"text": query}, "candidates": candidates})


def _check_parameters(searches: Searching, index: str, given: dict[str, float | None]) -> None:
    """Raises `UsageError` for parameters other than the pipeline's."""
    served = searches.indexes.named(index)
    name = served.pipeline_name(None)
    entry = served.service.pipelines.entries[name]
    for parameter, value in given.items():
        if value is not None and value != getattr(entry, parameter, None):
            raise UsageError(
                f'the pipeline "{name}" does not search with {parameter} = {value:g}',
                f"Omit {parameter}, or serve a pipeline that has it: --pipelines-file.",
            )


@anserini.get("/v1/{index}/doc/{docid:path}", response_model=AnseriniDocument)
async def anserini_doc(
    index: _IndexPath,
    docid: Annotated[str, Path(max_length=2_000)],
    searches: Searches,
    parse: Annotated[bool, Query()] = True,
) -> Json:
    """Anserini, Pyserini: one passage or document by its id."""
    found = await asyncio.to_thread(
        searches.indexes.named(index).with_newest, partial(reading.passage_or_document, id_=docid)
    )
    text = _doc(found["id"], found["title"], found["text"], parse)
    return Json({"api": "v1", "index": index, "docid": docid, "doc": text})


def _doc(id_: str, title: str, text: str, parse: bool) -> Any:
    return {"id": id_, "title": title, "contents": text} if parse else text
