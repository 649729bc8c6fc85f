"""Records that are written to JSON and read again, checked key by key."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer


class JsonRecord(BaseModel):
    """Immutable and complete: unknown keys, other types, NaN and infinity are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_by_name=True,
        validate_by_alias=True, serialize_by_alias=True,
    )  # fmt: skip


class Sparse(JsonRecord):
    """A record that is written without the keys that have no value."""

    @model_serializer(mode="wrap")
    def _without_none(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None}


def first_fault(error: ValidationError) -> str:
    """The first key of a record that is invalid, and why."""
    first = error.errors(include_url=False, include_input=False)[0]
    place, reason = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
    return f"{place}: {reason}" if place else reason
