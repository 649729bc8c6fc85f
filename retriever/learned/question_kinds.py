"""Does a question have several steps? A logistic regression over the shape of its wording.

A question is read as a row of function words, in which a run of other words is one "_", between "^" and "$":
"Where was the director of Heat born?" is "^ where was the _ of _ $". Its features are all sequences of one to
three of these, and "4+", "6+", ... for a question of at least 4, 6, ... words. So no name and no topic
decides, nor do case and punctuation.

A model is data that people can read:

    {"language": "en", "words": ["a", "about", ...], "bias": -1.2, "weights": {"_ of _": 0.3, ...}}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import exp
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.search.analyzers import LISTS, stop_words
from linkseek.retriever.learned.boosted_trees import Strict, Value
from linkseek.retriever.search.query_words import word_spans

SEVERAL = 0.4
"""The probability from which on a question counts as one of several steps."""

_LENGTHS = range(4, 30, 2)
_LONGEST = 3  # words of a sequence
_MIN_COUNT = 20  # questions that have a feature
_PENALTY = 33.0  # on half the squared weights, in questions
_MAX_WORDS = 200  # of a question that are read
_OTHER, _START, _END = "_", "^", "$"

_ENGLISH = frozenset(
    "a about after again all also am an and another any are as at be because been before being between "
    "both but by can could did do does down during each earlier first for from had has have having he her "
    "here him his how i if in into is it its just later long many may me might more most much must my no "
    "nor not of off older on one only or other our out over s same shall she should so some such than "
    "that the their them then there these they this those three to too two under up us very was we were "
    "what when where which while who whom whose why will with without would you younger your".split()
)


class QuestionKind(Strict):
    """What a question of several steps looks like. words: the words that are read."""

    language: str
    words: Annotated[list[str], Field(min_length=1, max_length=10_000)]
    bias: Value
    weights: Annotated[dict[str, Value], Field(max_length=100_000)]

    def probability(self, question: str, language: str) -> float:
        """That the question has several steps; 0 in a language that the model does not know."""
        if language != self.language:
            return 0.0
        weights = self.weights
        shape = _shape(question, frozenset(self.words), language)
        score = self.bias + sum(weights.get(feature, 0.0) for feature in shape)
        return 1 / (1 + exp(-max(-30.0, min(30.0, score))))


def train_question_kind(
    one_step: Mapping[str, Sequence[str]], several: Mapping[str, Sequence[str]], language: str
) -> QuestionKind:
    """Learn from the questions of collections by name; each collection counts alike, and so do both kinds.

    Raises `InputError` without questions of both kinds, and for a language without a list of stop words.
    """
    from scipy.optimize import minimize  # LightGBM brings it
    from scipy.sparse import csr_matrix

    if not (any(one_step.values()) and any(several.values())):
        raise InputError(
            "there are not both questions of one step and of several",
            "--one-step reads the former; the latter have several relevant passages.",
        )
    words = _function_words(language)
    kinds = [(0.0, one_step), (1.0, several)]
    shapes, target, weight = [], [], []
    for value, collections in kinds:
        filled = [texts for texts in collections.values() if texts]
        for texts in filled:
            shapes += [sorted(_shape(text, words, language)) for text in texts]
            target += [value] * len(texts)
            weight += [1 / len(texts) / len(filled)] * len(texts)
    counts = Counter(feature for shape in shapes for feature in shape)
    names = sorted(feature for feature, count in counts.items() if count >= _MIN_COUNT)
    column = {feature: number for number, feature in enumerate(names)}
    held = [[column[feature] for feature in shape if feature in column] for shape in shapes]
    ends = np.cumsum([0, *map(len, held)])
    ones = np.ones(int(ends[-1]))
    features = csr_matrix((ones, np.concatenate([*held, []]).astype(int), ends), (len(held), len(names)))
    y, w = np.array(target), np.array(weight) * len(target) / 2  # [Q]

    def loss(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        score = features @ x[1:] + x[0]  # [Q]
        error = w * (1 / (1 + np.exp(-np.clip(score, -30, 30))) - y)
        value = w @ (np.logaddexp(0, score) - y * score) + _PENALTY / 2 * x[1:] @ x[1:]
        return float(value), np.append(error.sum(), features.T @ error + _PENALTY * x[1:])

    fitted = minimize(loss, np.zeros(len(names) + 1), jac=True, method="L-BFGS-B").x
    weights = {name: round(float(value), 3) for name, value in zip(names, fitted[1:], strict=True)}
    return QuestionKind(
        language=language,
        words=sorted(words),
        bias=round(float(fitted[0]), 3),
        weights={name: value for name, value in weights.items() if value},
    )


def held_back(
    one_step: Mapping[str, Sequence[str]], several: Mapping[str, Sequence[str]], language: str
) -> dict[str, float]:
    """The share of each collection's questions that count as of several steps for a model of all others.

    Without collections that are the only one of their kind.
    """
    shares = {}
    for kind, collections in enumerate((one_step, several)):
        for name in collections if len(collections) > 1 else ():
            others = {other: texts for other, texts in collections.items() if other != name}
            one, more = (one_step, others) if kind else (others, several)
            model = train_question_kind(one, more, language)
            found = [model.probability(text, language) >= SEVERAL for text in collections[name]]
            shares[name] = round(float(np.mean(found)), 3)
    return shares


def _function_words(language: str) -> frozenset[str]:
    if language == ENGLISH:
        return _ENGLISH
    if language not in LISTS:
        raise InputError(
            f"the language {language} has no list of stop words", "Train without --one-step for this corpus."
        )
    return stop_words(language)


def _shape(question: str, words: frozenset[str], language: str) -> set[str]:
    """The features of a question."""
    spans = list(word_spans(question, language))[:_MAX_WORDS]
    row = [_START]
    for start, end in spans:
        word = question[start:end].lower()
        if word in words:
            row.append(word)
        elif row[-1] != _OTHER:
            row.append(_OTHER)
    row.append(_END)
    sequences = {
        " ".join(row[start : start + length])
        for length in range(1, _LONGEST + 1)
        for start in range(len(row) - length + 1)
    }
    return sequences | {f"{length}+" for length in _LENGTHS if len(spans) >= length}
