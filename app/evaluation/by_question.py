"""Question by question: the values that scores are means of, of two pipelines or of two reports.

Two evaluations of the same questions have differences, and questions that changed sides.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from linkseek.app.evaluation.measures import Values
from linkseek.app.evaluation.results import Comparison, Results, difference
from linkseek.app.evaluation.significance import compare
from linkseek.app.testsets.known_items import FOUND, own_kind

SHOWN: Mapping[str, Callable[[float, float], bool]] = {
    "all": lambda a, b: True,
    "better": lambda a, b: difference(a, b) > 0,
    "worse": lambda a, b: difference(a, b) < 0,
    "equal": lambda a, b: difference(a, b) == 0,
    "both zero": lambda a, b: a == b == 0,
}
"""Which questions to show, by the values of pipelines a and b: b is better, worse, ..."""

QUESTION, CHANGE = "question", "difference"
"""The columns that questions can be sorted by, besides the value of a pipeline."""


class QuestionRow(NamedTuple):
    """A question with the values of all pipelines that were measured on it.

    change: the value of b minus the value of a.
    """

    id: str
    text: str
    answers: Sequence[str]
    values: Mapping[str, float]
    change: float


def compare_questions(
    results: Results,
    a: str,
    b: str,
    measure: str,
    shown: str = "all",
    only: Container[str] | None = None,
    words: str = "",
) -> list[QuestionRow]:
    """The questions that both pipelines were measured on, in the order of the test set.

    shown: one of `SHOWN`. only: the ids of a kind of questions. words: a part of the question or of an
    answer, in letters of any case.
    """
    scores = results.scores(measure)
    if a not in scores or b not in scores:
        return []
    known = {question.id: (question.text, question.answers) for question in results.questions}
    values_a, values_b = scores[a].per_query, scores[b].per_query
    order = known if results.questions else values_a
    wanted = " ".join(words.split()).casefold()

    def holds(id_: str) -> bool:
        question, answers = known.get(id_, ("", ()))
        return any(wanted in " ".join(text.split()).casefold() for text in (question, *answers))

    return [
        QuestionRow(
            id_,
            *known.get(id_, ("", [])),
            {name: score.per_query[id_] for name, score in scores.items() if id_ in score.per_query},
            difference(values_a[id_], values_b[id_]),
        )
        for id_ in order
        if id_ in values_a and id_ in values_b and SHOWN[shown](values_a[id_], values_b[id_])
        if only is None or id_ in only
        if not wanted or holds(id_)
    ]


def sort_questions(rows: Sequence[QuestionRow], by: str, *, descending: bool) -> list[QuestionRow]:
    """Rows by `QUESTION`, `CHANGE` or the value of a pipeline; those without it last. "": largest change."""

    def key(row: QuestionRow) -> tuple[bool, float | str]:
        if by == QUESTION:
            return False, row.text.casefold()
        if by == CHANGE:
            return False, row.change
        if not by:
            return False, -abs(row.change)
        return (by in row.values) is descending, row.values.get(by, 0.0)

    return sorted(rows, key=key, reverse=descending)


class Missed(NamedTuple):
    """A question of an index's own whose page a pipeline lacks among the first ten, and those pipelines."""

    folder: str
    text: str
    pages: Sequence[str]
    pipelines: Sequence[str]


def missed_pages(results: Results) -> list[Missed] | None:
    """Pages that were not found by their own words, by folder; None for questions of any other origin."""
    scores = results.scores(FOUND) if FOUND in results.measures else {}
    if not (scores and results.test_set and own_kind(results.test_set.name)):
        return None
    groups = results.analyses.groups or {}
    folders = {id_: folder for folder, group in groups.items() for id_ in group.query_ids}
    missed = [
        Missed(folders.get(question.id, ""), question.text, question.relevant or (), names)
        for question in results.questions
        if (names := [name for name, score in scores.items() if score.per_query.get(question.id) == 0])
    ]
    return sorted(missed, key=lambda page: page.folder)


class Change(NamedTuple):
    """A pipeline of the second report against the first, on the questions of both: means and a test."""

    name: str
    before: float
    after: float
    pair: Comparison


def shared_measures(first: Results, second: Results) -> list[str]:
    """The measures of both reports, in the order of the first."""
    return [measure for measure in first.measures if measure in second.measures]


def changes(first: Results, second: Results, measure: str) -> list[Change]:
    """Every pipeline of both reports; those without a common question are skipped.

    Questions are the same if id and text are.
    """
    found = []
    for name in first.scores(measure):
        if name in second.scores(measure) and (paired := _paired(first, second, name, measure)):
            sides = (Values((*paired,), np.array(column)) for column in zip(*paired.values(), strict=True))
            before, after = ({measure: values} for values in sides)
            [pair] = compare({"before": before, "after": after}, [measure])
            found.append(Change(name, before[measure].mean, after[measure].mean, pair))
    return found


def moved_questions(first: Results, second: Results, name: str, measure: str) -> list[QuestionRow]:
    """The questions whose value changed in a pipeline, with both values; the largest change first."""
    texts = {question.id: question for question in second.questions}
    rows = [
        QuestionRow(id_, texts[id_].text, texts[id_].answers, {"before": before, "after": after}, change)
        for id_, (before, after) in _paired(first, second, name, measure).items()
        if (change := difference(before, after))
    ]
    return sort_questions(rows, "", descending=False)


def _paired(first: Results, second: Results, name: str, measure: str) -> dict[str, tuple[float, float]]:
    """Question id -> the values of both reports."""
    texts = {question.id: question.text for question in first.questions}
    same = [question.id for question in second.questions if texts.get(question.id) == question.text]
    before, after = (report.scores(measure)[name].per_query for report in (first, second))
    return {id_: (before[id_], after[id_]) for id_ in same if id_ in before and id_ in after}
