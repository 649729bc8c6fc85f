"""Draws candidates and reads their texts, in this process or several.

The seed alone decides which candidates are drawn and what they become: one process draws, and any number of
processes read texts, the same candidates together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from linkseek.indexer.machine.cluster import worker_pool
from linkseek.indexer.program.errors import MachineError
from linkseek.retriever.mining.objective import Draws, Rows

_CHUNK = 500  # candidates read together; HARP's encoder makes batches of them
_MAX_DRAW = 1 << 62

T = TypeVar("T")


def draw_results(
    candidates: Rows,
    limit: int,
    generator: np.random.Generator,
    read: Callable[[Rows, Draws], Iterable[T | None]],
) -> Iterator[T]:
    """Draw up to `limit` random candidates without repetition, and return their results.

    A candidate whose result is None is replaced by another while there are any.
    """
    order = generator.permutation(len(candidates))
    start = count = 0
    while count < limit and start < len(order):
        missing = limit - count
        drawn = candidates[np.sort(order[start : start + missing])]
        start += missing
        for result in read(drawn, generator.integers(0, _MAX_DRAW, len(drawn))):
            if result is not None:
                count += 1
                yield result


@contextmanager
def open_readers(
    opened: Any, reopen: Callable[[], Any], read: Callable[..., T], processes: int
) -> Iterator[Callable[[Iterable[tuple[Any, ...]]], Iterator[T]]]:
    """Return a function that maps calls (tuples of arguments) to results of read(index, *call), in order.

    opened: the index, or a view of it. reopen: opens the same in each of several processes; it is pickled
    once for each, and so is read. Raises `MachineError` if one is ended.
    """
    if processes == 1:
        yield lambda calls: (read(opened, *call) for call in calls)
        return
    with worker_pool(processes, _open, (reopen, read)) as pool:

        def read_in_pool(calls: Iterable[tuple[Any, ...]]) -> Iterator[T]:
            try:
                yield from pool.map(_read_call, calls)
            except BrokenProcessPool:
                raise MachineError(
                    "a process that reads texts was ended (out of memory?)", "Use fewer --processes."
                ) from None

        yield read_in_pool


def chunks(name: str, *columns: Any) -> Iterator[tuple[Any, ...]]:
    """Split columns of equal length into calls of `read`, some hundred rows each."""
    for start in range(0, len(columns[0]), _CHUNK):
        yield name, *(column[start : start + _CHUNK] for column in columns)


_read_here: Callable[..., Any]
"""In a process of the pool: `read` with the index that the process opened."""


def _open(reopen: Callable[[], Any], read: Callable[..., Any]) -> None:
    global _read_here
    _read_here = partial(read, reopen())


def _read_call(call: tuple[Any, ...]) -> Any:
    return _read_here(*call)
