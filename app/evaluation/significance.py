"""Is one pipeline better than another? Paired tests of every pair, for every measure.

    randomisation    how often the mean difference is as large if the sign of each query's difference is
                     drawn at random (Fisher 1935; Smucker, Allan and Carterette 2007)
    t-test           Student's, of the paired differences
    Holm             both, over all pairs of one measure (Holm 1979): the chance of one false alarm
                     among them stays below the level
    equivalence      whether the difference is below `MARGIN`: two one-sided tests (Schuirmann 1987) by the
                     paired bootstrap. Without it, "no significant difference" is not "equal"

The first two tests are two-sided. Queries are paired by id and sorted by it, so their order changes nothing.
A query that a run lacks has the value 0 (`measures`) and counts; pipelines that were not measured on the same
queries, such as a run without judgements for some, are compared on the queries that both have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy  # whose parts are loaded when they are used
from numpy.typing import NDArray

from linkseek.app.evaluation.measures import SEED, Values, intervals_of, mean_of, resampled_means
from linkseek.app.evaluation.results import MARGIN, TINY, Comparison

SAMPLES = 100_000
"""Draws of the randomisation test, where it is not computed exactly."""

_EXACT = 20  # up to this number of differences, every choice of signs is tried
_BLOCK = 1 << 21  # signs drawn at a time: 16 MB


def compare(
    measured: Mapping[str, Mapping[str, Values]],
    measures: Sequence[str],
    seed: int = SEED,
    baseline: str | None = None,
) -> list[Comparison]:
    """Every pair of pipelines by every measure that both have, in the order given.

    measured: pipeline -> measure -> values. baseline: compare only pairs that contain it. Pairs without a
    common query are skipped.
    """
    pairs: list[dict[str, str]] = []
    differences: list[NDArray[np.float64]] = []  # each [n]
    by_queries: dict[tuple[str, ...], list[int]] = {}  # pairs that are drawn together
    for measure in measures:
        values = {name: run[measure].by_query() for name, run in measured.items() if measure in run}
        for a, b in combinations(values, 2):
            if baseline not in (None, a, b):
                continue
            ids = tuple(id_ for id_ in values[a] if id_ in values[b])
            if ids:
                by_queries.setdefault(ids, []).append(len(pairs))
                pairs.append({"measure": measure, "a": a, "b": b})
                differences.append(np.array([values[b][id_] - values[a][id_] for id_ in ids]))
    compared: dict[int, Comparison] = {}
    for numbers in by_queries.values():
        matrix = np.stack([differences[number] for number in numbers], axis=1)  # [n, c]
        comparisons = _comparisons([pairs[number] for number in numbers], matrix, seed)
        compared |= zip(numbers, comparisons, strict=True)
    in_order = [compared[number] for number in range(len(pairs))]
    families = ([c for c in in_order if c.measure == measure] for measure in dict.fromkeys(measures))
    return [corrected for family in families for corrected in _corrected(family)]


def _comparisons(
    pairs: Sequence[dict[str, str]], differences: NDArray[np.float64], seed: int
) -> list[Comparison]:
    """Comparisons of pairs over the same queries, not yet corrected. differences: float64 [n, c]."""
    differences = np.where(np.abs(differences) < TINY, 0.0, differences)  # [n, c]
    means = resampled_means(differences, seed)  # [r, c]
    low, high = intervals_of(means)  # [c], [c]
    columns: dict[str, NDArray[Any]] = {  # [c] each
        "difference": np.array([mean_of(column) for column in differences.T]),
        "low": low,
        "high": high,
        "p_randomisation": randomisation_test(differences, seed),
        "p_t": t_test(differences),
        "p_equivalence": equivalence_test(means, len(differences), MARGIN),
        "wins": (differences > 0).sum(axis=0),
        "ties": (differences == 0).sum(axis=0),
        "losses": (differences < 0).sum(axis=0),
        "effect_size": effect_sizes(differences),
    }
    comparisons = []
    for place, pair in enumerate(pairs):
        values: dict[str, Any] = {name: column[place].item() for name, column in columns.items()}
        values |= {**pair, "queries": len(differences), "p_randomisation_holm": 1.0, "p_t_holm": 1.0}
        comparisons.append(Comparison(**values))
    return comparisons


def _corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    randomisation = holm([comparison.p_randomisation for comparison in comparisons])
    t = holm([comparison.p_t for comparison in comparisons])
    return [
        comparison.model_copy(update={"p_randomisation_holm": p, "p_t_holm": q})
        for comparison, p, q in zip(comparisons, randomisation, t, strict=True)
    ]


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m times m - i + 1, never falling, at most 1."""
    corrected = [1.0] * len(ps)
    highest = 0.0
    for step, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, ps[place] * (len(ps) - step)))
        corrected[place] = highest
    return corrected


