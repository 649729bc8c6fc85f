"""Shared by all routes: their searching, JSON, and types of fields."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import orjson
from fastapi import Depends, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from linkseek.app.serving.searching import Notes, Searching
from linkseek.retriever.ranking import MAX_QUESTION_CHARACTERS


class Json(Response):
    """JSON by orjson, which writes texts of passages several times faster than Python's."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


class Body(BaseModel):
    """The body of a request. Fields of other versions of a client are ignored; null is an absent field."""

    model_config = ConfigDict(use_attribute_docstrings=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _known(cls, fields: Any) -> Any:
        """The fields that are set: clients send null for what their caller has not set."""
        if not isinstance(fields, dict):
            return fields
        return {name: fields[name] for name in cls.model_fields if fields.get(name) is not None}


class Error(BaseModel):
    """Every status of 400 and more."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    error: str
    """a sentence"""


# FastAPI would run functions that are not async in a thread


async def _searching(request: Request) -> Searching:
    searching: Searching = request.app.state.searching
    return searching


async def _notes(request: Request) -> Notes:
    notes: Notes = request.state.notes
    return notes


Searches = Annotated[Searching, Depends(_searching)]
Noted = Annotated[Notes, Depends(_notes)]

K = Annotated[int, Field(ge=1, le=100_000)]
"""Passages of a question; `--max-k` limits them further."""
Question = Annotated[str, Field(max_length=MAX_QUESTION_CHARACTERS)]
Name = Annotated[str, Field(max_length=200)]
Id = Annotated[str, Field(max_length=2_000)]

T = TypeVar("T")
Many = Annotated[list[T], Field(max_length=100_000, fail_fast=True)]
"""A list, read to its first mistake; `--max-questions` limits it further."""


def _cut(text: Any) -> Any:
    return "" if text is None else text[:MAX_QUESTION_CHARACTERS] if isinstance(text, str) else text


BatchQuestion = Annotated[str, BeforeValidator(_cut)]
"""A question that must not fail its batch: null is empty, and one that is too long is cut."""
