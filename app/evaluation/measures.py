"""Measures of a ranking, one value a query: on answers, on judgements, and everything of ir-measures.

    accuracy@K, all@K, ...                             those of `own_measures`
    nDCG@10, R@100, MRR@10, Success@1, AP(rel=2), ...  over judgements, computed by ir-measures

MRR@K is ir-measures' RR@K under the name that MS MARCO gave it; both names are accepted. A query that is
judged but has no results counts 0. A query without answers has no accuracy, one without judgements no
other measure: such queries are skipped, and the number of values says how many were measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ir_measures
import numpy as np
from numpy.typing import NDArray

from linkseek.app.evaluation.judgements import relevant_results
from linkseek.app.evaluation.own_measures import OWN, Needs, OwnMeasure, own_measure, own_names
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.plugins import load_plugins
from linkseek.indexer.program.text import nearest
from linkseek.retriever.ranking import Query, Ranking

SEED = 12345
RESAMPLES = 1000
_BLOCK = 1 << 22  # indices drawn at a time: 32 MB
_DECIMALS = 12
_Z = 1.959964  # the standard normal's 97.5th percentile

_MISSING = {
    "answers": ("no question has answers", "Omit it."),
    "judgements": ("no judgements", "Give --qrels FILE."),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure by its name in reports.

    cutoff: how many results it looks at, None for all. judged: the ir-measures object, or else own: the
    entry of `OWN`.
    """

    name: str
    cutoff: int | None
    needs: Needs
    judged: Any = None
    own: OwnMeasure | None = None

    def of(self, results: Iterable[NDArray[np.int64]], grades: Iterable[Mapping[int, int]]) -> list[float]:
        """The values of queries by an own measure, as `OwnMeasure.value` computes them."""
        assert self.own and self.cutoff
        value, cutoff = self.own.value, self.cutoff
        return [value(rows.tolist(), known, cutoff) for rows, known in zip(results, grades, strict=True)]


def mean_of(values: Sequence[float] | NDArray[np.float64]) -> float:
    """The mean of all values, to twelve decimals: means that are equal but for rounding are equal."""
    return float(np.round(np.mean(values), _DECIMALS))


@dataclass(frozen=True, slots=True)
class Values:
    """A measure's values, float64 [n], for n of the queries, in the queries' order."""

    query_ids: tuple[str, ...]
    values: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """The mean over these queries (`mean_of`)."""
        return mean_of(self.values)

    def by_query(self) -> dict[str, float]:
        """Query id -> value, sorted by id, so that random draws do not depend on the order."""
        return dict(sorted(zip(self.query_ids, self.values.tolist(), strict=True)))


def parse_measure(name: str) -> Measure:
    """A measure from its name. Raises `UsageError` if it is unknown or cannot be computed here."""
    load_plugins()
    if found := own_measure(name):
        own, own_cutoff = found
        return Measure(name, own_cutoff, own.needs, own=own)
    hint = (
        f"Known: {own_names()}, and those of ir-measures: nDCG@K, MRR@K, R@K, P@K, Success@K, AP@K, ... "
        "(https://ir-measur.es/en/latest/measures.html)."
    )
    try:
        judged = ir_measures.parse_measure(name)
        supported = ir_measures.DefaultPipeline.supports(judged)  # type: ignore[no-untyped-call]
    except (ValueError, NameError, KeyError, TypeError, AssertionError) as error:
        reason = f"it needs a cutoff: {name}@K" if "<object object" in str(error) else error
        raise UsageError(f"--measure {name}: {reason}", _meant(name) + hint) from None
    if not supported:
        raise UsageError(f"--measure {name}: ir-measures cannot compute it here", hint)
    cutoff = judged.params.get("cutoff")
    if cutoff is not None and (not isinstance(cutoff, int) or cutoff < 1):  # @0 crashes trec_eval
        raise UsageError(f"--measure {name}: the cutoff must be at least 1", hint)
    return Measure(re.sub(r"^RR\b", "MRR", repr(judged)), cutoff, "judgements", judged)


def _meant(name: str) -> str:
    """A hint for a name of trec_eval, such as ndcg_cut_10 or P.5, or a misspelt one; else ""."""
    try:
        return f"Did you mean {ir_measures.parse_trec_measure(name)[0]}? "
    except ValueError:
        pass
    registry = ir_measures.measures.registry
    theirs = {m.NAME if m.NAME.lower() == key.lower() else key for key, m in registry.items()}
    known = {*OWN, "MRR", *theirs} - {"Accuracy"}
    stem, at, cutoff = name.partition("@")
    if not at and (digits := re.search(r"(?<=\D)[1-9]\d*$", name)):
        stem, cutoff = name[: digits.start()], digits[0]
    meant = f"Did you mean {stem}" if stem in known else nearest(stem, known).removesuffix("?")
    suggested = f"{meant}@{cutoff}" if cutoff else meant
    is_other = suggested != f"Did you mean {name}" and meant.startswith("Did you mean")
    return f"{suggested}? " if is_other else ""


