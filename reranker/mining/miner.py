"""From candidates to written contrasts: choosing, mixing, texts, statistics.

What is written depends on the index, the objectives with their weights and settings, the number of
contrasts and the seed alone: candidates are chosen in one process by numbered draws, and texts are read by
however many.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError, MachineError
from indexer.base.together import ProcessPool
from indexer.index import Index
from reranker.mining.contrasts import Contrast, contrast_line
from reranker.objectives import Objective, Source

_CHUNK = 500
_MOST_DRAW = 1 << 62

Mix = Mapping[str, tuple[Objective, float]]
"""Objectives with their weights, which are above 0, by name."""


@dataclass
class Statistics:
    """What was written: contrasts, worse pairs and anchors by objective, and words of the better pairs."""

    written: Counter[str] = field(default_factory=Counter)
    worse: Counter[str] = field(default_factory=Counter)
    query_words: int = 0
    document_words: int = 0
    anchors: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, numbers: _Numbers) -> None:
        """One contrast."""
        worse, query_words, document_words, anchors = numbers
        self.written[name] += 1
        self.worse[name] += worse
        self.query_words += query_words
        self.document_words += document_words
        self.anchors[name] += anchors

    def to_json(self) -> dict[str, Any]:
        """Counts, and means over the better pairs."""
        count = max(self.written.total(), 1)
        return {
            "written": dict(self.written),
            "worse_pairs": dict(self.worse),
            "query_words": self.query_words / count,
            "document_words": self.document_words / count,
            "anchors": {name: count for name, count in self.anchors.items() if count},
        }


class Mine:
    """An index to mine from with some objectives."""

    def __init__(
        self,
        index: Index,
        mix: Mix,
        *,
        seed: int = 1,
        language: str = "en",
        processes: int = 1,
    ) -> None:
        self._index, self._seed, self._language, self._processes = index, seed, language, processes
        self._source = Source(index, language)
        self._weights = {name: weight for name, (_, weight) in mix.items()}
        self._objectives = {name: found.prepare(self._source) for name, (found, _) in mix.items()}

    @cached_property
    def candidates(self) -> dict[str, NDArray[np.int64]]:
        """All candidates of each objective that has any. Raises `InputError` if none has."""
        found = {name: objective.candidates(self._source) for name, objective in self._objectives.items()}
        found = {name: rows for name, rows in found.items() if len(rows)}
        if not found:
            raise InputError(
                f"{self._index.path}: no contrasts: {'; '.join(map(self._why, self._objectives))}",
                "Objectives that need no links: prop, prop-random, ict.",
            )
        return found

    @property
    def missing(self) -> list[str]:
        """Why the other objectives have none, a line each."""
        return [self._why(name) for name in self._objectives if name not in self.candidates]

    def _why(self, name: str) -> str:
        return f"{name} {self._objectives[name].nothing(self._source)}"

    def counts(self) -> dict[str, Any]:
        """Candidates, and what each objective says of the corpus."""
        told = {name: objective.counts(self._source) for name, objective in self._objectives.items()}
        candidates = {name: len(self.candidates.get(name, ())) for name in self._objectives}
        return {"candidates": candidates} | {name: counts for name, counts in told.items() if counts}

    def shares(self, contrasts: int | None) -> dict[str, int]:
        """How many contrasts of each objective there will be, at most.

        None: of one objective all, of several as many as the scarcest allows at these weights.
        """
        available = {name: len(rows) for name, rows in self.candidates.items()}
        weights = {name: self._weights[name] for name in available}
        if contrasts is None:
            scarcest = min(available[name] / weights[name] for name in available)
            return {name: min(available[name], round(scarcest * weights[name])) for name in available}
        return shares(available, weights, contrasts)

    def lines(
        self,
        contrasts: int | None = None,
        statistics: Statistics | None = None,
        on_contrasts: Callable[[float], None] = lambda count: None,
    ) -> Iterator[bytes]:
        """JSON lines (`reranker.mining.contrasts`), objective by objective, each in the order of the corpus.

        contrasts: how many, without repetition. Candidates that give nothing are replaced by others while
        there are any. on_contrasts: gets the number of contrasts since the last call. Raises
        `InputError` if there is no contrast.
        """
        statistics = statistics or Statistics()
        wanted = self.shares(contrasts)
        with ExitStack() as stack:
            reader = _Reader(self._index, self._language, self._objectives, stack)
            worth = [count >= self._objectives[name].worth_processes for name, count in wanted.items()]
            if self._processes > 1 and any(worth):
                reader.start(self._processes)
            for name, rows in self.candidates.items():
                generator = np.random.default_rng((self._seed, zlib.crc32(name.encode())))
                order = generator.permutation(len(rows))
                start = 0
                while statistics.written[name] < wanted[name] and start < len(order):
                    missing = wanted[name] - statistics.written[name]
                    chosen = rows[np.sort(order[start : start + missing])]
                    start += missing
                    draws = generator.integers(0, _MOST_DRAW, len(chosen))
                    for line, numbers in reader.lines(name, chosen, draws):
                        if line is not None:
                            on_contrasts(1)
                            statistics.add(name, numbers)
                            yield line
        if not statistics.written.total():
            raise InputError(
                f"{self._index.path}: none of the {sum(map(len, self.candidates.values())):,} candidates for "
                f"{', '.join(self.candidates)} gives a contrast",
                "Documents of one sentence give no ict, those of one word no prop; mine a larger corpus.",
            )


def shares(available: Mapping[str, int], weights: Mapping[str, float], total: int) -> dict[str, int]:
    """How many of each, in proportion to the weights; the others make up for what is scarce.

    Whatever rounding leaves goes to the first ones.
    """
    found: dict[str, int] = {}
    waiting = sorted(available, key=lambda name: available[name] / weights[name])  # the scarcest first
    for place, name in enumerate(waiting):
        left = total - sum(found.values())
        share = weights[name] / sum(weights[other] for other in waiting[place:])
        found[name] = min(available[name], int(np.ceil(left * share - 1e-9)))
    return {name: found[name] for name in available}


_Numbers = tuple[int, int, int, int]
"""Worse pairs, words of the better pair's query and document, its anchors."""
_Line = tuple[bytes | None, _Numbers]
_Chunk = tuple[NDArray[np.int64], NDArray[np.int64]]


