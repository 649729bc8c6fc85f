"""Paired tests: by hand, against scipy and plain enumeration, and what goes wrong in other programs."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from linkseek.app.evaluation import significance
from linkseek.app.evaluation.measures import (
    Values,
    bootstrap_intervals,
    measure_judged,
    parse_measure,
    resampled_means,
)
from linkseek.app.evaluation.results import MARGIN
from linkseek.app.evaluation.significance import (
    compare,
    effect_sizes,
    equivalence_test,
    holm,
    randomisation_test,
    t_test,
)
from linkseek.retriever.ranking import Ranking


def column(values) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


def values_of(values, ids=None) -> Values:
    ids = ids or [f"q{number}" for number in range(len(values))]
    return Values(tuple(ids), np.array(values, np.float64))


def one(a, b, **options):
    """The comparison of two pipelines by one measure."""
    [comparison] = compare({"a": {"m": values_of(a)}, "b": {"m": values_of(b)}}, ["m"], **options)
    return comparison


def plain_p(differences) -> float:
    """Every choice of signs, written down."""
    observed = abs(sum(differences))
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(abs(total) >= observed - 1e-9 for total in sums) / len(sums)


# --- the randomisation test ----------------------------------------------------------------------


def test_four_queries_by_hand():
    # of the 16 sums of +-1 +-2 +-3 +-1, six are as far from 0 as the observed 5: +-7, and +-5 twice
    assert randomisation_test(column([1, 2, 3, -1])).tolist() == [6 / 16]


def test_one_size_is_the_binomial_by_hand():
    # 5 wins, 1 loss, 3 ties: 0, 1, 5 or 6 heads of six coins are (1 + 6 + 6 + 1) / 64
    [p] = randomisation_test(column([1, 1, 1, 1, 1, -1, 0, 0, 0]))
    assert p == pytest.approx(14 / 64)


@pytest.mark.parametrize("draw", range(20))
def test_exact_values_are_those_of_plain_enumeration(draw):
    generator = np.random.default_rng(draw)
    sizes = generator.choice([0.0, 0.1, 0.25, 1 / 3, 1.0], generator.integers(1, 11))
    differences = sizes * generator.choice([-1, 1], len(sizes))
    [p] = randomisation_test(column(differences))
    assert p == pytest.approx(plain_p(differences))


@pytest.mark.parametrize(("wins", "n"), [(30, 40), (20, 40), (39, 40), (4470, 8837)])
def test_one_size_is_the_sign_test(wins, n):
    [p] = randomisation_test(column([0.5] * wins + [-0.5] * (n - wins)))
    assert p == pytest.approx(stats.binomtest(wins, n).pvalue)


def test_sampling_comes_close_to_the_exact_value(monkeypatch):
    differences = np.random.default_rng(3).normal(0.25, 1, (20, 8))  # [n, c]
    exact = randomisation_test(differences)
    monkeypatch.setattr(significance, "_EXACT", 0)
    sampled = randomisation_test(differences)
    assert not np.array_equal(sampled, exact)
    assert sampled == pytest.approx(exact, abs=0.006)  # four standard errors of 100,000 draws
    assert exact.min() < 0.1 < 0.5 < exact.max()


def test_a_sampled_p_is_never_zero():
    differences = column(np.linspace(0.5, 1, 200))
    assert randomisation_test(differences, samples=999).tolist() == [1 / 1000]


def test_ties_of_rounded_sums_count_as_extreme(monkeypatch):
    """Thirds in two sizes: sums that are equal on paper differ in the last digit."""
    differences = [1 / 3, 2 / 3, -1 / 3, 1 / 3, 2 / 3, -2 / 3] * 2
    exact = plain_p([round(3 * d) for d in differences])
    assert randomisation_test(column(differences))[0] == pytest.approx(exact)
    monkeypatch.setattr(significance, "_EXACT", 0)
    assert randomisation_test(column(differences))[0] == pytest.approx(exact, abs=0.006)


def test_a_column_does_not_depend_on_its_neighbours():
    differences = np.random.default_rng(0).normal(0.1, 1, (60, 3))
    differences[:30, 1] = 0
    together = randomisation_test(differences, samples=5000)
    alone = [randomisation_test(differences[:, [place]], samples=5000)[0] for place in range(3)]
    assert together.tolist() == alone


@pytest.mark.parametrize("kind", ["nDCG", "accuracy"])
def test_false_alarms_of_null_differences(kind):
    """1,000 pairs of pipelines that are equally good: about 5 % have p < .05, in both tests."""
    generator = np.random.default_rng(7)
    if kind == "nDCG":
        a, b = generator.beta(0.5, 0.5, (2, 30, 1000))  # [n, c] each
    else:
        a, b = (generator.random((2, 1000, 1000)) < 0.4).astype(np.float64)
    for p in (randomisation_test(a - b, samples=4000), t_test(a - b)):
        assert 0.03 <= (p < 0.05).mean() <= 0.07
        assert 0.45 <= p.mean() <= 0.55


# --- the t-test, Holm, effect sizes --------------------------------------------------------------


def test_t_is_scipys_paired_test():
    generator = np.random.default_rng(1)
    a = generator.random((40, 5))
    b = a + generator.normal(0.08, 0.1, (40, 5))
    p = t_test(b - a)
    assert p == pytest.approx(stats.ttest_rel(b, a).pvalue)
    assert not np.allclose(p, stats.ttest_ind(b, a).pvalue)  # unpaired, it would miss all of this
    assert p.max() < 0.05 < stats.ttest_ind(b, a).pvalue.min()


@pytest.mark.parametrize(
    ("differences", "expected"),
    [([0.0, 0.0, 0.0], 1.0), ([0.1 + 0.2, 0.3, 0.3], 0.0), ([0.0], 1.0), ([0.5], 1.0)],
)
def test_t_of_constant_differences(differences, expected):
    assert t_test(column(differences)).tolist() == [expected]
    assert effect_sizes(column(differences)).tolist() == [0.0]


def test_holm_by_hand():
    # sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04; and the last may not fall below .06
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


# --- comparisons ---------------------------------------------------------------------------------


def test_a_comparison_by_hand():
    comparison = one([0, 1, 0.5, 0.5], [1, 1, 0.75, 0.25])
    assert (comparison.wins, comparison.ties, comparison.losses) == (2, 1, 1)
    assert comparison.difference == 0.25
    # differences 1, .25, -.25: of the 8 sums four are at least 1: 1.5, 1 and their opposites, 1 twice
    assert comparison.p_randomisation == comparison.p_randomisation_holm == 6 / 8
    assert comparison.effect_size == pytest.approx(0.25 / np.std([1, 0, 0.25, -0.25], ddof=1))
    assert comparison.queries == 4
    expected = bootstrap_intervals(column([1, 0, 0.25, -0.25]))[:, 0].tolist()
    assert [comparison.low, comparison.high] == expected
    assert comparison.low < 0 < comparison.high


def test_the_order_of_queries_changes_nothing():
    generator = np.random.default_rng(5)
    values = generator.random((3, 50))
    measured = {name: {"m": values_of(row)} for name, row in zip("abc", values, strict=True)}
    order = generator.permutation(50)
    ids = [f"q{number}" for number in order]
    shuffled = {name: {"m": values_of(row[order], ids)} for name, row in zip("abc", values, strict=True)}
    one_shuffled = {"a": measured["a"], "b": shuffled["b"], "c": measured["c"]}
    expected = compare(measured, ["m"])
    assert compare(shuffled, ["m"]) == expected
    assert compare(one_shuffled, ["m"]) == expected
    assert compare(measured, ["m"], seed=1) != expected


def test_both_directions_have_the_same_p():
    a, b = np.random.default_rng(2).random((2, 30))
    there, back = one(a, b), one(b, a)
    assert (there.p_randomisation, there.p_t) == (back.p_randomisation, back.p_t)
    assert (there.difference, there.wins, there.losses) == (-back.difference, back.losses, back.wins)
    assert one([0, 0], [1, 0]).p_randomisation == 1.0  # one-sided, it would be .5


def test_holm_counts_the_pairs_of_one_measure():
    a = [0, 0, 0, 0, 0, 0]
    b, c = [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1]
    measured = {
        "a": {"m": values_of(a), "n": values_of(a)},
        "b": {"m": values_of(b), "n": values_of(b)},
        "c": {"m": values_of(c)},
    }
    by_pair = {(x.measure, x.a, x.b): x for x in compare(measured, ["m", "n"])}
    of_m, of_n = by_pair["m", "a", "b"], by_pair["n", "a", "b"]
    assert of_m.p_randomisation == of_n.p_randomisation == pytest.approx(2 / 64)
    assert of_m.p_randomisation_holm == pytest.approx(3 * 2 / 64)  # three pairs
    assert of_n.p_randomisation_holm == pytest.approx(2 / 64)  # one


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0.5, 0.25, 1.0], [0.5, 0.25, 1.0]),
        ([0, 0, 0], [0, 0, 0]),
        ([0, 0, 0], [1, 1, 1]),
        ([1, 1, 1], [0.2, 0.4, 1]),
        ([0.3], [0.3]),
        ([0.3], [0.9]),
        ([0.1 + 0.2, 0.5], [0.3, 0.5]),
    ],
)
def test_nothing_is_ever_nan(a, b):
    comparison = one(a, b)
    numbers = [value for value in comparison.model_dump().values() if isinstance(value, int | float)]
    assert all(map(math.isfinite, numbers))
    assert 0 <= comparison.p_randomisation <= 1
    if np.allclose(a, b):
        assert comparison.p_randomisation == comparison.p_t == 1.0
        assert comparison.low == comparison.high == comparison.difference == comparison.effect_size == 0
        assert comparison.ties == len(a)


def test_pipelines_of_other_queries_are_compared_on_those_of_both():
    measured = {
        "a": {"m": values_of([1, 0, 0], ["q1", "q2", "q3"])},
        "b": {"m": values_of([1, 1, 1], ["q4", "q3", "q2"])},
        "c": {"m": values_of([1], ["q9"])},
        "d": {"n": values_of([1], ["q1"])},
    }
    [comparison] = compare(measured, ["m", "n"])
    assert (comparison.a, comparison.b) == ("a", "b")
    assert (comparison.queries, comparison.wins, comparison.difference) == (2, 2, 1.0)


def test_a_query_that_a_run_lacks_counts_as_lost():
    relevance = {"q1": {1: 1}, "q2": {2: 1}, "q3": {3: 1}}
    whole = Ranking(tuple(relevance), np.array([[1], [2], [3]]), np.zeros((3, 1), np.float32))
    partial = Ranking(
        tuple(relevance), np.array([[1], [-1], [-1]]), np.array([[0], [-np.inf], [-np.inf]], np.float32)
    )
    measures = [parse_measure("MRR@10"), parse_measure("all@10")]
    measured = {
        name: measure_judged(ranking, relevance, measures)
        for name, ranking in (("whole", whole), ("partial", partial))
    }
    for comparison in compare(measured, ["MRR@10", "all@10"]):
        assert (comparison.queries, comparison.losses) == (3, 2)
        assert comparison.difference == pytest.approx(-2 / 3)


def test_level_is_shown_and_not_what_a_test_failed_to_tell_apart():
    generator = np.random.default_rng(3)
    many = generator.random(20_000) < 0.4
    few = many[:100]
    changed = many.copy()
    changed[generator.integers(0, 20_000, 200)] ^= True
    level = one(many, changed)
    unknown = one(few, changed[:100])
    assert level.level  # certainly above 0 or not
    assert not unknown.level and not unknown.significant


def test_equivalence_of_differences_at_the_margin_and_of_few_queries():
    generator = np.random.default_rng(2)
    shifts = np.array([0.0, 0.9, 1.0, 1.1, -1.0, 3.0]) * MARGIN
    differences = generator.normal(0, 0.02, (4000, 1)) + shifts  # [n, c]
    p = equivalence_test(resampled_means(differences), 4000, MARGIN)
    assert p[0] == p[1] == 1 / 1001 and p[2:].min() > 0.05 and p[[3, 5]].min() > 0.9
    assert equivalence_test(np.zeros((1000, 1)), 43, MARGIN)[0] == pytest.approx(0.99**43)
