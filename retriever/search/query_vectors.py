"""Vectors of questions that several stages of a search need: encoded once.

with encoded_once():              # around the stages
    first(queries, k)             # which calls query_vectors
    query_vectors(encode, texts)  # the same ones again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

Encode = Callable[..., NDArray[np.float32]]
"""Texts -> vectors, float32 [Q, d]; with `prompt=` for another prompt than the encoder's."""

_kept: ContextVar[dict[Any, NDArray[np.float32]] | None] = ContextVar("query vectors", default=None)


@contextmanager
def encoded_once() -> Iterator[None]:
    """Keep the vectors of `query_vectors` until the block ends, in this thread."""
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def query_vectors(
    encode: Encode, texts: Sequence[str], prompt: Mapping[str, str] | None = None
) -> NDArray[np.float32]:
    """The vectors of questions, float32 [Q, d]; not to be altered. prompt: of `recorded_prompt`."""
    prompt = prompt or {}
    kept, key = _kept.get(), (encode, tuple(texts), tuple(prompt.items()))
    if kept is None:
        return encode(texts, **prompt)
    if key not in kept:
        kept[key] = encode(texts, **prompt)
    return kept[key]
