"""How much two rankings agree: their overlap, and rank-biased overlap (Webber, Moffat and Zobel 2010)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

PERSISTENCE = 0.9
"""The chance that a reader goes on to the next rank: 86 % of the weight is in the first ten."""


def overlap(first: Sequence[Hashable], second: Sequence[Hashable], depth: int = 10) -> int:
    """How many results both have among their first `depth`."""
    return len({*first[:depth]} & {*second[:depth]})


def rank_biased_overlap(
    first: Sequence[Hashable], second: Sequence[Hashable], persistence: float = PERSISTENCE
) -> float:
    """RBO, extrapolated from rankings that are cut, of any two depths (equation 32); from 0 to 1.

    1 for two empty rankings, 0 if one is empty. No result may be twice in a ranking.
    """
    short, long = sorted((first, second), key=len)
    if not short:
        return float(not long)
    s, l, p = len(short), len(long), persistence  # noqa: E741, the symbols of the paper
    seen_short: set[Hashable] = set()
    seen_long: set[Hashable] = set()
    both = at_s = 0  # X_d, X_s
    total = 0.0
    for d in range(1, l + 1):
        new = long[d - 1]
        both += new in seen_short
        seen_long.add(new)
        if d <= s:
            both += short[d - 1] in seen_long
            seen_short.add(short[d - 1])
            at_s = both
        total += both / d * p**d
        if d > s:
            total += at_s * (d - s) / (s * d) * p**d
    return (1 - p) / p * total + ((both - at_s) / l + at_s / s) * p**l
