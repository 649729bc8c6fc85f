"""Mines contrasts: how many of each objective, lines of JSON, statistics.

The lines depend on the index, the objectives with their weights and settings, the number of contrasts and the
seed alone.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.index import Index
from linkseek.reranker.contrasts import contrast_line
from linkseek.reranker.objectives.base import Objective
from linkseek.reranker.objectives.registry import Mix, all_objectives
from linkseek.reranker.objectives.source import Source
from linkseek.retriever.mining.engine import Draws, draw_results, open_readers


@dataclass
class Statistics:
    """Contrasts, worse pairs and anchors by objective, and words of the better pairs."""

    written: Counter[str] = field(default_factory=Counter)
    worse: Counter[str] = field(default_factory=Counter)
    query_words: int = 0
    document_words: int = 0
    anchors: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, contrast: ContrastNumbers) -> None:
        """Count one contrast."""
        self.written[name] += 1
        self.worse[name] += contrast.worse
        self.query_words += contrast.query_words
        self.document_words += contrast.document_words
        self.anchors[name] += contrast.anchors

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


class ContrastMiner:
    """Mines one index with a mix of objectives."""

    def __init__(
        self, index: Index, mix: Mix, *, seed: int = 1, language: str = "en", processes: int = 1
    ) -> None:
        self._index, self._seed, self._processes = index, seed, processes
        self._source = Source(index, language)
        self._weights = {name: weight for name, (_, weight) in mix.items()}
        self._objectives = {name: objective.prepare(self._source) for name, (objective, _) in mix.items()}

    @cached_property
    def candidates(self) -> dict[str, NDArray[np.int64]]:
        """All candidates of each objective that has any. Raises `InputError` if none has."""
        candidates = {name: each.candidates(self._source) for name, each in self._objectives.items()}
        candidates = {name: rows for name, rows in candidates.items() if len(rows)}
        if not candidates:
            others = ", ".join(name for name, other in all_objectives().items() if not other.needs_links)
            raise InputError(
                f"{self._index.path}: no contrasts: {'; '.join(map(self._why_none, self._objectives))}",
                f"Objectives that need no links: {others}.",
            )
        return candidates

    @property
    def missing(self) -> list[str]:
        """Why the other objectives have no candidates, a line each."""
        return [self._why_none(name) for name in self._objectives if name not in self.candidates]

    def _why_none(self, name: str) -> str:
        return f"{name} {self._objectives[name].why_none(self._source)}"

    def counts(self) -> dict[str, Any]:
        """The number of candidates, and each objective's counts over the corpus."""
        counts = {name: objective.counts(self._source) for name, objective in self._objectives.items()}
        candidates = {name: len(self.candidates.get(name, ())) for name in self._objectives}
        return {"candidates": candidates} | {name: count for name, count in counts.items() if count}

    def shares(self, contrasts: int | None) -> dict[str, int]:
        """The largest number of contrasts that each objective gives.

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
        """JSON lines (`reranker.contrasts`), objective by objective, each in the order of the corpus.

        contrasts: how many, without repetition. on_contrasts: gets the number of contrasts since the last
        call. Raises `InputError` if there is no contrast.
        """
        statistics = statistics or Statistics()
        limits = self.shares(contrasts)
        slow = any(count >= self._objectives[name].min_for_processes for name, count in limits.items())
        processes = self._processes if slow else 1
        with open_readers(self._source, partial(_read_contrasts, self._objectives), processes) as read:
            for name, rows in self.candidates.items():
                generator = np.random.default_rng((self._seed, zlib.crc32(name.encode())))
                for line, numbers in draw_results(rows, limits[name], generator, partial(read, name)):
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
    """The number of each in proportion to the weights; the others make up for one that is scarce.

    The first ones get the remainder of rounding.
    """
    counts: dict[str, int] = {}
    waiting = sorted(available, key=lambda name: available[name] / weights[name])  # the scarcest first
    for place, name in enumerate(waiting):
        left = total - sum(counts.values())
        share = weights[name] / sum(weights[other] for other in waiting[place:])
        counts[name] = min(available[name], int(np.ceil(left * share - 1e-9)))
    return {name: counts[name] for name in available}


@dataclass(frozen=True, slots=True)
class ContrastNumbers:
    """One contrast in numbers: worse pairs, and words and anchors of the better pair."""

    worse: int
    query_words: int
    document_words: int
    anchors: int


def _read_contrasts(
    objectives: Mapping[str, Objective], source: Source, name: str, rows: NDArray[np.int64], draws: Draws
) -> Iterator[tuple[bytes, ContrastNumbers] | None]:
    """A line for each candidate, None for one without a contrast."""
    for contrast in objectives[name].contrasts(source, rows, draws):
        if contrast is None:
            yield None
            continue
        better = contrast.better
        numbers = ContrastNumbers(
            worse=len(contrast.worse),
            query_words=len(better.query.split()),
            document_words=len(better.document.split()),
            anchors=len(better.anchors),
        )
        yield contrast_line(contrast), numbers
