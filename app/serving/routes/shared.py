"""Shared by all routes: their searching, JSON, and types of fields."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import Depends, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from linkseek.app.serving.models import ModelsAtHand
from linkseek.app.serving.searching import Notes, Searching


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
    def _without_nulls(cls, fields: Any) -> Any:
        """Clients send null for what their caller has not set."""
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


def _checked_texts(value: Any) -> Any:
    """One error where the two types of `Texts` would give one for each."""
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return value
    raise PydanticCustomError("texts", "a text or a list of texts is needed, and no ids of tokens")


OneOrMoreTexts = BeforeValidator(_checked_texts)
"""Checks a field of the type `str | list[str]`."""


class Error(BaseModel):
    """Every status of 400 and more."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    error: str | dict[str, str]
    """a sentence; where OpenAI's clients ask, an object with it as message"""


# FastAPI would run functions that are not async in a thread


async def _searching(request: Request) -> Searching:
    searching: Searching = request.app.state.searching
    return searching


async def _models(request: Request) -> ModelsAtHand:
    models: ModelsAtHand = request.app.state.models
    return models


async def _notes(request: Request) -> Notes:
    notes: Notes = request.state.notes
    return notes


Searches = Annotated[Searching, Depends(_searching)]
Models = Annotated[ModelsAtHand, Depends(_models)]
Noted = Annotated[Notes, Depends(_notes)]

K = Annotated[int, Field(ge=1, le=100_000)]
"""Passages of a question; `--max-k` limits them further."""
Question = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]
Id = Annotated[str, Field(max_length=2_000)]
