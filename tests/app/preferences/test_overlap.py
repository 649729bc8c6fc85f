"""Overlap and rank-biased overlap, by hand."""

from itertools import count

import pytest

from linkseek.app.preferences.record import overlap, rank_biased_overlap


@pytest.mark.parametrize(
    ("a", "b", "depth", "expected"),
    [
        ("abc", "cba", 3, 1.0),
        ("abc", "cba", 1, 0.0),
        ("abcd", "abxy", 4, 0.5),
        ("ab", "abcd", 4, 1.0),  # as far as the shorter one goes
        ("c", "abcd", 4, 0.0),
        ("ab", "ab", 10, 1.0),  # both are complete
        ("", "ab", 10, 0.0),
        ("", "", 10, 1.0),
    ],
)
def test_overlap(a, b, depth, expected):
    assert overlap(a, b, depth) == overlap(b, a, depth) == expected


# Webber et al. 2010, equation 32; X_d is the number of common ids among the first d.
BY_HAND = [
    ("abc", "abc", 0.9, 1.0),
    ("abc", "xyz", 0.9, 0.0),
    # X = 0, 2: (1-p)/p * p^2 + p^2 = p
    ("ab", "ba", 0.9, 0.9),
    ("ab", "ba", 0.5, 0.5),
    # X = 1, 1, 2: .1/.9 * (.9 + .405 + 2/3 * .729) + 2/3 * .729
    ("abc", "acd", 0.9, 0.1 / 0.9 * (0.9 + 0.405 + 0.486) + 0.486),
    # X = 1, 1, s = 1, l = 2: what is missing agrees as much as what is there
    ("a", "ab", 0.9, 1.0),
    # X = 0, 1, 1, s = 2, l = 3: .1/.9 * (.81/2 + .729/3 + 1*(3-2)/(2*3)*.729) + (0/3 + 1/2) * .729
    ("ab", "xac", 0.9, 0.1 / 0.9 * (0.405 + 0.243 + 0.1215) + 0.3645),
    ("", "", 0.9, 1.0),
    ("", "ab", 0.9, 0.0),
]


@pytest.mark.parametrize(("a", "b", "p", "expected"), BY_HAND)
def test_rank_biased_overlap(a, b, p, expected):
    assert rank_biased_overlap(a, b, p) == pytest.approx(expected, abs=1e-12)
    assert rank_biased_overlap(b, a, p) == pytest.approx(expected, abs=1e-12)


def test_the_infinite_sum_where_agreement_goes_on():
    """Extrapolation assumes the last agreement at all further depths, as in section 4.4."""
    first, second, p = "abcdefgh", "badcxyze", 0.8
    agreements = [len({*first[:d]} & {*second[:d]}) / d for d in range(1, 9)]
    depths = (agreements[min(d, 8) - 1] * p ** (d - 1) for d in count(1))
    total = (1 - p) * sum(next(depths) for _ in range(400))
    assert rank_biased_overlap(first, second, p) == pytest.approx(total)
