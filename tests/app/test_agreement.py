"""Overlap and rank-biased overlap by hand, and against the definition."""

from itertools import count

import pytest

from linkseek.app.around.agreement import overlap, rank_biased_overlap


def test_overlap():
    assert overlap("abcdef", "fedxyz") == 3
    assert overlap("abcdef", "fedxyz", 3) == 0
    assert overlap("abc", "cab", 2) == 1
    assert overlap("", "abc") == 0


@pytest.mark.parametrize(
    ("first", "second", "p", "expected"),
    [
        ("abc", "abc", 0.9, 1.0),
        ("abc", "xyz", 0.9, 0.0),
        ("ab", "ba", 0.5, 0.5),  # 1/1 x (0 + 2/2 x 1/4) + 2/2 x 1/4
        ("abc", "acb", 0.5, 0.875),  # (1/2 + 1/2 x 1/4 + 1/8) + 1/8
        ("ab", "abx", 0.5, 1.0),  # (1/2 + 1/4 + 2/3 x 1/8 + 2 x 1/6 x 1/8) + 1/8: what is missing may agree
        ("a", "ba", 0.5, 0.25),  # (0 + 1/2 x 1/4 + 0) + (1/2) x 1/4
        ("", "", 0.9, 1.0),
        ("", "a", 0.9, 0.0),
    ],
)
def test_rank_biased_overlap_by_hand(first, second, p, expected):
    assert rank_biased_overlap(first, second, p) == pytest.approx(expected)
    assert rank_biased_overlap(second, first, p) == pytest.approx(expected)


def test_the_infinite_sum_where_agreement_goes_on():
    """Extrapolation assumes the last agreement at all further depths, as in section 4.4."""
    first, second, p = "abcdefgh", "badcxyze", 0.8
    agreements = [len({*first[:d]} & {*second[:d]}) / d for d in range(1, 9)]
    depths = (agreements[min(d, 8) - 1] * p ** (d - 1) for d in count(1))
    total = (1 - p) * sum(next(depths) for _ in range(400))
    assert rank_biased_overlap(first, second, p) == pytest.approx(total)
