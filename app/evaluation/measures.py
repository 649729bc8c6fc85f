"""Measures of a ranking, one value a query: answer accuracy, and everything that ir-measures knows.

    accuracy@K       1 if an answer stands in one of the first K passages, else 0 (DPR's measure)
    nDCG@10, R@100, MRR@10, Success@1, AP(rel=2), ...       over judgements, computed by ir-measures

MRR@K is ir-measures' RR@K under the name that MS MARCO gave it; both names are taken. A query that
is judged but has no results counts 0. A query without answers has no accuracy, one without
judgements no other measure: they are left out, and the number of values says how many were not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ir_measures
import numpy as np
from numpy.typing import NDArray

from indexer.errors import InputError, UsageError
from retriever.ranking import Query, Ranking

RESAMPLES = 1000
_SEED = 12345
_BLOCK = 1 << 22  # indices drawn at a time: 32 MB


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure by its name in reports.

    cutoff: how many results it looks at, None for all. judged: the ir-measures object; None for
    answer accuracy, which needs no judgements.
    """

    name: str
    cutoff: int | None
    judged: Any = None


@dataclass(frozen=True, slots=True)
class Values:
    """A measure's values, float64 [n], for n of the queries, in the queries' order."""

    query_ids: tuple[str, ...]
    values: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """The mean over these queries."""
        return float(self.values.mean())


def parse_measure(name: str) -> Measure:
    """A measure from its name. Raises `UsageError` if it is unknown or cannot be computed here."""
    accuracy = re.fullmatch(r"accuracy@([1-9]\d*)", name)
    if accuracy:
        return Measure(name, int(accuracy[1]))
    try:
        judged = ir_measures.parse_measure(name)
        supported = ir_measures.DefaultPipeline.supports(judged)  # type: ignore[no-untyped-call]
    except (ValueError, NameError, KeyError, TypeError, AssertionError) as error:
        raise UsageError(f"--measure {name}: {error}", _KNOWN) from None
    if not supported:
        raise UsageError(f"--measure {name}: ir-measures cannot compute it here", _KNOWN)
    cutoff = judged.params.get("cutoff")
    if cutoff is not None and (not isinstance(cutoff, int) or cutoff < 1):  # @0 crashes trec_eval
        raise UsageError(f"--measure {name}: the cutoff must be at least 1", _KNOWN)
    return Measure(re.sub(r"^RR\b", "MRR", repr(judged)), cutoff, judged)


ACCURACY = ("accuracy@1", "accuracy@5", "accuracy@20", "accuracy@100")
"""Measured by default where questions have answers."""

JUDGED = ("nDCG@10", "MRR@10", "R@20", "R@100")
"""Measured by default where there are judgements."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured. notes: what was left out and why, for people."""

    accuracy: tuple[Measure, ...]
    judged: tuple[Measure, ...]
    notes: list[str] = field(default_factory=list)


def plan_measures(names: Sequence[str], queries: Sequence[Query], has_qrels: bool, depth: int) -> Plan:
    """The measures that were asked for, or else all usual ones that these data allow.

    Raises `UsageError` for a measure that is unknown, needs what is not there, or looks deeper than
    `depth`; `InputError` if there is nothing to measure by.
    """
    has_answers = any(query.answers for query in queries)
    if not has_answers and not has_qrels:
        raise InputError(
            "there is nothing to measure by: no question has answers, and there are no judgements",
            "Give judgements with --qrels FILE, or questions with answers.",
        )
    usual = [*(ACCURACY if has_answers else ()), *(JUDGED if has_qrels else ())]
    measures = {m.name: m for m in map(parse_measure, names or usual)}.values()
    notes = []
    deeper = [m for m in measures if m.cutoff is not None and m.cutoff > depth]
    if deeper and names:
        raise UsageError(
            f"--measure {deeper[0].name}: only {depth} results are retrieved",
            f"Give --depth {deeper[0].cutoff}.",
        )
    if deeper:
        notes.append(f"left out, deeper than --depth {depth}: {', '.join(m.name for m in deeper)}")
    for measure in measures:
        if measure.judged is None and not has_answers:
            raise UsageError(f"--measure {measure.name}: no question has answers", "Leave it out.")
        if measure.judged is not None and not has_qrels:
            raise UsageError(f"--measure {measure.name}: no judgements", "Give --qrels FILE.")
    kept = [measure for measure in measures if measure not in deeper]
    if not kept:
        raise UsageError(f"--depth {depth}: no measure looks at so few results", "Give --measure.")
    return Plan(
        tuple(m for m in kept if m.judged is None),
        tuple(m for m in kept if m.judged is not None),
        notes,
    )


def measure_accuracy(
    queries: Sequence[Query], found: NDArray[np.bool_], measures: Sequence[Measure]
) -> dict[str, Values]:
    """accuracy@K of the queries that have answers.

    found: bool [Q, k], which results hold an answer (`answers.find_answers`).
    """
    with_answers = np.array([bool(query.answers) for query in queries], np.bool_)  # [Q]
    ids = tuple(query.id for query in queries if query.answers)
    measured = {}
    for measure in measures:
        hit = np.asarray(found[with_answers, : measure.cutoff].any(axis=1))  # [n]
        measured[measure.name] = Values(ids, hit.astype(np.float64))
    return measured


def measure_judged(
    ranking: Ranking, relevance: Mapping[str, Mapping[int, int]], measures: Sequence[Measure]
) -> dict[str, Values]:
    """Measures over judgements, of the queries that have any.

    relevance: query id -> number -> relevance, in the numbers of the ranking's rows.
    """
    place = {query: number for number, query in enumerate(ranking.query_ids) if query in relevance}
    # Plain numbers as ids and ranks as scores: some of the programs behind ir-measures accept
    # nothing else, and no two of them order equal scores alike.
    qrels = {
        str(number): {str(row): value for row, value in relevance[query].items()}
        for query, number in place.items()
    }
    run = {
        # backwards: of an item that was found twice (by a redirect's id), the better rank stays
        str(number): {str(row): float(-rank) for rank, (row, _) in reversed([*enumerate(results)])}
        for number in place.values()
        if (results := ranking.results(number))
    }
    column = {number: i for i, number in enumerate(qrels)}
    values = {measure.judged: np.zeros(len(place)) for measure in measures}  # each float64 [n]
    for metric in ir_measures.iter_calc(list(values), qrels, run):
        values[metric.measure][column[metric.query_id]] = metric.value
    return {measure.name: Values(tuple(place), values[measure.judged]) for measure in measures}


def bootstrap_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of the mean of values [n] by the percentile bootstrap, with a fixed seed.

    Efron and Tibshirani 1993, chapter 13. The same number of queries gives the same resamples.
    """
    n = len(values)
    generator = np.random.default_rng(_SEED)
    block = max(1, min(RESAMPLES, _BLOCK // n))
    means = [
        values[generator.integers(0, n, (min(block, RESAMPLES - done), n))].mean(axis=1)
        for done in range(0, RESAMPLES, block)
    ]  # each [block]
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5))
    return float(low), float(high)


_KNOWN = (
    "Known: accuracy@K, and what ir-measures computes: nDCG@K, MRR@K, R@K, P@K, Success@K, AP@K, "
    "... (https://ir-measur.es/en/latest/measures.html)."
)