def t_test(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided p [c] of the paired t-test, of the differences in each column [n, c].

    1 where all differences are 0, or there is only one; its limit, 0, where all are the same but not 0.
    """
    n = len(differences)
    mean = differences.mean(axis=0)  # [c]
    if n < 2:
        return np.ones_like(mean)
    error = _deviation(differences) / np.sqrt(n)  # [c]
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2.0 * scipy.special.stdtr(n - 1, -np.abs(mean / error))  # [c]
    return np.where(error > 0, p, np.where(mean == 0, 1.0, 0.0))


def equivalence_test(means: NDArray[np.float64], queries: int, margin: float) -> NDArray[np.float64]:
    """p [c] of a mean difference of `margin` or more, either way: below .05 two pipelines are level.

    means: float64 [r, c], of paired differences, resampled. The larger p of two one-sided tests, and at least
    the chance that no query shows a difference of 1 where a share `margin` of all has one.
    """
    outside = np.maximum((means <= -margin).sum(axis=0), (means >= margin).sum(axis=0))  # [c]
    return np.asarray(np.maximum((1 + outside) / (1 + len(means)), (1.0 - margin) ** queries), np.float64)


def effect_sizes(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cohen's d [c] of differences [n, c]: their mean by their standard deviation; 0 where all are equal."""
    deviation = _deviation(differences) if len(differences) > 1 else np.zeros(differences.shape[1])  # [c]
    return np.where(deviation > 0, differences.mean(axis=0) / np.where(deviation > 0, deviation, 1.0), 0.0)


def _deviation(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviations [c] with n - 1; exactly 0 where all differences are equal."""
    equal = np.ptp(differences, axis=0) < TINY  # [c]
    return np.where(equal, 0.0, np.asarray(differences.std(axis=0, ddof=1), np.float64))


def randomisation_test(
    differences: NDArray[np.float64], seed: int = SEED, samples: int = SAMPLES
) -> NDArray[np.float64]:
    """Two-sided p [c] of the paired randomisation test, of the differences in each column [n, c].

    Exact where the differences that are not 0 are all of one size (accuracy: how often the sign is
    the same is then binomial) or at most 20; else (1 + as extreme) / (1 + samples) over random signs,
    which are the same for all columns.
    """
    p = np.ones(differences.shape[1])  # [c]
    to_sample = []
    for place, column in enumerate(differences.T):
        sizes = np.abs(column[column != 0])  # [m]
        if not len(sizes):
            continue
        if np.ptp(sizes) < TINY:
            p[place] = sign_test(int((column > 0).sum()), int((column < 0).sum()))
        elif len(sizes) <= _EXACT:
            p[place] = _enumerated(sizes, abs(column.sum()))
        else:
            to_sample.append(place)
    if to_sample:
        p[to_sample] = _sampled(differences[:, to_sample], seed, samples)
    return p


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of the exact sign test (Dixon and Mood 1946); ties are left to the caller.

    The chance of `wins`, or anything further from the half, of n = wins + losses fair coins; 1 without any.
    """
    n = wins + losses
    more = max(wins, losses)
    return min(1.0, 2.0 * float(scipy.special.bdtrc(more - 1, n, 0.5))) if n else 1.0


def _enumerated(sizes: NDArray[np.float64], observed: float) -> float:
    """The share of all choices of signs whose sum is as far from 0. sizes: float64 [m], positive."""
    sums = sizes[:1]  # the first sign is +: with every choice its opposite is as far from 0
    for size in sizes[1:]:
        sums = np.concatenate([sums + size, sums - size])  # [2, 4, ... 2**(m-1)]
    return float((np.abs(sums) >= observed - _slack(sizes)).mean())


def _sampled(differences: NDArray[np.float64], seed: int, samples: int) -> NDArray[np.float64]:
    n = len(differences)
    some = (differences != 0).any(axis=1)  # [n]
    used = differences[some]  # [u, c]
    total = used.sum(axis=0)  # [c]
    limit = np.abs(total) - _slack(used)  # [c]
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // n)
    extreme = np.zeros(len(total), np.int64)  # [c]
    for done in range(0, samples, block):
        size = min(block, samples - done)
        # a bit for each query, used or not: which queries others differ in must not move the draws
        drawn = generator.integers(0, 256, (size, -(-n // 8)), np.uint8)
        flipped = np.unpackbits(drawn, axis=1, count=n)[:, some].astype(np.float64)  # [block, u]
        sums = total - 2.0 * (flipped @ used)  # [block, c]
        extreme += (np.abs(sums) >= limit).sum(axis=0)
    return np.asarray((1 + extreme) / (1 + samples), np.float64)


def _slack(sizes: NDArray[np.float64]) -> Any:
    """The rounding error of a sum that is exactly as large as the observed one."""
    return 1e-9 * np.abs(sizes).sum(axis=0)
