"""Why a passage has its score in a pipeline: parts that add up to the score.

The parts of BM25 are the words of the question, of a fusion its pipelines, of trees their features. A part
that is a result of another pipeline has the explanation of its score there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.links.sentences import sentence_spans
from linkseek.retriever.ranking import Query, Ranking

FIRST_STAGE = "first stage"
"""The name of the part that is the score of the ranking that a pipeline begins with."""

_MAX_SENTENCES = 50  # of a passage that are compared with the question
MAX_CHARACTERS = 20_000
"""The characters of a passage in which sentences are looked for."""
_REST = 1e-5  # of a score that rounding to float32 may explain


@dataclass(frozen=True, slots=True)
class Sentence:
    """The sentence of a passage that a model scores best: `text[start:end]`, and its score alone."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Part:
    """A summand of a score.

    name: a word of the passage, a pipeline, a model, a feature. added: to the score. meaning: in words; may
    be empty. factors: the numbers that it comes from. of: why the passage has its score in the pipeline
    `name`.
    """

    name: str
    added: float
    meaning: str = ""
    factors: Mapping[str, float] = field(default_factory=dict)
    sentence: Sentence | None = None
    of: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The score of a passage as a sum. rank: from 1, of the ranking that was explained."""

    rank: int
    score: float
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, place: tuple[int, float], parts: Sequence[Part], rest: str = "rounding") -> Explanation:
        """With a last part for the remainder, named `rest`, if rounding does not explain it."""
        rank, score = place
        left = score - sum(part.added for part in parts)
        tolerance = _REST * max(1.0, abs(score), *(abs(part.added) for part in parts))
        return cls(rank, score, (*parts, *([Part(rest, left)] if abs(left) > tolerance else ())))

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        """The best sentences of all parts, and of theirs."""
        own = [part.sentence for part in self.parts if part.sentence]
        inner = [sentence for part in self.parts if part.of for sentence in part.of.sentences]
        return tuple(dict.fromkeys([*own, *inner]))


Explain = Callable[[Query, int, int], Explanation | None]
"""(query, row of a passage, k) -> why the passage has its score among the k best; None if it is not there."""


def explanation_lines(explanation: Explanation, text: str, indent: str = "") -> Iterator[str]:
    """The sum in lines of text, each part above its own parts. text: the passage's text."""
    for part in explanation.parts:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in part.factors.items())
        notes = "".join(f" ({note})" for note in (part.meaning, numbers) if note)
        yield f"{indent}{part.added:+.4f}  {part.name}{notes}"
        if part.sentence:
            best = " ".join(text[part.sentence.start : part.sentence.end].split())
            yield f"{indent}  best sentence ({part.sentence.score:.4f}): {best}"
        if part.of:
            yield from explanation_lines(part.of, text, indent + "  ")


def place_of(ranking: Ranking, row: int) -> tuple[int, float] | None:
    """The rank, from 1, and the score of a passage for the first query; None if it is not there."""
    places = np.flatnonzero(ranking.rows[0] == row)
    return (int(places[0]) + 1, float(ranking.scores[0, places[0]])) if len(places) else None


def value_of(values: NDArray[np.floating], ranking: Ranking, row: int) -> float:
    """The value of a passage among values [1, k] of a ranking's places; 0 if it is not there."""
    return float(values[0, ranking.rows[0] == row].sum())


def whole_score(search: Callable[[Sequence[Query], int], Ranking], name: str = "score") -> Explain:
    """The explanation of a pipeline whose score is one number."""

    def explain(query: Query, row: int, k: int) -> Explanation | None:
        place = place_of(search([query], k), row)
        return Explanation(*place, (Part(name, place[1]),)) if place else None

    return explain


def best_sentence(text: str, scores: Callable[[Sequence[str]], NDArray[np.floating]]) -> Sentence | None:
    """The sentence of a text with the highest score, the first of equal ones; None for a text without any.

    scores: of sentences, [n].
    """
    spans = sentence_spans(text[:MAX_CHARACTERS])[:_MAX_SENTENCES]
    if len(spans) > 1 and text[spans[0][0]].islower():
        spans = spans[1:]  # it began in the passage before
    if not spans:
        return None
    values = scores([text[start:end] for start, end in spans])
    best = int(np.argmax(values))
    return Sentence(*spans[best], float(values[best]))
