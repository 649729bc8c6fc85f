"""From candidates to written pairs: choosing, negatives, texts, statistics.

What is written depends on the index, the objective, the number of pairs, the kind of negatives and the
seed alone: choices are made in one process by numbered draws, and texts are read by however many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import InputError, MachineError
from indexer.base.text import WORD
from indexer.base.together import ProcessPool
from indexer.index import Index
from retriever.mining.pairs import Context, Pair, pair_line
from retriever.mining.topology import Pairs, Topology
from retriever.objectives import Objective, Source, all_objectives, link_evidence

NegativeKind = Literal["none", "random", "overlap"]

_CHUNK = 2000
_WORTH_PROCESSES = 20_000
_MOST_DRAW = 1 << 62
_TRIES = 16


@dataclass
class Statistics:
    """What was written: words of queries and passages, and how many of a query's occur in its passage."""

    pairs: Counter[str] = field(default_factory=Counter)
    query_words: list[int] = field(default_factory=list)
    positive_words: list[int] = field(default_factory=list)
    overlap: list[float] = field(default_factory=list)
    without_negative: int = 0

    def to_json(self) -> dict[str, Any]:
        """Counts, means, and the overlap in ten bins as in HLP's figure 3."""
        bins, _ = np.histogram(self.overlap, 10, (0.0, 1.0))
        return {
            "written": dict(self.pairs),
            "query_words": _spread(self.query_words),
            "positive_words": _spread(self.positive_words),
            "overlap": {
                "mean": float(np.mean(self.overlap)) if self.overlap else None,
                "bins": bins.tolist(),
            },
            "without_negative": self.without_negative,
        }


def _spread(values: list[int]) -> dict[str, float] | None:
    if not values:
        return None
    low, middle, high = np.percentile(values, (5, 50, 95))
    return {"mean": float(np.mean(values)), "p5": float(low), "p50": float(middle), "p95": float(high)}


def count_topologies(topology: Topology) -> dict[str, int]:
    """How many pairs the two topologies give, and K."""
    dual, shared = topology.dual_links(), topology.co_mentions()
    return {
        "dual_link": len(dual),
        "co_mention": len(shared),
        "co_mention_only": int((~np.isin(shared.keys(), dual.keys())).sum()),
        "k": topology.most_in_degree,
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
    on_pairs: Callable[[float], None] = lambda count: None,
    on_start: Callable[[int], None] = lambda count: None,
) -> Iterator[bytes]:
    """JSON lines of pairs (`retriever.mining.pairs`), topology by topology, each in the order of its queries.

    pairs: how many, drawn at random without repetition and divided evenly among the topologies; all by
    default. on_start is told how many there will be, at most. Raises `InputError` if there are none.
    """
    source = Source(index, language)
    candidates = objective.candidates(source)
    if not any(map(len, candidates.values())):
        raise InputError(*_none(index, objective))
    generator = np.random.default_rng(seed)
    wanted = _shares({name: len(found) for name, found in candidates.items()}, pairs)
    on_start(sum(wanted.values()))
    statistics = statistics or Statistics()
    with ExitStack() as stack:
        reader = _Reader(index, language, objective, processes, sum(wanted.values()), stack)
        for name, found in candidates.items():
            order = generator.permutation(len(found))
            start = 0
            while statistics.pairs[name] < wanted[name] and start < len(order):
                # A few candidates turn out to have no query; others are drawn in their place.
                missing = wanted[name] - statistics.pairs[name]
                chosen = found.take(np.sort(order[start : start + missing]))
                start += missing
                draws = generator.integers(0, _MOST_DRAW, len(chosen))
                drawn = _negatives(source, chosen, negatives, draws)
                for line, numbers in reader.lines(name, chosen, draws, drawn):
                    on_pairs(1)
                    if line is None:
                        continue
                    statistics.pairs[name] += 1
                    statistics.query_words.append(numbers[0])
                    statistics.positive_words.append(numbers[1])
                    statistics.overlap.append(numbers[2])
                    statistics.without_negative += numbers[3]
                    yield line


