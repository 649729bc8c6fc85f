"""Samples, and the order in which training reads them.

A batch holds samples of one source only (dual links and co-mentions are never mixed, as in HLP), over all
processes together. The libraries' samplers give each process batches of its own, which may be of different
sources, so batches are made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sample(Generic[T]):
    """One stored record. row: its number. place: its file and line, for messages."""

    row: int
    place: str
    record: T


class Batches:
    """The batches of each epoch: lists of rows of one source, this process's part of each.

    Rows are shuffled within their source and batches among each other, by (seed, epoch) alone. A
    source's last batch may be smaller; with several processes it is cut to the same size for each.
    """

    def __init__(
        self,
        sources: Mapping[str, NDArray[np.int64]],
        batch: int,
        seed: int,
        *,
        process: int = 0,
        processes: int = 1,
    ) -> None:
        """batch: rows in a batch over all processes. Raises `InputError` if processes cannot share it."""
        if batch % processes:
            raise InputError(
                f"training.batch is {batch}, of which {processes} processes cannot have equal parts",
                "Choose a multiple of the number of processes.",
            )
        self._sources = dict(sources)
        self._batch, self._seed = batch, seed
        self._process, self._processes = process, processes
        self.rows = sum(len(rows) - len(rows) % processes for rows in self._sources.values())
        """Rows in an epoch, over all processes."""
        if not self.rows:
            raise InputError("less data than processes", "Use fewer processes, or more data.")

    def __len__(self) -> int:
        return sum(len(self._starts(rows)) for rows in self._sources.values())

    @property
    def size(self) -> int:
        """Rows in a full batch, over all processes."""
        return min(self._batch, self.rows)

    def _starts(self, rows: NDArray[np.int64]) -> range:
        return range(0, len(rows) - len(rows) % self._processes, self._batch)

    def epoch(self, epoch: int) -> Iterator[list[int]]:
        """The batches of an epoch, counted from 0."""
        generator = np.random.default_rng((self._seed, epoch))
        batches = []
        for rows in self._sources.values():
            shuffled = generator.permutation(rows)
            batches += [shuffled[start : start + self._batch] for start in self._starts(rows)]
        for number in generator.permutation(len(batches)):
            share = len(batches[number]) // self._processes
            yield batches[number][self._process * share : (self._process + 1) * share].tolist()
