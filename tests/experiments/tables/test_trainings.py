"""Trainings as a random factor: by hand, against scipy, and on made-up rows."""

import numpy as np
import pytest
from scipy import stats

from experiments.tables.trainings import Trainings, compare_rows, estimate


def rows(**trainings) -> dict[str, dict[str, Trainings]]:
    """Rows by name, each float64 [S, n] or, for a single run, [n]."""
    measured = {}
    for name, values in trainings.items():
        values = np.atleast_2d(np.asarray(values, np.float64))
        ids = tuple(f"q{number}" for number in range(values.shape[-1]))
        measured[name] = {"m": Trainings(ids, values)}
    return measured


def test_the_two_factors_by_hand():
    # differences of queries 1, 2, 3: variance 1 over 3; trainings 0, 2 and 5, 5, 8: 2 over 2 and 3 over 3
    both = estimate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0]), np.array([5.0, 5.0, 8.0]))
    variance = 1 / 3 + 1 + 1
    freedom = variance**2 / ((1 / 3) ** 2 / 2 + 1 / 1 + 1 / 2)
    assert both.mean == 2
    assert both.error == pytest.approx(variance**0.5) and both.freedom == pytest.approx(freedom)
    t = stats.t(freedom)
    assert both.p() == pytest.approx(2 * t.sf(2 / variance**0.5))
    assert both.interval() == pytest.approx((2 - t.ppf(0.975) * both.error, 2 + t.ppf(0.975) * both.error))
    assert both.p_equivalence(1) > 0.5 > both.p_equivalence(5) == pytest.approx(t.sf(3 / both.error))


def test_with_one_training_it_is_the_paired_t_test_and_with_one_query_welchs():
    generator = np.random.default_rng(0)
    a, b = generator.random((2, 40))
    assert estimate(b - a, a[:1], b[:1]).p() == pytest.approx(stats.ttest_rel(b, a).pvalue)
    a, b = generator.random((2, 3))
    welch = stats.ttest_ind(b, a, equal_var=False)
    assert estimate(np.array([b.mean() - a.mean()]), a, b).p() == pytest.approx(welch.pvalue)


def test_what_has_no_spread():
    same = estimate(np.zeros(5), np.zeros(3), np.zeros(3))
    assert (same.p(), same.interval(), same.p_equivalence(0.1)) == (1.0, (0.0, 0.0), 0.0)
    moved = estimate(np.ones(5), np.zeros(3), np.ones(3))
    assert (moved.p(), moved.p_equivalence(0.1)) == (0.0, 1.0)
    with pytest.raises(ValueError, match="no spread"):
        estimate(np.ones(1), np.ones(1))


def test_false_alarms_of_rows_whose_trainings_differ():
    """500 pairs of methods that are equally good, three trainings each: the test over queries alone fails."""
    generator = np.random.default_rng(5)
    alarms = {"both": 0, "queries": 0, "covered": 0}
    for _ in range(500):
        ability = generator.normal(0, 0.3, 400)  # of queries, the same for both
        luck = generator.normal(0, 0.02, (2, 3, 1))  # of trainings
        a, b = 0.5 + ability + luck + generator.normal(0, 0.1, (2, 3, 400))
        both = estimate((b - a).mean(axis=0), a.mean(axis=1), b.mean(axis=1))
        low, high = both.interval()
        alarms["both"] += both.p() < 0.05
        alarms["covered"] += low <= 0 <= high
        alarms["queries"] += stats.ttest_rel(b.mean(axis=0), a.mean(axis=0)).pvalue < 0.05
    assert 0.02 <= alarms["both"] / 500 <= 0.07
    assert alarms["covered"] == 500 - alarms["both"]
    assert alarms["queries"] / 500 > 0.4


def test_a_comparison_takes_trainings_as_random():
    generator = np.random.default_rng(1)
    a = (generator.random((3, 300)) < np.array([[0.30], [0.40], [0.50]])).astype(np.float64)
    b = (generator.random((3, 300)) < np.array([[0.45], [0.55], [0.65]])).astype(np.float64)
    [random] = compare_rows(rows(a=a, b=b), ["m"])
    [fixed] = compare_rows(rows(a=a.mean(axis=0), b=b.mean(axis=0)), ["m"])
    assert random.trainings == [3, 3] and fixed.trainings is None
    assert (random.difference, random.p_randomisation) == (fixed.difference, fixed.p_randomisation)
    assert fixed.significant and not random.significant
    assert random.low < 0 < fixed.low and random.p == random.p_t_holm > fixed.p_t


def test_a_comparison_of_trainings_over_the_questions_of_both():
    a = np.array([[0.0, 1, 1, 0], [1, 1, 0, 0]])
    measured = rows(a=a, b=[1.0, 1, 0, 1])
    measured["b"] = {"m": Trainings(("q2", "q0"), np.array([[0.0, 1.0]]))}
    [pair] = compare_rows(measured, ["m"])
    expected = estimate(np.array([0.5, -0.5]), a[:, [0, 2]].mean(axis=1), np.array([0.5]))
    assert (pair.queries, pair.trainings, pair.p_t) == (2, [2, 1], expected.p())