class _Reader:
    """Candidates to lines, in order, here or in other processes."""

    def __init__(
        self, index: Index, language: str, objectives: Mapping[str, Objective], stack: ExitStack
    ) -> None:
        self._given = (str(index.path), language, objectives)
        self._source = Source(index, language)
        self._objectives = objectives
        self._stack = stack
        self._pool: ProcessPool | None = None

    def start(self, processes: int) -> None:
        """Read in so many processes from now on."""
        self._pool = self._stack.enter_context(ProcessPool(processes, _open, self._given))

    def lines(self, name: str, rows: NDArray[np.int64], draws: NDArray[np.int64]) -> Iterator[_Line]:
        """A line for each candidate, None for one that gives nothing."""
        chunks = ((rows[at : at + _CHUNK], draws[at : at + _CHUNK]) for at in range(0, len(rows), _CHUNK))
        if self._pool is None:
            for chunk in chunks:
                yield from _lines(self._source, self._objectives[name], chunk)
            return
        try:
            for found in self._pool.map(partial(_lines_there, name), chunks):
                yield from found
        except BrokenProcessPool:
            raise MachineError(
                "a mining process was ended (out of memory?)", "Use fewer --processes."
            ) from None


_there: tuple[Source, Mapping[str, Objective]] | None = None
"""What a process of the pool reads from."""


def _open(path: str, language: str, objectives: Mapping[str, Objective]) -> None:
    global _there
    _there = Source(Index.open(Path(path)), language), objectives


def _lines_there(name: str, chunk: _Chunk) -> list[_Line]:
    assert _there is not None, "a process of the pool begins with _open"
    source, objectives = _there
    return _lines(source, objectives[name], chunk)


def _lines(source: Source, objective: Objective, chunk: _Chunk) -> list[_Line]:
    found = objective.contrasts(source, *chunk)
    return [(contrast_line(contrast) if contrast else None, _numbers(contrast)) for contrast in found]


def _numbers(contrast: Contrast | None) -> _Numbers:
    if contrast is None:
        return 0, 0, 0, 0
    better = contrast.better
    query, document = len(better.query.split()), len(better.document.split())
    return len(contrast.worse), query, document, len(better.anchors)
