"""How much two rankings of the same question agree, without judgements.

overlap              the share of passages that the first `depth` of both have
rank-biased overlap  the mean overlap over all depths, where a reader goes on to the next rank with
                     probability p (Webber, Moffat and Zobel 2010, "A similarity measure for indefinite
                     rankings", ACM TOIS 28(4)); extrapolated (equation 32), since rankings are cut off
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def overlap(a: Sequence[Hashable], b: Sequence[Hashable], depth: int) -> float:
    """The share of common ids in the first `depth` of both, or as many as the shorter one has; 0 to 1.

    Two rankings without a result agree (1), one with results and one without do not (0). Raises ValueError if
    depth is not positive.
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}, expected at least 1")
    both = min(depth, len(a), len(b))
    return len({*a[:both]} & {*b[:both]}) / both if both else float(len(a) == len(b))


def rank_biased_overlap(a: Sequence[Hashable], b: Sequence[Hashable], p: float = 0.9) -> float:
    """The extrapolated rank-biased overlap of two rankings of distinct ids, of any lengths; 0 to 1.

    p: the weight of deeper ranks, above 0 and below 1; with .9 the first ten have 86 % of the weight. What
    follows the end of a ranking is taken to agree as the part before it does. Two rankings without a result
    agree (1), one with results and one without do not (0). Raises ValueError for another p.
    """
    if not 0 < p < 1:
        raise ValueError(f"p is {p}, expected a number between 0 and 1")
    short, long = sorted((a, b), key=len)
    if not short:
        return 0.0 if long else 1.0
    s, l = len(short), len(long)  # noqa: E741 (the paper's names)
    seen_short: set[Hashable] = set()
    seen_long: set[Hashable] = set()
    common = [0]  # by depth
    for depth in range(l):
        seen_long.add(long[depth])
        if depth < s:
            seen_short.add(short[depth])
        common.append(len(seen_short & seen_long))
    agreed = sum(common[d] / d * p**d for d in range(1, l + 1))
    agreed += sum(common[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * agreed + ((common[l] - common[s]) / l + common[s] / s) * p**l
