"""Sentences next to the figures of an evaluation: reasons for doubt, and skipped input.

Ids that do not meet make no error: a question without judgements is skipped, an unknown id is not relevant.
Where that is true of most of them, the files do not belong together, and the figures mean nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from linkseek.app.evaluation.judgements import ForeignRun, Judgements, first_ids
from linkseek.app.evaluation.measures import MeasurePlan
from linkseek.indexer.program.text import counted
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.runs import Qrels


def warnings(
    queries: Sequence[Query],
    rankings: Mapping[str, Ranking],
    foreign: Mapping[str, ForeignRun],
    judgements: Judgements | None,
    qrels: Qrels | None,
    measures: MeasurePlan,
) -> list[str]:
    """Reasons to doubt the figures; empty for files that belong together."""
    ids = [query.id for query in queries]
    asked = counted(len(ids), "question")
    found: list[str] = []
    if judgements is not None and qrels is not None:
        judged = len(judgements.relevance)
        if counts_from_one(ids, qrels):
            found.append(
                "the questions' ids begin at 0, the judgements' at 1: each question may be measured by the "
                "judgements of another. Give the ids of the questions, such as in a field id"
            )
        elif 2 * judged < len(ids):
            found.append(
                f"only {judged:,} of {asked} have judgements; the figures are for these "
                f"(questions: {first_ids(ids)}; judgements: {first_ids(qrels)})"
            )
        if 2 * judgements.unknown > judgements.ids:
            found.append(
                f"{judgements.unknown:,} of {judgements.ids:,} judged ids are not in the index, "
                "as if it were of another corpus"
            )
    answered = sum(bool(query.answers) for query in queries)
    if measures.accuracy and 2 * answered < len(ids):
        found.append(f"only {answered:,} of {asked} have answers; accuracy is for these")
    for name, run in foreign.items():
        if counts_from_one(ids, run.queries):
            found.append(
                f"{name}: the questions' ids begin at 0, the run's at 1: it may answer other questions"
            )
        elif 2 * run.present < len(ids):
            found.append(
                f"{name}: has results for only {run.present:,} of {asked}; the others "
                f"count as 0 (questions {first_ids(ids)}; run {first_ids(run.queries)})"
            )
        if 2 * run.unknown > run.ids:
            found.append(f"{name}: {run.unknown:,} of its {run.ids:,} ids are not in the index")
    for name, ranking in rankings.items():
        nothing = int((ranking.rows < 0).all(axis=1).sum())
        if name not in foreign and 2 * nothing > len(ids):
            found.append(f"{name}: no results for {nothing:,} of {asked}")
    return found


def counts_from_one(ids: Sequence[str], others: Collection[str]) -> bool:
    """Whether ids are 0, 1, 2, ... as of questions without ids, and others 1, 2, 3, ..."""
    return list(map(str, range(len(ids)))) == list(ids) and "0" not in others and str(len(ids)) in others


def notes(
    queries: Sequence[Query],
    rankings: Mapping[str, Ranking],
    foreign: Mapping[str, ForeignRun],
    judgements: Judgements | None,
    measures: MeasurePlan,
    depth: int,
) -> list[str]:
    """Notes on skipped results and on the limits of the figures."""
    found = []
    whole = ", ".join(measure.name for measure in measures.judged if measure.cutoff is None)
    for name, run in foreign.items():
        if run.unknown:
            found.append(f"{name}: {run.unknown:,} of its ids are not in the index and count as not relevant")
        if measures.accuracy and run.level == "documents":
            found.append(f"{name}: ranks documents, so its passages cannot be searched for answers")
        if run.whole is not None and whole:
            found.append(
                f"{name}: has up to {run.whole.depth:,} results for a question; all count for {whole}, "
                f"the first {depth:,} for the other measures"
            )
    for name, ranking in rankings.items():
        if (ranking.rows < 0).all():
            found.append(f"{name}: no results for any question")
    if whole and any(name not in foreign and ranking.depth == depth for name, ranking in rankings.items()):
        found.append(f"{whole}: over the {depth:,} results of pipelines (--depth)")
    without = sum(not query.answers for query in queries)
    if measures.accuracy and without:
        skipped = counted(without, "question without answers is", "questions without answers are")
        found.append(f"accuracy: {skipped} skipped")
    if judgements is not None:
        if len(judgements.relevance) < len(queries):
            without = len(queries) - len(judgements.relevance)
            skipped = counted(without, "question without judgements is", "questions without judgements are")
            found.append(f"{skipped} skipped")
        if nothing := sum(max(grades.values(), default=0) < 1 for grades in judgements.relevance.values()):
            have = counted(nothing, "judged question has", "judged questions have")
            found.append(f"{have} nothing relevant")
        if judgements.unknown:
            found.append(
                f"{judgements.unknown:,} judged ids are not in the index; no pipeline can return them"
            )
    return found
