"""A comparison of two pipelines by preference: its questions, the judgements so far, what follows from them.

A judge sees the first results of both side by side and says which is better (Thomas and Hawking 2006,
"Evaluation by comparing result sets in context"). Which pipeline is on which side is drawn for each question
and hidden until the end.

Two rankings without judgements agree by

overlap              the share of passages that the first `depth` of both have
rank-biased overlap  the mean overlap over all depths, where a reader goes on to the next rank with
                     probability p (Webber, Moffat and Zobel 2010, "A similarity measure for indefinite
                     rankings", ACM TOIS 28(4)); extrapolated (equation 32), since rankings are cut off
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from pydantic import Field, model_validator

from linkseek.app.evaluation.records import JsonRecord
from linkseek.app.evaluation.significance import sign_test
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.queries import checked_question
from linkseek.retriever.ranking import Pipeline, Query
from linkseek.retriever.search.runs import Qrels

Choice = Literal["a", "b", "same"]


class Disagreement(JsonRecord):
    """A question with the first result of each pipeline, None without any, and how much the rankings agree.

    overlap: of the first ten; rbo: rank-biased overlap. 0 to 1 each.
    """

    id: str
    text: str
    first_a: str | None
    first_b: str | None
    overlap: float = Field(ge=0, le=1)
    rbo: float = Field(ge=0, le=1)

    @property
    def same_first(self) -> bool:
        """Whether there is nothing to judge: both begin with the same passage."""
        return self.first_a == self.first_b


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a comparison. same: judged equally good; p: two-sided, of the sign test without them."""

    wins_a: int
    wins_b: int
    same: int
    p: float


class Preferences(JsonRecord):
    """A comparison. a, b: the pipelines; index: its name; origin: where the questions come from.

    questions: the largest disagreement first. choices: question id -> the better one. ended: whether it has
    been revealed which pipeline was on which side, so that nothing can be judged any more.
    """

    version: Literal[1] = 1
    index: str
    a: str
    b: str
    origin: str
    created: float
    depth: int
    ended: bool = False
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
        chosen = [*self.choices.values()]
        wins_a, wins_b = chosen.count("a"), chosen.count("b")
        return Verdict(wins_a, wins_b, chosen.count("same"), sign_test(wins_a, wins_b))

    @property
    def qrels(self) -> Qrels:
        """The judgements as TREC's: the better first result is relevant, the other one is not.

        A question whose results were judged as the same has none: both may be good, or neither.
        """
        qrels: Qrels = {}
        for question in self.questions:
            choice = self.choices.get(question.id)
            if choice in ("a", "b"):
                better, worse = question.first_a, question.first_b
                if choice == "b":
                    better, worse = worse, better
                values = {better: 1, worse: 0}
                qrels[question.id] = {id_: value for id_, value in values.items() if id_ is not None}
        return {id_: judged for id_, judged in qrels.items() if any(judged.values())}


def order_of(name: str, question: str) -> tuple[Choice, ...]:
    """The choices from left to right, drawn by the name of the comparison and the question."""
    a_is_left = hashlib.sha256(f"{name}\0{question}".encode()).digest()[0] % 2 == 0
    return ("a", "same", "b") if a_is_left else ("b", "same", "a")


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
