"""Mines training pairs: how many of each topology, negatives, lines of JSON, statistics.

The lines depend on the index, the objective, the number of pairs, the kind of negatives and the seed alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.base.text import WORD
from linkseek.indexer.index import Index
from linkseek.retriever.links.source import Source
from linkseek.retriever.links.topology import PassagePairs, Topology
from linkseek.retriever.mining.drawn_negatives import NegativeKind, draw_negatives
from linkseek.retriever.mining.engine import Draws, draw_results, open_readers
from linkseek.retriever.mining.pairs import Pair, pair_line, passage_context
from linkseek.retriever.objectives.base import Objective
from linkseek.retriever.objectives.registry import all_objectives

_MIN_FOR_PROCESSES = 20_000  # pairs that take longer than starting processes


@dataclass
class Statistics:
    """Words of queries and passages, and the share of a query's words that occur in its passage."""

    pairs: Counter[str] = field(default_factory=Counter)
    query_words: list[int] = field(default_factory=list)
    positive_words: list[int] = field(default_factory=list)
    overlap: list[float] = field(default_factory=list)
    without_negative: int = 0

    def add(self, name: str, pair: PairNumbers) -> None:
        """Count one pair."""
        self.pairs[name] += 1
        self.query_words.append(pair.query_words)
        self.positive_words.append(pair.positive_words)
        self.overlap.append(pair.overlap)
        self.without_negative += pair.lacks_negative

    def to_json(self) -> dict[str, Any]:
        """Counts, means, and the overlap in ten bins as in HLP's figure 3."""
        bins, _ = np.histogram(self.overlap, 10, (0.0, 1.0))
        return {
            "written": dict(self.pairs),
            "query_words": _mean_and_percentiles(self.query_words),
            "positive_words": _mean_and_percentiles(self.positive_words),
            "overlap": {
                "mean": float(np.mean(self.overlap)) if self.overlap else None,
                "bins": bins.tolist(),
            },
            "without_negative": self.without_negative,
        }


def _mean_and_percentiles(values: list[int]) -> dict[str, float] | None:
    if not values:
        return None
    low, middle, high = np.percentile(values, (5, 50, 95))
    return {"mean": float(np.mean(values)), "p5": float(low), "p50": float(middle), "p95": float(high)}


def count_topologies(topology: Topology) -> dict[str, int]:
    """The number of pairs of the two topologies, and K."""
    dual, shared = topology.dual_links(), topology.co_mentions()
    return {
        "dual_link": len(dual),
        "co_mention": len(shared),
        "co_mention_only": int((~np.isin(shared.keys(), dual.keys())).sum()),
        "k": topology.in_degree_limit,
    }


def mine_pairs(
    index: Index,
    objective: Objective,
    *,
    pairs: int | None = None,
    seed: int = 1,
    negatives: NegativeKind = "none",
    language: str = "en",
    processes: int = 1,
    statistics: Statistics | None = None,
    on_start: Callable[[int], None] = lambda count: None,
) -> Iterator[bytes]:
    """JSON lines of pairs (`retriever.mining.pairs`), topology by topology, each in the order of its queries.

    pairs: how many, drawn at random without repetition and divided evenly among the topologies; all by
    default. on_start: gets the largest number of lines that there can be. Raises `InputError` if there are
    none.
    """
    source = Source(index, language)
    candidates = objective.candidates(source)
    if not any(map(len, candidates.values())):
        raise _no_pairs(source, objective)
    generator = np.random.default_rng(seed)
    limits = _shares({name: len(available) for name, available in candidates.items()}, pairs)
    total = sum(limits.values())
    on_start(total)
    statistics = statistics or Statistics()
    processes = processes if total >= _MIN_FOR_PROCESSES else 1
    with open_readers(source, partial(_read_pairs, objective), processes) as read:

        def read_with_negatives(name: str, drawn: PassagePairs, draws: Draws) -> Iterator[_Line | None]:
            return read(name, drawn, draw_negatives(source, drawn, negatives, draws), draws)

        for name, available in candidates.items():
            lines = draw_results(available, limits[name], generator, partial(read_with_negatives, name))
            for line, numbers in lines:
                statistics.add(name, numbers)
                yield line
    if not statistics.pairs:
        raise _no_pairs(source, objective)


def _no_pairs(source: Source, objective: Objective) -> InputError:
    others = ", ".join(name for name, other in all_objectives().items() if not other.needs_links)
    missing = objective.needs_links and source.missing_links
    why = f"{objective.name} {missing}" if missing else f"no pair of passages fits {objective.name}"
    hint = "Objectives that need none" if missing else "Objectives without links"
    return InputError(f"{source.index.path}: {why}", f"{hint}: {others}.")


def _shares(available: dict[str, int], pairs: int | None) -> dict[str, int]:
    """The number of pairs of each topology: the same for all, unless one has too few."""
    if pairs is None:
        return available
    shares: dict[str, int] = {}
    for place, (name, count) in enumerate(sorted(available.items(), key=lambda item: item[1])):
        shares[name] = min(count, (pairs - sum(shares.values())) // (len(available) - place))
    return shares


@dataclass(frozen=True, slots=True)
class PairNumbers:
    """One pair in numbers. overlap: the share of the query's words that occur in the passage."""

    query_words: int
    positive_words: int
    overlap: float
    lacks_negative: bool


_Line = tuple[bytes, PairNumbers]


def _read_pairs(
    objective: Objective,
    source: Source,
    name: str,
    pairs: PassagePairs,
    negatives: NDArray[np.int32],
    draws: Draws,
) -> Iterator[_Line | None]:
    """A line for each pair, None for one without a query. negatives: int32 [n], -1 where there is none."""
    passages = source.index.passages
    links = {"query": pairs.query_link, "positive": pairs.positive_link, "shared": pairs.shared_link}
    for i, (draw, negative) in enumerate(zip(draws.tolist(), negatives.tolist(), strict=True)):
        texts = objective.texts(source, pairs, i, draw)
        if texts is None:
            yield None
            continue
        query = texts.query.replace("\u2019", "'")  # as HLP's released pairs have it
        asked_from = passages[int(pairs.query[i])]
        positive = passage_context(passages, int(pairs.positive[i]))
        pair = Pair(
            query=query,
            positive=replace(positive, text=texts.positive),
            negatives=(passage_context(passages, negative),) if negative >= 0 else (),
            objective=name,
            query_title=asked_from.title,
            query_id=asked_from.id,
            evidence={
                role: source.link_evidence(int(rows[i])) for role, rows in links.items() if rows[i] >= 0
            },
        )
        words, passage_words = _words(query), set(_words(texts.positive))
        overlap = sum(word in passage_words for word in words) / len(words) if words else 0.0
        numbers = PairNumbers(len(query.split()), len(texts.positive.split()), overlap, negative < 0)
        yield pair_line(pair), numbers


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]
