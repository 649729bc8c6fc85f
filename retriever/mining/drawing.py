"""Draws candidates and reads their texts, in this process or several.

Which candidates are drawn and what they become depends on the seed alone: one process draws, and any number
of processes read texts, the same candidates together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.cluster import worker_pool
from linkseek.indexer.program.errors import MachineError
from linkseek.retriever.links.source import LinkSource
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
    """Results of up to `limit` random candidates, without repetition.

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
    source: LinkSource, read: Callable[..., Iterable[T | None]], processes: int
) -> Iterator[Callable[..., Iterator[T | None]]]:
    """A function from (name, candidates, draws) to their results in order, in `processes` workers.

    There may be more columns of equal length next to the candidates. read: gets a source, a name and some
    rows of all columns; it is pickled once for each worker.
    """

    def chunks(name: str, *columns: Any) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(columns[0]), _CHUNK):
            yield name, *(column[start : start + _CHUNK] for column in columns)

    if processes == 1:
        yield lambda *drawn: (result for chunk in chunks(*drawn) for result in read(source, *chunk))
        return
    opening = type(source), source.index.path.resolve(), source.language, read
    with worker_pool(processes, _open, opening) as pool:

        def read_in_pool(*drawn: Any) -> Iterator[T | None]:
            try:
                for results in pool.map(_read_chunk, chunks(*drawn)):
                    yield from results
            except BrokenProcessPool:
                raise MachineError(
                    "a mining process was ended (out of memory?)", "Use fewer --processes."
                ) from None

        yield read_in_pool


_read_here: Callable[..., Iterable[Any]]
"""In a process of the pool: `read` with the source that the process opened."""


def _open(source: type[LinkSource], path: Path, language: str, read: Callable[..., Iterable[Any]]) -> None:
    global _read_here
    _read_here = partial(read, source(OpenIndex.open(path), language))


def _read_chunk(chunk: tuple[Any, ...]) -> list[Any]:
    return list(_read_here(*chunk))
