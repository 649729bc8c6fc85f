"""Questions through two pipelines, sorted by how much their rankings differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from linkseek.app.evaluation.overlap import overlap, rank_biased_overlap
from linkseek.app.preferences.record import Disagreement
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import Pipeline, Query

MAX_QUESTIONS = 200
"""Of a comparison: they are asked while a visitor waits."""
OVERLAP = 10
"""Ranks of `Disagreement.overlap`."""
DEPTH = 100
"""Ranks of `Disagreement.rbo`."""

_BATCH = 4  # questions between two reports of progress


def read_questions(text: str) -> list[str]:
    """The questions of a text, one a line; empty lines and repeated questions are dropped.

    Raises `UsageError` for no question, more than `MAX_QUESTIONS`, and one that is too long.
    """
    lines = [" ".join(line.split()) for line in text.splitlines()]
    questions = list(dict.fromkeys(checked_question(line) for line in lines if line))
    if not questions:
        raise UsageError("there are no questions", "Write one in each line, or have some suggested.")
    if len(questions) > MAX_QUESTIONS:
        raise UsageError(
            f"{len(questions):,} questions", f"At most {MAX_QUESTIONS} are compared at a time; remove some."
        )
    return questions


def find_disagreements(
    index: OpenIndex,
    questions: Sequence[str],
    a: Pipeline,
    b: Pipeline,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[Disagreement]:
    """Ask both pipelines all questions; their ids are their places, from 1. The largest difference is first.

    Sorted by 1 - overlap of the first ten, then by 1 - rank-biased overlap, then as given. on_progress: the
    number of questions that are done.
    """
    depth = min(DEPTH, len(index.passages))
    found: list[Disagreement] = []
    queries = [Query(str(number), text) for number, text in enumerate(questions, start=1)]
    for start in range(0, len(queries), _BATCH):
        batch = queries[start : start + _BATCH]
        rankings = [pipeline(batch, depth) for pipeline in (a, b)]
        for place, query in enumerate(batch):
            ids_a, ids_b = (
                index.passages.ids([row for row, _ in ranking.results(place)]) for ranking in rankings
            )
            found.append(compared(query, [*ids_a], [*ids_b]))
        on_progress(len(found))
    return sort_disagreements(found)


def compared(query: Query, a: Sequence[str], b: Sequence[str]) -> Disagreement:
    """How much two rankings of passage ids differ for a question."""
    return Disagreement(
        id=query.id,
        text=query.text,
        first_a=a[0] if a else None,
        first_b=b[0] if b else None,
        overlap=overlap(a, b, OVERLAP),
        rbo=round(rank_biased_overlap(a, b), 6),
    )


def sort_disagreements(found: Iterable[Disagreement]) -> list[Disagreement]:
    """The largest difference first."""
    return sorted(found, key=lambda each: (each.overlap, each.rbo))
