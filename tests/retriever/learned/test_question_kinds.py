"""What tells questions of several steps from those of one, and what follows for a ranking."""

from __future__ import annotations

import numpy as np
import pytest

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.learned.hops import ONE_STEP as OF_ONE
from linkseek.retriever.learned.hops import SEVERAL_STEPS as OF_SEVERAL
from linkseek.retriever.learned.hops import replaced
from linkseek.retriever.learned.question_kinds import SEVERAL, QuestionKind, held_back, train_question_kind

NAMES = [
    f"{first}{last}" for first in ("Ka", "Bo", "Lu", "Mi", "Se") for last in ("ra", "den", "tor", "lis", "mo")
]
ONE_STEP = {
    "a": [f"Where is {name}?" for name in NAMES],
    "b": [f"who wrote {name} number {n}" for n, name in enumerate(NAMES)],
}
SEVERAL_STEPS = {
    "c": [f"Where was the director of the film {name} born?" for name in NAMES],
    "d": [f"Who is the father of the author of {name}?" for name in NAMES],
}


@pytest.fixture(scope="module")
def kind() -> QuestionKind:
    return train_question_kind(ONE_STEP, SEVERAL_STEPS, "en")


def test_the_kind_shows_in_the_wording(kind):
    for question in ("Where is the Zambezi?", "who wrote Emma"):
        assert kind.probability(question, "en") < SEVERAL
    for question in (
        "Where was the mother of the owner of Ajax born?",
        "who is the son of the writer of Emma",
    ):
        assert kind.probability(question, "en") > SEVERAL
    assert train_question_kind(ONE_STEP, SEVERAL_STEPS, "en") == kind
    assert QuestionKind.model_validate_json(kind.model_dump_json()) == kind
    assert all(
        set(feature.split()) <= {*kind.words, "_", "^", "$"} or feature[-1] == "+" for feature in kind.weights
    )


@pytest.mark.parametrize(
    "other",
    [
        "where was the director of the film psycho born",
        "WHERE WAS THE DIRECTOR OF THE FILM PSYCHO BORN?!",
        " “Where” was — the singer of the song «Help» raised ?",
    ],
)
def test_case_punctuation_and_names_do_not_count(kind, other):
    question = "Where was the director of the film Psycho born?"
    assert kind.probability(other, "en") == kind.probability(question, "en")
    assert kind.probability("Where is Psycho?", "en") != kind.probability(question, "en")


@pytest.mark.parametrize("question", ["", "?", "的", "x" * 100_000, "of the " * 10_000, "\0\ud800"])
def test_odd_questions_have_a_probability(kind, question):
    assert 0 < kind.probability(question, "en") < 1
    assert kind.probability(question, "de") == 0  # not its language


def test_held_back_collections_are_recognised_by_the_others():
    shares = held_back(ONE_STEP, SEVERAL_STEPS | {"e": SEVERAL_STEPS["d"]}, "en")
    assert set(shares) == set("abcde") and shares["e"] == 1 and shares["a"] < SEVERAL
    assert set(held_back(ONE_STEP, {"c": SEVERAL_STEPS["c"]}, "en")) == {"a", "b"}


def test_other_languages_and_missing_kinds():
    german = train_question_kind(
        {"a": ["Wo liegt Rom?"] * 30}, {"b": ["Wer war der Vater der Frau von Rom?"] * 30}, "de"
    )
    assert (
        german.probability("Wo liegt Paris?", "de")
        < 0.5
        < german.probability("Wer war der Sohn der Magd von X?", "de")
    )
    with pytest.raises(InputError, match="stop words"):
        train_question_kind(ONE_STEP, SEVERAL_STEPS, "yi")
    for kinds in (({}, SEVERAL_STEPS), (ONE_STEP, {}), (ONE_STEP, {"c": []})):
        with pytest.raises(InputError, match="not both"):
            train_question_kind(*kinds, "en")


@pytest.mark.parametrize("by", [OF_ONE, OF_SEVERAL])
@pytest.mark.parametrize(("first", "more"), [(1, 0), (3, 9), (5, 0), (12, 4), (60, 37)])
def test_most_results_of_the_first_stage_stay(first, more, by):
    draw = np.random.default_rng(first)
    moved = 0
    for _ in range(20):
        scores = draw.normal(size=first + more).round(1)
        scores[0] = scores.max() + 0.01
        values = replaced(scores, first, by).astype(np.float32)
        order = np.argsort(-values, kind="stable").tolist()
        assert order == by_blocks(scores, first, by)
        assert order[0] == 0 and len(set(values.tolist())) == first + more
        for k in range(5, first + 1, 5):
            assert len(set(order[:k]) & set(range(k))) >= k - by.most * k // 5
        moved += order != list(range(first + more))
    assert moved or first == 1


def by_blocks(scores, first, by):
    """The order by definition, from all that is left at each block."""
    left, order = set(range(len(scores))), []
    while any(place < first for place in left):
        old = sorted(place for place in left if place < first)[:5]
        new = []
        for _ in range(min(by.most, len(old))):
            others = left - {*old, *new}
            gone = old[-1] if by.last else min(old, key=lambda place: (scores[place], -place))
            best = max(others, key=lambda place: (scores[place], -place), default=None)
            if best is None or scores[best] <= scores[gone] + by.margin:
                break
            old.remove(gone)
            new.append(best)
        order += sorted(old + new, key=lambda place: (-scores[place], place))
        left -= {*old, *new}
    return order + sorted(left, key=lambda place: (-scores[place], place))
