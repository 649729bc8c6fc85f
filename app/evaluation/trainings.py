"""Rows that were trained several times: trainings and queries are both random.

The mean over S trainings and Q queries varies with either, and a test over queries alone says nothing about
the next training (Clark 1973, The language-as-fixed-effect fallacy). The variance of a difference of rows a
and b is

    V = s_q^2 / Q + s_a^2 / S_a + s_b^2 / S_b

s_q: the standard deviation over queries of the differences of the means over trainings; s_a, s_b: over
trainings, of their means over queries. The noise of single answers is in both, so V errs on the safe side.
Student's t with Satterthwaite's (1946) degrees of freedom: with three trainings a percentile bootstrap over
them is too narrow by a third and more. Trainings are taken as independent; a row with one is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # whose parts are loaded when they are used
from numpy.typing import NDArray


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
