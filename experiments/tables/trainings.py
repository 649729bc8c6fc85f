"""Differences of rows of which some were trained several times: trainings are a second random factor.

Interval, t-test and equivalence are then `estimate`'s, and the t-test decides; the randomisation test is over
queries alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # whose parts are loaded when they are used
from numpy.typing import NDArray

from linkseek.app.evaluation.measures import Values
from linkseek.app.evaluation.results import MARGIN, TINY, Comparison
from linkseek.app.evaluation.significance import compare, holm


class RowComparison(Comparison):
    """Row b against row a. trainings: how many of a and of b, where either has several; None: single runs."""

    trainings: list[int] | None = None

    @property
    def p(self) -> float:
        """The p that decides, after Holm's correction: the t-test's where trainings are random."""
        return self.p_t_holm if self.trainings else self.p_randomisation_holm


class Trainings(NamedTuple):
    """The values of a row's trainings for some queries, float64 [S, n]."""

    query_ids: tuple[str, ...]
    values: NDArray[np.float64]


Rows = Mapping[str, Mapping[str, Trainings]]
"""Row -> measure -> values."""


def compare_rows(rows: Rows, measures: Sequence[str], baseline: str | None = None) -> list[RowComparison]:
    """Every pair of rows, or those with the baseline, as `compare` does it of single runs."""
    means = {
        row: {measure: Values(each.query_ids, each.values.mean(axis=0)) for measure, each in of.items()}
        for row, of in rows.items()
    }
    pairs = [
        _of_both(pair, rows[pair.a][pair.measure], rows[pair.b][pair.measure])
        for pair in compare(means, measures, baseline=baseline)
    ]
    by_measure = {m: [pair for pair in pairs if pair.measure == m] for m in dict.fromkeys(measures)}
    return [
        pair.model_copy(update={"p_t_holm": p})
        for of in by_measure.values()
        for pair, p in zip(of, holm([pair.p_t for pair in of]), strict=True)
    ]


def _of_both(pair: Comparison, a: Trainings, b: Trainings) -> RowComparison:
    """A pair with trainings random, where one of them has several."""
    compared = RowComparison(**pair.model_dump())
    if len(a.values) == len(b.values) == 1:
        return compared
    ids = sorted({*a.query_ids} & {*b.query_ids})
    means = [dict(zip(each.query_ids, each.values.mean(axis=0).tolist(), strict=True)) for each in (a, b)]
    differences = np.array([means[1][id_] - means[0][id_] for id_ in ids])  # [n]
    differences[np.abs(differences) < TINY] = 0.0
    difference = estimate(differences, *(_means(each, {*ids}) for each in (a, b)))
    low, high = difference.interval()
    unseen = (1.0 - MARGIN) ** len(ids)
    return compared.model_copy(
        update={
            "low": low,
            "high": high,
            "p_t": difference.p(),
            "p_equivalence": max(difference.p_equivalence(MARGIN), unseen),
            "trainings": [len(a.values), len(b.values)],
        }
    )


def _means(row: Trainings, ids: set[str]) -> NDArray[np.float64]:
    """The mean of each training over some of the queries, float64 [S]."""
    return np.asarray(row.values[:, [id_ in ids for id_ in row.query_ids]].mean(axis=1))


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean, its standard error, and the degrees of freedom of the error."""

    mean: float
    error: float
    freedom: float

    def interval(self) -> tuple[float, float]:
        """The 95 % interval."""
        far = float(scipy.special.stdtrit(self.freedom, 0.975)) * self.error if self.error else 0.0
        return self.mean - far, self.mean + far

    def p(self) -> float:
        """Two-sided, of the mean being 0."""
        if not self.error:
            return 1.0 if self.mean == 0 else 0.0
        return 2.0 * float(scipy.special.stdtr(self.freedom, -abs(self.mean) / self.error))

    def p_equivalence(self, margin: float) -> float:
        """Of the mean being `margin` or more from 0: the larger of two one-sided p (Schuirmann 1987)."""
        inside = margin - abs(self.mean)
        if not self.error:
            return 0.0 if inside > 0 else 1.0
        return float(scipy.special.stdtr(self.freedom, -inside / self.error))


def estimate(by_query: NDArray[np.float64], *trainings: NDArray[np.float64]) -> MeanEstimate:
    """The mean of a row, or of a difference of rows, with trainings and queries random.

    The mean over S trainings and Q queries varies with either, and a test over queries alone says nothing
    about the next training (Clark 1973, The language-as-fixed-effect fallacy). The variance of a difference
    of rows a and b is

        V = s_q^2 / Q + s_a^2 / S_a + s_b^2 / S_b

    s_q: the standard deviation over queries of the differences of the means over trainings; s_a, s_b: over
    trainings, of their means over queries. The noise of single answers is in both, so V errs on the safe
    side. Student's t with Satterthwaite's (1946) degrees of freedom: with three trainings a percentile
    bootstrap over them is too narrow by a third and more. Trainings are taken as independent; a row with one
    is taken as it is.

    by_query: float64 [n], means over trainings. trainings: for each row float64 [S], means over queries; the
    variance of a row with one is not known, and is taken as 0. Raises `ValueError` where all of them, and
    queries, are single: then there is no error to estimate.
    """
    several = [values for values in (by_query, *trainings) if len(values) > 1]
    parts = [(float(values.var(ddof=1)) / len(values), len(values) - 1) for values in several]
    if not parts:
        raise ValueError("one query and one training have no spread")
    variance = sum(part for part, _ in parts)
    mean = float(by_query.mean())
    if variance < np.finfo(np.float64).eps ** 2:
        return MeanEstimate(mean, 0.0, 1.0)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    return MeanEstimate(mean, float(np.sqrt(variance)), freedom)
