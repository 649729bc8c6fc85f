"""The measures that ir-measures lacks: an entry of `OWN` is all that one needs.

A plug-in adds its own to `OWN` when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Needs = Literal["answers", "judgements"]


@dataclass(frozen=True, slots=True)
class OwnMeasure:
    """A measure NAME@K.

    needs: the data that a question must have to be measured. value: the value of one question, from the
    results in order (-1 for one that is not relevant or has no answer), the grade of each judged item, and K.
    meaning: a phrase for reports. percent: whether reports print it in percent.
    """

    needs: Needs
    value: Callable[[Sequence[int], Mapping[int, int], int], float]
    meaning: str
    percent: bool = True


def _has_any(results: Sequence[int], grades: Mapping[int, int], cutoff: int) -> float:
    return float(any(row >= 0 for row in results[:cutoff]))


def _has_all(results: Sequence[int], grades: Mapping[int, int], cutoff: int) -> float:
    relevant = sum(grade > 0 for grade in grades.values())
    return float(0 < relevant == sum(row >= 0 for row in results[:cutoff]))


OWN = {
    "accuracy": OwnMeasure(
        "answers", _has_any, "the share of questions with an answer in one of the first K passages"
    ),
    "all": OwnMeasure(
        "judgements", _has_all, "the share of questions with all relevant results among the first K"
    ),
}


def own_names() -> str:
    """The names with their cutoffs, as messages list them: accuracy@K, all@K."""
    return ", ".join(f"{name}@K" for name in OWN)


def own_measure(name: str) -> tuple[OwnMeasure, int] | None:
    """The entry and the cutoff of NAME@K; None for another name."""
    known, _, cutoff = name.partition("@")
    is_own = known in OWN and cutoff.isascii() and cutoff.isdecimal() and not cutoff.startswith("0")
    return (OWN[known], int(cutoff)) if is_own else None
