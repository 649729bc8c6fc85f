"""Times the stages of a search for those who ask; otherwise nothing is recorded.

    with stage("encode question"):            # in a searcher
        ...
    with recorded_stages() as seconds:        # around a search
        pipeline(queries, k)
    seconds["encode question"]                # in the order in which stages first ended

Stages do not nest, so they add up to the search except for the code between them. A stage that runs several
times (two members of a fusion search Lucene) counts with the sum.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_recorded: ContextVar[dict[str, float] | None] = ContextVar("stages", default=None)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time a part of a search under this name; also as a decorator."""
    seconds = _recorded.get()
    if seconds is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began


@contextmanager
def recorded_stages() -> Iterator[dict[str, float]]:
    """Seconds by stage of the block, in this thread; complete when the block ends."""
    seconds: dict[str, float] = {}
    token = _recorded.set(seconds)
    try:
        yield seconds
    finally:
        _recorded.reset(token)
