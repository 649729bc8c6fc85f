"""A comparison of two pipelines by preference: its questions, the judgements so far, and their result.

A judge sees the first results of both side by side and says which is better (Thomas and Hawking 2006,
"Evaluation by comparing result sets in context"). Which pipeline is on which side is drawn for each question
and hidden until the end. Judgements are grades of the two passages in a judged test set (`judged_sets`), so
that judgements made elsewhere count here, too.

Two rankings without judgements agree by

overlap              the share of passages that the first `depth` of both have
rank-biased overlap  the mean overlap over all depths, where a reader goes on to the next rank with
                     probability p (Webber, Moffat and Zobel 2010, "A similarity measure for indefinite
                     rankings", ACM TOIS 28(4)); extrapolated (equation 32), since rankings are cut off
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal

from pydantic import Field, model_validator

from linkseek.app.evaluation.records import JsonRecord
from linkseek.app.evaluation.results import SIGNIFICANT
from linkseek.app.evaluation.significance import sign_test
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import Pipeline, Query

Choice = Literal["a", "b", "same", "neither"]
"""The better first result; or both are good, or both bad."""


class Disagreement(JsonRecord):
    """A question with the first result of each pipeline, None without any, and how much the rankings agree.

    overlap: the overlap of the first ten; rbo: rank-biased overlap. 0 to 1 each. compared: the ranks of
    `overlap`, fewer than ten where a ranking is shorter.
    """

    id: str
    text: str
    first_a: str | None
    first_b: str | None
    overlap: float = Field(ge=0, le=1)
    rbo: float = Field(ge=0, le=1)
    compared: int = Field(default=10, ge=0)

    @property
    def same_first(self) -> bool:
        """Whether there is nothing to judge: both begin with the same passage."""
        return self.first_a == self.first_b

    def can_be(self, choice: Choice) -> bool:
        """Whether a choice can be made: no result is not good, and not better than another."""
        chosen = {"a": [self.first_a], "b": [self.first_b], "same": [self.first_a, self.first_b]}
        return None not in chosen.get(choice, ())

    def choice_of(self, grades: Mapping[str, Mapping[str, int]]) -> Choice | None:
        """What most raters prefer; None before one has graded both. grades: passage id -> rater -> grade.

        No result is as bad as one that is not relevant.
        """
        both = [id_ and grades.get(id_, {}) for id_ in (self.first_a, self.first_b)]
        known = [{*of} for of in both if of is not None]
        raters = set.intersection(*known) if known else ()
        pairs = [[of[rater] if of else 0 for of in both] for rater in raters]
        votes = sum((a > b) - (a < b) for a, b in pairs)
        if not pairs or votes:
            return ("a" if votes > 0 else "b") if votes else None
        return "same" if any(map(any, pairs)) else "neither"

    def grades_for(self, choice: Choice, before: Mapping[str, int]) -> dict[str, int | None]:
        """The grades by which a rater makes a choice: earlier ones, changed as little as it needs."""
        a, b = (before.get(id_ or "", 0) for id_ in (self.first_a, self.first_b))
        if choice in ("same", "neither"):
            a = b = max(a, b, 1) if choice == "same" else 0
        elif choice == "a":
            a, b = max(a, 1), min(b, max(a, 1) - 1)
        else:
            a, b = min(a, max(b, 1) - 1), max(b, 1)
        return {id_: grade for id_, grade in ((self.first_a, a), (self.first_b, b)) if id_ is not None}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a comparison. same, neither: both good and both bad; p: two-sided, of the sign test
    without these.
    """

    wins_a: int
    wins_b: int
    same: int
    neither: int
    p: float

    @property
    def needed(self) -> int:
        """How many more questions decide it, if all go to the side that leads; 0 if it is decided."""
        more, less = max(self.wins_a, self.wins_b), min(self.wins_a, self.wins_b)
        return next(n for n in count() if sign_test(more + n, less) < SIGNIFICANT)