ACCURACY = ("accuracy@1", "accuracy@5", "accuracy@20", "accuracy@100")
"""The default measures if questions have answers."""

JUDGED = ("nDCG@10", "MRR@10", "R@20", "R@100")
"""The default measures if there are judgements."""

MAIN = ("accuracy@20", "nDCG@10")
"""The main measure is the first of these that is measured, else the first of all."""


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """The measures of an evaluation. notes: which were skipped and why, for people."""

    accuracy: tuple[Measure, ...]
    judged: tuple[Measure, ...]
    notes: list[str] = field(default_factory=list)

    @property
    def main(self) -> Measure:
        """The measure that intervals, stars and charts show first."""
        measures = [*self.accuracy, *self.judged]
        return next((m for name in MAIN for m in measures if m.name == name), measures[0])


def plan_measures(
    names: Sequence[str], queries: Sequence[Query], has_qrels: bool, depth: int, usual: Sequence[str] = ()
) -> MeasurePlan:
    """The measures that `names` lists, or else all usual ones that these data allow.

    usual: a test set's own; without them `ACCURACY` and `JUDGED`. Raises `UsageError` for a measure
    that is unknown, lacks its answers or judgements, or looks deeper than `depth`; `InputError` if there
    are neither answers nor judgements.
    """
    if not queries:
        raise InputError("there are no questions", "Give a test set that has some.")
    available = {"answers": any(query.answers for query in queries), "judgements": has_qrels}
    if not any(available.values()):
        raise InputError(
            "nothing can be measured: no question has answers, and there are no judgements",
            "Give --qrels FILE, or questions with answers; `linkseek search --queries` writes a run without.",
        )
    measures = {m.name: m for m in map(parse_measure, names)}
    if not names:
        measures = {
            m.name: m for m in map(parse_measure, usual or (*ACCURACY, *JUDGED)) if available[m.needs]
        }
    notes = []
    deeper = [m for m in measures.values() if m.cutoff is not None and m.cutoff > depth]
    if deeper and names:
        raise UsageError(
            f"--measure {deeper[0].name}: only {depth} results are retrieved",
            f"Give --depth {deeper[0].cutoff}.",
        )
    if deeper:
        notes.append(f"skipped, deeper than --depth {depth}: {', '.join(m.name for m in deeper)}")
    for measure in measures.values():
        ours = (
            measure.name.lower() if measure.judged and measure.name.lower().partition("@")[0] in OWN else ""
        )
        if not available[measure.needs]:
            missing, hint = _MISSING[measure.needs]
            meant = f"Did you mean {ours}? " if ours else ""
            raise UsageError(f"--measure {measure.name}: {missing}", meant + hint)
        if ours:
            notes.append(f"{measure.name} is ir-measures' own measure, not {ours}")
    planned = [measure for measure in measures.values() if measure not in deeper]
    if not planned:
        raise UsageError(f"--depth {depth}: no measure applies to so few results", "Give --measure.")
    answers, judged = (tuple(m for m in planned if m.needs == needs) for needs in available)
    return MeasurePlan(answers, judged, notes)


def measure_accuracy(
    queries: Sequence[Query], answering: NDArray[np.bool_], measures: Sequence[Measure]
) -> dict[str, Values]:
    """Own measures over answers, such as accuracy@K, of the queries that have answers.

    answering: bool [Q, k], which results contain an answer (`answers.find_answers`).
    """
    with_answers = np.array([bool(query.answers) for query in queries], np.bool_)  # [Q]
    ids = tuple(query.id for query in queries if query.answers)
    rows = np.where(answering[with_answers], 0, -1)  # [n, k]
    return {m.name: Values(ids, np.array(m.of(rows, [{}] * len(rows)), np.float64)) for m in measures}


