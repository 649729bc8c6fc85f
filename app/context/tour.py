"""The tour of the search page: real questions on which words, vectors or links are ahead of the others.

All questions with known answers are asked, and the first relevant passage of each pipeline is compared. A
step is the question on which its pipeline is furthest ahead, with the passage among the results shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from linkseek.app.context.known_questions import KnownQuestions
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.index import OpenIndex
from linkseek.retriever.ranking import Ranking

DEPTH = 20
"""Ranks that are compared."""
_SHOWN = 10  # results, among which the winner has its relevant passage
_MAX_QUESTIONS = 500

KINDS = {
    "bm25": ("Words win", "The answer uses the rare words of the question, which are marked yellow."),
    "dense": (
        "Vectors win",
        "The answer says the same in other words: few are marked, and no word search finds it.",
    ),
    "hlp": ("Links win", "This encoder has learned from hyperlinks which texts belong together."),
}
"""The pipelines of the tour in its order: the title of its step, and what to look at."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """A question, and the rank of its first relevant passage in each pipeline; None below `DEPTH`."""

    title: str
    look: str
    question: str
    winner: str
    ranks: Mapping[str, int | None]

    @property
    def pipelines(self) -> tuple[str, ...]:
        """The pipelines that are compared."""
        return tuple(self.ranks)


def tour_pipelines(known: KnownQuestions, pipelines: Pipelines) -> list[str]:
    """The pipelines of a tour; none where it is not possible."""
    available = pipelines.available()
    names = [name for name in KINDS if name in available]
    return names if known.queries and len(names) > 1 else []


def find_steps(index: OpenIndex, known: KnownQuestions, pipelines: Pipelines) -> tuple[TourStep, ...]:
    """A step for each pipeline that is ahead of all others on some question."""
    names, queries = tour_pipelines(known, pipelines), known.queries[:_MAX_QUESTIONS]
    depth = min(DEPTH, len(index.passages))
    rankings = {name: pipelines.open(name)(queries, depth) for name in names}
    texts = [query.text for query in queries]
    firsts = {name: _first_relevant(index, known, texts, found) for name, found in rankings.items()}
    steps = []
    for name in names:
        leads = [
            (min((firsts[other][n] or DEPTH + 1) for other in names if other != name) - rank, -n)
            for n in range(len(queries))
            if (rank := firsts[name][n]) is not None and rank <= _SHOWN
        ]
        lead, place = max(leads, default=(0, 0))
        if lead > 0:
            title, look = KINDS[name]
            ranks = {each: firsts[each][-place] for each in names}
            steps.append(TourStep(title, look, texts[-place], name, ranks))
    return tuple(steps)


def _first_relevant(
    index: OpenIndex, known: KnownQuestions, questions: Sequence[str], ranking: Ranking
) -> list[int | None]:
    """The rank of the first relevant passage of each question, from 1."""
    ranks: list[int | None] = []
    for number, question in enumerate(questions):
        answers = known.find(question)
        rows = [row for row, _ in ranking.results(number)]
        relevant = (rank for rank, row in enumerate(rows, 1) if answers.is_relevant(index.passages[row]))
        ranks.append(next(relevant, None))
    return ranks
