"""The measure of LETOR 4.0, which PROP's tables quote: `LETOR-nDCG@K`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import log2

from linkseek.plugins import MEASURES, OwnMeasure


def add_measures() -> None:
    """Add `LETOR-nDCG@K` to the measures of all commands."""
    meaning = "the gain of the first K results as LETOR's script computes it, which does not discount rank 2"
    MEASURES["LETOR-nDCG"] = OwnMeasure("judgements", letor_ndcg, meaning, percent=False)


def letor_ndcg(results: Sequence[int], grades: Mapping[int, int], cutoff: int) -> float:
    """nDCG as LETOR's Eval-Score-4.0.pl computes it (Qin and Liu 2013); 0 without relevant items.

    results: items in order, -1 for one that is not relevant. grades: of the judged items.
    """

    def dcg(grades: Iterable[int]) -> float:
        """Of grades by rank: sum of (2^grade - 1) / max(1, log2(rank))."""
        places = enumerate(islice(grades, cutoff), start=1)
        return sum(float(2**grade - 1) / max(1.0, log2(rank)) for rank, grade in places)

    ideal = dcg(sorted((max(grade, 0) for grade in grades.values()), reverse=True))
    return dcg(grades[row] if row >= 0 else 0 for row in results) / ideal if ideal else 0.0