def measure_judged(
    ranking: Ranking, relevance: Mapping[str, Mapping[int, int]], measures: Sequence[Measure]
) -> dict[str, Values]:
    """Measures over judgements, of the queries that have any.

    relevance: query id -> number -> relevance, in the numbers of the ranking's rows.
    """
    place = {query: number for number, query in enumerate(ranking.query_ids) if query in relevance}
    values = {measure.name: np.zeros(len(place)) for measure in measures}  # each float64 [n]
    if own := [measure for measure in measures if measure.own]:
        hits = relevant_results(ranking, relevance)[list(place.values())]  # [n, k]
        rows = np.where(hits, ranking.rows[list(place.values())], -1)  # [n, k]
        for measure in own:
            values[measure.name][:] = measure.of(rows, map(relevance.__getitem__, place))
    # Plain numbers as ids and ranks as scores: some of the programs behind ir-measures accept
    # nothing else, and no two of them order equal scores alike.
    qrels = {
        # trec_eval crashes on a query whose grades are all below -1, and counts -1 as any other below 0
        str(number): {str(row): max(value, -1) for row, value in relevance[query].items()}
        for query, number in place.items()
    }
    run = {
        # backwards: of an item that occurs twice (by a redirect's id), the better rank stays
        str(number): {str(row): float(-rank) for rank, (row, _) in reversed([*enumerate(results)])}
        for number in place.values()
        if (results := ranking.results(number))
    }
    column = {number: i for i, number in enumerate(qrels)}
    name_of = {measure.judged: measure.name for measure in measures if measure.judged is not None}
    for metric in ir_measures.iter_calc(list(name_of), qrels, run) if name_of else ():
        values[name_of[metric.measure]][column[metric.query_id]] = metric.value
    return {name: Values(tuple(place), value) for name, value in values.items()}


def accuracy_curve(queries: Sequence[Query], answering: NDArray[np.bool_]) -> NDArray[np.float64]:
    """accuracy@1, @2, ... @k, float64 [k]; arguments as in `measure_accuracy`."""
    with_answers = np.array([bool(query.answers) for query in queries], np.bool_)  # [Q]
    return np.asarray(
        np.logical_or.accumulate(answering[with_answers], axis=1).mean(axis=0, dtype=np.float64)
    )


def recall_curve(ranking: Ranking, relevance: Mapping[str, Mapping[int, int]]) -> NDArray[np.float64]:
    """R@1, R@2, ... R@k, float64 [k]; arguments as in `measure_judged`."""
    judged = [number for number, query in enumerate(ranking.query_ids) if query in relevance]
    relevant = np.array(
        [sum(value > 0 for value in relevance[ranking.query_ids[number]].values()) for number in judged]
    )  # [n]
    hits = relevant_results(ranking, relevance)[judged].cumsum(axis=1)  # [n, k]
    return np.asarray((hits / np.maximum(relevant, 1)[:, None]).mean(axis=0))


def bootstrap_interval(values: NDArray[np.float64], seed: int = SEED) -> tuple[float, float]:
    """The 95 % interval of the mean of values [n], between 0 and 1; see `bootstrap_intervals`.

    Where all are 0 or all are 1, resamples are all alike: there it is Wilson's score interval (1927), of n
    successes in n trials, which is right for a share and too wide for a mean of other values.
    """
    if not values.any() or (values == 1).all():
        far = float(np.round(_Z**2 / (len(values) + _Z**2), _DECIMALS))
        return (1 - far, 1.0) if values.any() else (0.0, far)
    [[low], [high]] = bootstrap_intervals(values[:, None], seed).tolist()
    return low, high


def bootstrap_intervals(values: NDArray[np.float64], seed: int = SEED) -> NDArray[np.float64]:
    """The 95 % intervals of the means of columns [n, c] by the percentile bootstrap, float64 [2, c].

    Efron and Tibshirani 1993, chapter 13.
    """
    return intervals_of(resampled_means(values, seed))


def intervals_of(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """The 95 % percentile intervals of resampled means [r, c], float64 [2, c]."""
    return np.round(np.percentile(means, (2.5, 97.5), axis=0), _DECIMALS)


def resampled_means(values: NDArray[np.float64], seed: int = SEED) -> NDArray[np.float64]:
    """The means of columns [n, c] in each resample of the rows (queries), float64 [RESAMPLES, c].

    The rows drawn are the same for every column; the same number of queries and seed give the same resamples.
    """
    n = len(values)
    generator = np.random.default_rng(seed)
    block = max(1, min(RESAMPLES, _BLOCK // n))
    means = []  # each [block, c]
    for done in range(0, RESAMPLES, block):
        size = min(block, RESAMPLES - done)
        drawn = generator.integers(0, n, (size, n)) + np.arange(size)[:, None] * n  # [block, n]
        often = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)  # [block, n]
        means.append(often @ values / n)
    return np.concatenate(means)
