"""Measures rankings of several pipelines alike: all of them are searched for answers together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from linkseek.app.evaluation.judgements import Judgements, document_numbers, relevant_results, to_documents
from linkseek.app.evaluation.measures import (
    MeasurePlan,
    Values,
    accuracy_curve,
    measure_accuracy,
    measure_judged,
    recall_curve,
)
from linkseek.indexer.index import Level
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.progress import progress
from linkseek.retriever.answers import AnswerKind, find_answers
from linkseek.retriever.ranking import Query, Ranking


@dataclass(frozen=True, slots=True)
class Measured:
    """The ranking of one pipeline for Q questions, and its values.

    level: whether the rows number passages or documents. values: by measure; a ranking of documents has no
    accuracy, it contains no passages to search for answers. relevant: bool [Q, k], which results contain an
    answer or are judged relevant, whichever the main measure asks for; None where it is unknown. curve:
    float64 [k], the mean accuracy or recall at every depth, or None.
    """

    ranking: Ranking
    level: Level
    values: dict[str, Values]
    relevant: NDArray[np.bool_] | None
    curve: NDArray[np.float64] | None

    def first_relevant(self) -> NDArray[np.int64]:
        """The rank of the first relevant result, int64 [Q], from 1; 0 if no result is relevant."""
        if self.relevant is None or not self.relevant.shape[1]:
            return np.zeros(len(self.ranking.query_ids), np.int64)
        return np.where(self.relevant.any(axis=1), self.relevant.argmax(axis=1) + 1, 0)


def measure_rankings(
    passages: PassageStore,
    queries: Sequence[Query],
    rankings: Mapping[str, tuple[Ranking, Level]],
    judgements: Judgements | None,
    plan: MeasurePlan,
    answer_kind: AnswerKind = "tokens",
    whole: Mapping[str, Ranking] = MappingProxyType({}),
    on_note: Callable[[str], None] = lambda note: None,
) -> dict[str, Measured]:
    """Every planned measure of every ranking, by the ranking's name.

    whole: rankings with further results, for judged measures without a cutoff. on_note: called with a
    sentence if some answers cannot be matched.
    """
    answering: dict[str, NDArray[np.bool_]] = {}
    if plan.accuracy:
        ranked = {name: ranking for name, (ranking, level) in rankings.items() if level == "passages"}
        answering = _find_answers(passages, queries, ranked, answer_kind, on_note)
    measured = {}
    for name, (ranking, level) in rankings.items():
        values: dict[str, Values] = {}
        relevant = curve = None
        if name in answering:
            values |= measure_accuracy(queries, answering[name], plan.accuracy)
            curve = accuracy_curve(queries, answering[name])
            relevant = answering[name]
        if judgements is not None and plan.judged:
            collapse = (level, judgements.level) == ("passages", "documents")
            judged = to_documents(ranking, passages) if collapse else ranking
            endless = [measure for measure in plan.judged if measure.cutoff is None and name in whole]
            cut = [measure for measure in plan.judged if measure not in endless]
            values |= measure_judged(judged, judgements.relevance, cut)
            if endless:
                deep = to_documents(whole[name], passages) if collapse else whole[name]
                values |= measure_judged(deep, judgements.relevance, endless)
            if not plan.accuracy:
                curve = recall_curve(judged, judgements.relevance)
            if plan.main.needs == "judgements":
                rows = document_numbers(ranking.rows, passages) if collapse else ranking.rows  # [Q, k]
                numbered = Ranking(ranking.query_ids, rows, ranking.scores)
                relevant = relevant_results(numbered, judgements.relevance)
        measured[name] = Measured(ranking, level, values, relevant, curve)
    return measured


def _find_answers(
    passages: PassageStore,
    queries: Sequence[Query],
    rankings: Mapping[str, Ranking],
    kind: AnswerKind,
    on_note: Callable[[str], None],
) -> dict[str, NDArray[np.bool_]]:
    """Which results contain an answer, bool [Q, k] for every ranking; unknown ids contain none."""
    if not rankings:
        return {}
    rows = np.concatenate([ranking.rows for ranking in rankings.values()], axis=1)  # [Q, sum of k]
    rows = np.where(rows < len(passages), rows, -1)
    with progress("matching answers", total=len(np.unique(rows[rows >= 0])), unit="passages") as advance:

        def text_of(row: int) -> str:
            advance(1)
            return passages[row].text

        answering = find_answers([query.answers for query in queries], rows, text_of, kind, on_note)
    ends = np.cumsum([ranking.depth for ranking in rankings.values()])
    return dict(zip(rankings, np.split(answering, ends[:-1], axis=1), strict=True))