def _shares(available: dict[str, int], pairs: int | None) -> dict[str, int]:
    """How many of each: the same number, unless there are too few of one."""
    if pairs is None:
        return available
    shares: dict[str, int] = {}
    for left, (name, count) in zip(
        range(len(available), 0, -1), sorted(available.items(), key=lambda item: item[1]), strict=True
    ):
        shares[name] = min(count, (pairs - sum(shares.values())) // left)
    return {name: shares[name] for name in available}


def _none(index: Index, objective: Objective) -> tuple[str, str]:
    counts = index.manifest["counts"]
    others = ", ".join(name for name, other in all_objectives().items() if not other.needs_links)
    if objective.needs_links and counts["between_documents"] == 0:
        found = f"{counts['dangling']:,} links lead to nothing, {counts['cut']:,} are cut by a passage's end"
        return (
            f"{index.path}: {objective.name} needs links between documents, and there are none ({found})",
            f"Objectives that need none: {others}.",
        )
    return f"{index.path}: no pair of passages fits {objective.name}", f"Objectives without links: {others}."


# --- negatives -----------------------------------------------------------------------------------


def _negatives(
    source: Source, pairs: Pairs, kind: NegativeKind, draws: NDArray[np.int64]
) -> NDArray[np.int32]:
    """One passage for each pair that should not be found, int32 [n]; -1 where there is none.

    random: any passage of another document than the query's and the positive's. overlap: one that
    mentions what the query's passage mentions, or its document, but fits neither topology (HLP,
    appendix B).
    """
    if kind == "none":
        return np.full(len(pairs), -1, np.int32)
    passages, offsets = len(source.index.passages), np.asarray(source.index.passages.offsets)
    own = np.searchsorted(offsets, pairs.query, side="right") - 1  # [n]
    right = np.searchsorted(offsets, pairs.positive, side="right") - 1  # [n]
    found = np.full(len(pairs), -1, np.int32)
    generator = np.random.default_rng(draws[:1] if len(draws) else 0)
    for _ in range(_TRIES):
        waiting = np.flatnonzero(found < 0)
        if len(waiting) == 0:
            break
        if kind == "random":
            drawn = generator.integers(0, passages, len(waiting))
        else:
            drawn = _overlapping(source.topology, pairs.query[waiting], own[waiting], generator)
        document = np.searchsorted(offsets, drawn, side="right") - 1
        fits = (drawn >= 0) & (document != own[waiting]) & (document != right[waiting])
        if kind == "overlap":
            fits &= ~_is_pair(source.topology, pairs.query[waiting], own[waiting], drawn, document)
        found[waiting[fits]] = drawn[fits]
    return found


def _overlapping(
    topology: Topology,
    query: NDArray[np.int32],
    own: NDArray[np.int64],
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """A passage that links to a random one of what each query's passage links to, or to its document."""
    low = np.searchsorted(topology.passage, query, side="left")
    count = np.searchsorted(topology.passage, query, side="right") - low  # [n]
    place = generator.integers(0, count + 1)  # the last one stands for the document itself
    last = len(topology.target) - 1
    mentioned = np.where(place < count, topology.target[np.minimum(low + place, last)], own)
    by_target, targets = topology.by_target
    first = np.searchsorted(targets, mentioned, side="left")
    many = np.searchsorted(targets, mentioned, side="right") - first  # [n]
    chosen = by_target[np.minimum(first + generator.integers(0, np.maximum(many, 1)), last)]
    return np.where(many > 0, topology.passage[chosen], -1).astype(np.int64)


def _is_pair(
    topology: Topology,
    query: NDArray[np.int32],
    own: NDArray[np.int64],
    passage: NDArray[np.int64],
    document: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Whether (query, passage) is a dual link or a co-mention, bool [n]."""
    links_back = topology.link_from_to(passage, own) >= 0
    pair = links_back & (topology.link_from_to(query, document) >= 0)
    rare = topology.in_degree < topology.most_in_degree  # bool [D]
    for i in np.flatnonzero(links_back & ~pair):
        shared = np.intersect1d(topology.targets_of(int(query[i])), topology.targets_of(int(passage[i])))
        pair[i] = rare[shared].any()
    return pair


# --- texts ---------------------------------------------------------------------------------------

_Numbers = tuple[int, int, float, int]
"""Words of the query, words of the passage, overlap, 1 if a negative was wanted and none found."""
_Line = tuple[bytes | None, _Numbers]
_Job = tuple[str, Pairs, NDArray[np.int64], NDArray[np.int32]]


class _Reader:
    """Pairs to lines, in order, here or in other processes."""

    def __init__(
        self,
        index: Index,
        language: str,
        objective: Objective,
        processes: int,
        total: int,
        stack: ExitStack,
    ) -> None:
        self._here = (str(index.path), language, objective.name)
        self._pool: ProcessPool | None = None
        if processes > 1 and total >= _WORTH_PROCESSES:
            self._pool = stack.enter_context(ProcessPool(processes))

    def lines(
        self, name: str, pairs: Pairs, draws: NDArray[np.int64], negatives: NDArray[np.int32]
    ) -> Iterator[_Line]:
        """A line for each pair, None for one without a query."""
        chunks = [np.arange(start, min(start + _CHUNK, len(pairs))) for start in range(0, len(pairs), _CHUNK)]
        jobs = ((name, pairs.take(rows), draws[rows], negatives[rows]) for rows in chunks)
        if self._pool is None:
            for job in jobs:
                yield from _lines(*self._here, job)
            return
        try:
            for found in self._pool.map(_lines, *zip(*[self._here] * len(chunks), strict=True), jobs):
                yield from found
        except BrokenProcessPool:
            raise MachineError(
                "a mining process was ended (out of memory?)", "Use fewer --processes."
            ) from None


@lru_cache(maxsize=1)
def _source(path: str, language: str) -> Source:
    return Source(Index.open(Path(path)), language)


def _lines(path: str, language: str, objective: str, job: _Job) -> list[_Line]:
    source, how = _source(path, language), all_objectives()[objective]
    name, pairs, draws, negatives = job
    found: list[_Line] = []
    for i in range(len(pairs)):
        asked = how.query(source, pairs, i, int(draws[i]))
        if asked is None:
            found.append((None, (0, 0, 0.0, 0)))
            continue
        query = asked.query.replace("\u2019", "'")  # as HLP's released pairs have it
        pair = Pair(
            query=query,
            positive=_context(source, int(pairs.positive[i]), asked.positive),
            negatives=(_context(source, int(negatives[i])),) if negatives[i] >= 0 else (),
            objective=name,
            query_title=str(source.index.passages.table.value("title", int(pairs.query[i]))),
            query_id=source.index.passages.ids([int(pairs.query[i])])[0],
            evidence=_evidence(source, pairs, i),
        )
        words = _words(query)
        inside = set(_words(asked.positive))
        share = sum(word in inside for word in words) / len(words) if words else 0.0
        missing = int(negatives[i] < 0)
        found.append((pair_line(pair), (len(query.split()), len(asked.positive.split()), share, missing)))
    return found


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def _context(source: Source, row: int, text: str | None = None) -> Context:
    passage = source.index.passages[row]
    return Context(passage.title, passage.text if text is None else text, passage.id)


def _evidence(source: Source, pairs: Pairs, i: int) -> dict[str, Any]:
    """The links that made the pair, by what they do in it."""
    links = {"query": pairs.query_link, "positive": pairs.positive_link, "shared": pairs.shared_link}
    return {role: link_evidence(source, int(rows[i])) for role, rows in links.items() if rows[i] >= 0}
