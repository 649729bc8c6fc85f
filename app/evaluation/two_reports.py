"""Two evaluations of the same questions, side by side: differences, and which questions changed sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linkseek.app.evaluation.results import Results, difference
from linkseek.app.evaluation.significance import randomisation_test


@dataclass(frozen=True, slots=True)
class Change:
    """A pipeline of the second report against one of the first, on the questions of both.

    better, worse, equal: numbers of questions; p: of the randomisation test.
    """

    name: str
    before: float
    after: float
    better: int
    worse: int
    equal: int
    p: float


@dataclass(frozen=True, slots=True)
class Moved:
    """A question whose value changed."""

    text: str
    answers: Sequence[str]
    before: float
    after: float


def shared_measures(first: Results, second: Results) -> list[str]:
    """The measures of both reports, in the order of the first."""
    return [measure for measure in first.measures if measure in second.measures]


def changes(first: Results, second: Results, measure: str) -> list[Change]:
    """Every pipeline of both reports; those without a common question are skipped.

    Questions are the same if id and text are.
    """
    found = []
    for name in first.scores(measure):
        if name in second.scores(measure):
            values = _paired(first, second, name, measure)
            if values:
                differences = [difference(a, b) for a, b in values.values()]
                before, after = (sum(column) / len(values) for column in zip(*values.values(), strict=True))
                found.append(
                    Change(
                        name,
                        before,
                        after,
                        better=sum(d > 0 for d in differences),
                        worse=sum(d < 0 for d in differences),
                        equal=sum(d == 0 for d in differences),
                        p=float(randomisation_test(np.array(differences)[:, None])[0]),
                    )
                )
    return found


def moved_questions(first: Results, second: Results, name: str, measure: str) -> list[Moved]:
    """The questions whose value changed in a pipeline, the largest change first."""
    texts = {question.id: question for question in second.questions}
    moved = [
        Moved(texts[id_].text, texts[id_].answers, before, after)
        for id_, (before, after) in _paired(first, second, name, measure).items()
        if difference(before, after)
    ]
    return sorted(moved, key=lambda each: -abs(each.after - each.before))


def _paired(first: Results, second: Results, name: str, measure: str) -> dict[str, tuple[float, float]]:
    """Question id -> the values of both reports."""
    texts = {question.id: question.text for question in first.questions}
    same = [question.id for question in second.questions if texts.get(question.id) == question.text]
    before, after = (report.scores(measure)[name].per_query for report in (first, second))
    return {id_: (before[id_], after[id_]) for id_ in same if id_ in before and id_ in after}
