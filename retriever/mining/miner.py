"""Mines training data: how many of each objective and kind, lines of JSON, statistics.

The lines depend on the index, the objectives with their weights and settings, the number of lines and the
seed alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic

import numpy as np

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import Topology
from linkseek.retriever.mining.drawing import chunks, draw_results, open_readers
from linkseek.retriever.mining.objective import Draws, Numbers, Objective, Rows, Statistics
from linkseek.retriever.mining.objective_registry import Mix, O

_Line = tuple[bytes, Numbers]


class Miner(Generic[O]):
    """Mines one index with a mix of objectives."""

    def __init__(
        self, index: OpenIndex, mix: Mix[O], *, seed: int = 1, language: str | None = None, processes: int = 1
    ) -> None:
        """language: the language of the texts, by default the index's."""
        self._seed, self._processes = seed, processes
        self._mix, self.unit = mix, mix.first.unit
        self.source = mix.first.source(index, language)
        self._objectives = {name: each.prepare(self.source) for name, each in mix.objectives.items()}

    @cached_property
    def candidates(self) -> dict[str, Mapping[str, Rows]]:
        """All candidates of each objective by kind."""
        return {name: objective.candidates(self.source) for name, objective in self._objectives.items()}

    @property
    def missing(self) -> list[str]:
        """Why some objectives have no candidates, a line each."""
        empty = [name for name, kinds in self.candidates.items() if not _count(kinds)]
        return [f"{name} {self._objectives[name].why_none(self.source)}" for name in empty]

    def counts(self) -> dict[str, Any]:
        """The number of candidates of each kind, and each objective's counts over the corpus."""
        counts = {name: objective.counts(self.source) for name, objective in self._objectives.items()}
        candidates: Counter[str] = Counter()
        for kinds in self.candidates.values():
            candidates.update({kind: len(rows) for kind, rows in kinds.items()})
        return {"candidates": dict(candidates)} | {name: count for name, count in counts.items() if count}

    def shares(self, total: int | None) -> dict[str, int]:
        """The largest number of results of each objective that has candidates.

        None: all of one objective, or as many as the scarcest of several allows at these weights. Raises
        `InputError` if there are no candidates.
        """
        available = {name: count for name, kinds in self.candidates.items() if (count := _count(kinds))}
        if not available:
            raise InputError(
                f"{self.source.index.path}: no {self.unit}s: {'; '.join(self.missing)}",
                f"Objectives that need no links: {', '.join(self._mix.without_links)}.",
            )
        weights = {name: self._mix.weights[name] for name in available}
        if total is None:
            scarcest = min(available[name] / weights[name] for name in available)
            return {name: min(available[name], round(scarcest * weights[name])) for name in available}
        return shares(available, weights, total)

    def lines(
        self,
        total: int | None = None,
        statistics: Statistics | None = None,
        advance: Callable[[float], None] = lambda count: None,
    ) -> Iterator[bytes]:
        """Lines of JSON, objective by objective and kind by kind, each in the order of the corpus.

        total: how many, without repetition; an objective's share is divided evenly among its kinds. advance:
        gets the number of lines since the last call. Raises `InputError` if no line can be made.
        """
        statistics = statistics or Statistics()
        limits = self.shares(total)
        is_slow = any(limit >= self._objectives[name].min_for_processes for name, limit in limits.items())
        reopen = partial(_reopened, type(self.source), self.source.index.path.resolve(), self.source.language)
        read_lines = partial(_read_lines, self._objectives)
        with open_readers(self.source, reopen, read_lines, self._processes if is_slow else 1) as read:
            for name, limit in limits.items():
                for line, numbers in self._draw(name, limit, read):
                    advance(1)
                    statistics.add(numbers)
                    yield line
        if not statistics.written:
            count = sum(map(_count, self.candidates.values()))
            raise InputError(
                f"{self.source.index.path}: none of the {count:,} candidates for {', '.join(limits)} gives a "
                f"{self.unit}",
                "Documents of one sentence give no ict, documents of one word no prop; mine a larger corpus.",
            )

    def _draw(
        self, name: str, limit: int, read: Callable[..., Iterator[list[_Line | None]]]
    ) -> Iterator[_Line]:
        objective, kinds = self._objectives[name], self.candidates[name]

        def read_drawn(rows: Rows, draws: Draws) -> Iterator[_Line | None]:
            completed = objective.complete(self.source, rows, draws)
            return chain.from_iterable(read(chunks(name, completed, draws)))

        generator = objective.generator(self._seed)
        available = {kind: len(rows) for kind, rows in kinds.items()}
        limits = shares(available, dict.fromkeys(kinds, 1.0), limit, math.floor)
        for kind, rows in kinds.items():
            yield from draw_results(rows, limits[kind], generator, read_drawn)


def _count(kinds: Mapping[str, Rows]) -> int:
    return sum(map(len, kinds.values()))


def shares(
    available: Mapping[str, int],
    weights: Mapping[str, float],
    total: int,
    rounding: Callable[[float], int] = math.ceil,
) -> dict[str, int]:
    """Numbers in proportion to the weights; where one objective is scarce, the others fill its share.

    rounding: how the numbers of scarcer objectives are rounded; the last gets the remainder.
    """
    counts: dict[str, int] = {}
    waiting = sorted(available, key=lambda name: available[name] / weights[name])  # the scarcest first
    for place, name in enumerate(waiting):
        left = total - sum(counts.values())
        share = left * weights[name] / sum(weights[other] for other in waiting[place:])
        counts[name] = min(available[name], rounding(round(share, 9)))
    return {name: counts[name] for name in available}


def _reopened(source: type[LinkSource], path: Path, language: str) -> LinkSource:
    return source(OpenIndex.open(path), language)


def _read_lines(
    objectives: Mapping[str, Objective[Any]], source: LinkSource, name: str, rows: Rows, draws: Draws
) -> list[_Line | None]:
    """A line for each candidate, None for a candidate without a result."""
    objective = objectives[name]
    return [
        None if made is None else (objective.line(made), objective.numbers(made))
        for made in objective.read(source, rows, draws)
    ]


def count_topologies(topology: Topology) -> dict[str, int]:
    """Numbers of dual links and co-mentions, and the in-degree limit K."""
    dual, shared = topology.dual_links(), topology.co_mentions()
    return {
        "dual_link": len(dual),
        "co_mention": len(shared),
        "co_mention_only": int((~np.isin(shared.keys(), dual.keys())).sum()),
        "k": topology.in_degree_limit,
    }
