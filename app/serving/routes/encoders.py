"""Vectors and scores of the models at hand, in the forms of OpenAI, vLLM, Cohere and TEI."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import expit

from linkseek.app.serving.models import ModelsAtHand
from linkseek.app.serving.routes.shared import Body, Json, Models, Name, Noted, OneOrMoreTexts, Searches
from linkseek.app.serving.searching import Notes, Searching
from linkseek.indexer.base.errors import UsageError

router = APIRouter(tags=["models"])

_Text = Annotated[str, Field(max_length=1_000_000)]


class Embeddings(Body):
    """OpenAI's request."""

    model: Name | None = None
    """an encoder; by default the encoder of the first index with vectors"""
    input: Annotated[_Text | list[_Text], OneOrMoreTexts]
    """a text, or several"""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    """must be the encoder's, if given"""
    input_type: Literal["query", "document", "passage"] = "document"
    """whether the texts are questions, which some models encode in another way"""


@router.post("/v1/embeddings")
@router.post("/v3/embeddings")
async def embeddings(body: Embeddings, searches: Searches, models: Models, notes: Noted) -> Json:
    """OpenAI's embeddings: float32 vectors, as numbers or as base64 of little-endian floats."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    is_query = body.input_type == "query"
    name, vectors = await _vectors(searches, models, notes, body.model, texts, is_query)
    if len(vectors) and body.dimensions not in (None, len(vectors[0])):
        raise UsageError(f"{name} has {len(vectors[0])} dimensions", "Leave out dimensions.")
    data = [
        {"object": "embedding", "index": number, "embedding": _encoded(vector, body.encoding_format)}
        for number, vector in enumerate(vectors)
    ]
    return Json({"object": "list", "data": data, "model": name, "usage": _usage(texts)})


def _usage(texts: Sequence[str]) -> dict[str, int]:
    """The usage that clients book, in words, which need no tokenizer."""
    words = sum(len(text.split()) for text in texts)
    return {"prompt_tokens": words, "total_tokens": words}


def _encoded(vector: NDArray[np.float32], form: str) -> Any:
    return vector if form == "float" else base64.b64encode(vector.astype("<f4").tobytes()).decode()


class Embed(Body):
    """TEI's request for vectors."""

    inputs: Annotated[_Text | list[_Text], OneOrMoreTexts]


@router.post("/tei/embed")
async def embed(body: Embed, searches: Searches, models: Models, notes: Noted) -> Json:
    """text-embeddings-inference: a list of vectors."""
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    return Json((await _vectors(searches, models, notes, None, texts, False))[1])


async def _vectors(
    searches: Searching,
    models: ModelsAtHand,
    notes: Notes,
    model: str | None,
    texts: list[str],
    is_query: bool,
) -> tuple[str, list[NDArray[np.float32]]]:
    searches.check_count(len(texts), "texts")
    name = models.check_encoder(model)
    notes |= {"model": name, "texts": len(texts)}
    work = partial(models.embed, name, queries=is_query)
    return name, await searches.batches.run(("embed", name, is_query), texts, work)


class Document(Body):
    """A document as Cohere's clients send it."""

    text: _Text


class Rerank(Body):
    """The request of vLLM, Cohere, Jina, infinity and LiteLLM."""

    model: Name | None = None
    """a re-ranker; by default the re-ranker of the pipeline"""
    query: _Text
    documents: list[_Text | Document]
    """texts, or objects with a text"""
    top_n: Annotated[int, Field(ge=1)] | None = None
    """number of results, by default all"""
    return_documents: bool = False


@router.post("/rerank")
@router.post("/v1/rerank")
@router.post("/v2/rerank")
@router.post("/v3/rerank")
async def rerank(body: Rerank, request: Request, searches: Searches, models: Models, notes: Noted) -> Json:
    """vLLM, Cohere, Jina, OpenVINO Model Server: documents by how well they answer the query, best first.

    The relevance score is the model's own: of the included re-rankers any number, higher is better.
    """
    texts = [text if isinstance(text, str) else text.text for text in body.documents]
    name, scores = await _scores(searches, models, notes, body.model, body.query, texts)
    results = [
        {"index": number, "relevance_score": scores[number]}
        | ({"document": {"text": texts[number]}} if body.return_documents else {})
        for number in sorted(range(len(texts)), key=lambda number: (-scores[number], number))[: body.top_n]
    ]
    return Json(
        {"id": request.state.id, "model": name, "usage": _usage([body.query, *texts]), "results": results}
    )


class TeiRerank(Body):
    """TEI's request for scores."""

    query: _Text
    texts: list[_Text]
    raw_scores: bool = False
    """true: the model's own scores; else the logistic function of each, from 0 to 1"""
    return_text: bool = False


@router.post("/tei/rerank")
async def tei_rerank(body: TeiRerank, searches: Searches, models: Models, notes: Noted) -> Json:
    """text-embeddings-inference: the place of each text, and its score, best first."""
    _, scores = await _scores(searches, models, notes, None, body.query, body.texts)
    order = sorted(range(len(scores)), key=lambda number: (-scores[number], number))
    shown = scores if body.raw_scores else expit(scores).tolist()
    return Json([
        {"index": number, "score": shown[number]} | ({"text": body.texts[number]} if body.return_text else {})
        for number in order
    ])  # fmt: skip


async def _scores(
    searches: Searching, models: ModelsAtHand, notes: Notes, model: str | None, query: str, texts: list[str]
) -> tuple[str, list[float]]:
    searches.check_count(len(texts), "documents")
    name = models.check_reranker(model)
    notes |= {"model": name, "texts": len(texts)}
    pairs = [(query, text) for text in texts]
    return name, await searches.batches.run(("rerank", name), pairs, partial(models.score, name))


@router.get("/v1/models")
async def list_models(models: Models) -> Json:
    """OpenAI's list: the encoders and re-rankers that requests may name."""
    kinds = {"encoder": models.encoders, "re-ranker": models.rerankers}
    data = [
        {"id": name, "object": "model", "owned_by": "linkseek", "kind": kind}
        for kind, named in kinds.items()
        for name in named
    ]
    return Json({"object": "list", "data": data})