class Preferences(JsonRecord):
    """A comparison. a, b: the pipelines; index: its name; origin: where the questions come from.

    questions: the largest disagreement first. judged: the judged test set with its judgements. choices:
    question id -> the better one, by that test set until it has ended. ended: whether it has been revealed
    which pipeline was on which side, so that nothing can be judged any more.
    """

    version: Literal[2] = 2
    index: str
    a: str
    b: str
    origin: str
    created: float
    ended: bool = False
    judged: str
    questions: list[Disagreement] = Field(min_length=1)
    choices: dict[str, Choice] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _ids_fit(self) -> Preferences:
        ids = [question.id for question in self.questions]
        if len({*ids}) < len(ids):
            raise ValueError("two questions have the same id")
        for id_ in self.choices:
            if id_ not in ids:
                raise ValueError(f'a judgement of question "{id_[:100]}", which is missing')
        return self

    @property
    def to_judge(self) -> list[Disagreement]:
        """The questions whose first results differ."""
        return [question for question in self.questions if not question.same_first]

    @property
    def not_judged(self) -> list[Disagreement]:
        """The questions without a judgement."""
        return [question for question in self.to_judge if question.id not in self.choices]

    def next_open(self, after: int = 0) -> int:
        """The place in `to_judge` of the first question without a judgement, from a place on and then from
        the start; that place itself if all are judged."""
        to_judge: Sequence[Disagreement] = self.to_judge
        for place in chain(range(after, len(to_judge)), range(min(after, len(to_judge)))):
            if to_judge[place].id not in self.choices:
                return place
        return max(min(after, len(to_judge) - 1), 0)

    @property
    def verdict(self) -> Verdict:
        """The judgements so far, counted and tested."""
        chosen = Counter(self.choices.values())
        p = sign_test(chosen["a"], chosen["b"])
        return Verdict(chosen["a"], chosen["b"], chosen["same"], chosen["neither"], p)


def order_of(name: str, question: str) -> tuple[Choice, ...]:
    """The choices from left to right, drawn by the name of the comparison and the question."""
    a_is_left = hashlib.sha256(f"{name}\0{question}".encode()).digest()[0] % 2 == 0
    return ("a", "same", "neither", "b") if a_is_left else ("b", "same", "neither", "a")


MAX_QUESTIONS = 200
"""The maximum in a comparison."""
OVERLAP = 10
"""The number of ranks in `Disagreement.overlap`."""
DEPTH = 100
"""The number of ranks in `Disagreement.rbo`."""

_BATCH = 4  # questions between two reports of progress


def read_questions(texts: Iterable[str]) -> list[str]:
    """Questions in the form in which they are compared; empty and repeated ones are dropped.

    Raises `UsageError` for no question, more than `MAX_QUESTIONS`, and one that is too long.
    """
    lines = [" ".join(line.split()) for line in texts]
    questions = list(dict.fromkeys(checked_question(line) for line in lines if line))
    if not questions:
        raise UsageError("there are no questions", "Write one per line, or let Linkseek suggest some.")
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

    Sorted by 1 - overlap of the first ten, then by 1 - rank-biased overlap, then as given; questions for
    which a ranking has fewer than ten come last. on_progress: the number of questions that are done.
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
        on_progress(len(batch))
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
        compared=min(len(a), len(b), OVERLAP),
    )


def sort_disagreements(found: Iterable[Disagreement]) -> list[Disagreement]:
    """The largest difference first; after all others, those of fewer than ten ranks."""
    return sorted(found, key=lambda item: (item.compared < OVERLAP, item.overlap, item.rbo))


def overlap(a: Sequence[Hashable], b: Sequence[Hashable], depth: int) -> float:
    """The share of common ids in the first `depth` of both, or in the length of the shorter one; 0 to 1.

    Two rankings without a result agree (1), one with results and one without do not (0).
    """
    both = min(depth, len(a), len(b))
    return len({*a[:both]} & {*b[:both]}) / both if both else float(len(a) == len(b))


def rank_biased_overlap(a: Sequence[Hashable], b: Sequence[Hashable], p: float = 0.9) -> float:
    """The extrapolated rank-biased overlap of two rankings of distinct ids, of any lengths; 0 to 1.

    p: the weight of deeper ranks, above 0 and below 1; with .9 the first ten have 86 % of the weight. What
    follows the end of a ranking is taken to agree as the part before it does. Two rankings without a result
    agree (1), one with results and one without do not (0).
    """
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
