"""Training of a learned fusion or of hops: LambdaMART (Burges 2010) over features of candidates, by LightGBM.

LightGBM's trees become a `TreeFile`; its own format is not read again. Questions are held back whole: in
each of several folds a model ranks the questions that it was not trained on. These rankings are measured, and
choose the number of trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.errors import InputError, MachineError
from linkseek.indexer.program.extras import install_hint
from linkseek.indexer.program.progress import progress
from linkseek.retriever.learned.boosted_trees import Tree

ACCURACY_CUTOFFS, RECALL_CUTOFFS = (1, 5, 20), (2, 5, 20)
"""Depths of the accuracies and of the recalls that are reported."""

_ROUNDS = range(20, 161, 20)
_LIBGOMP = "It needs the system's libgomp, such as the package libgomp1 of Debian."
_PARAMETERS = {
    "objective": "lambdarank",
    "num_leaves": 15,
    "learning_rate": 0.1,
    "min_data_in_leaf": 100,
    "lambdarank_truncation_level": 20,
    "max_bin": 127,
    "deterministic": True,
    "force_row_wise": True,
    "use_missing": False,
    "verbose": -1,
}


@dataclass(frozen=True)
class Examples:
    """The candidates of Q questions that have a relevant one, one question after another, n in all.

    values: float32 [n, F]. relevant: bool [n]. sizes: candidates of each question, int64 [Q]. units: of each
    candidate the passage or document that is judged, int64 [n].
    """

    values: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    units: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """The questions of several parts, at least one, one part after another."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def part(self, questions: NDArray[np.bool_]) -> Examples:
        """Those of some questions, bool [Q]."""
        rows = np.repeat(questions, self.sizes)
        return Examples(self.values[rows], self.relevant[rows], self.sizes[questions], self.units[rows])

    def hits(self, scores: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The question of each relevant unit, and its rank from 0 by scores [n], both int64 [h].

        A unit has the place of its best candidate, as in `evaluate`; a score of -inf is no result.
        """
        question = np.repeat(np.arange(len(self.sizes)), self.sizes)  # [n]
        order = np.lexsort((-scores, question))
        units = (question * (self.units.max(initial=0) + 1) + self.units)[order]
        best = order[np.sort(np.unique(units, return_index=True)[1])]  # [u], question by question
        question = question[best]
        rank = np.arange(len(best)) - np.searchsorted(question, question)
        relevant = self.relevant[best] & np.isfinite(scores[best])
        return question[relevant], rank[relevant]


Measure = Callable[[Examples, NDArray[np.floating]], NDArray[Any]]
"""(examples, scores [n]) -> the values of each question at three depths, [Q, 3]."""


class Trained(NamedTuple):
    """Trees, and the values of held-back questions by the measure, [Q, 3]."""

    trees: list[Tree]
    values: NDArray[Any]


def train(examples: Examples, fold: NDArray[np.int64], seed: int, measure: Measure | None = None) -> Trained:
    """Trees from all examples, as many as are best for questions that are held back.

    fold: int64 [Q], the part of each question; the questions of a part are held back together.
    measure: by default `accuracy`. Deterministic for a seed. Raises `MachineError` if LightGBM is missing.
    """
    measure, folds = measure or accuracy, np.unique(fold).tolist()
    scores = np.zeros((len(_ROUNDS), len(examples.relevant)))  # [R, n]
    with progress("training", len(folds) + 1, "trainings") as advance:
        for held_back in folds:
            booster = _boost(examples.part(fold != held_back), _ROUNDS[-1], seed)
            rows = np.repeat(fold == held_back, examples.sizes)
            values, before = examples.values[rows], 0
            for number, rounds in enumerate(_ROUNDS):
                more = booster.predict(values, start_iteration=before, num_iteration=rounds - before)
                scores[number, rows] = scores[max(number - 1, 0), rows] + more
                before = rounds
            advance(1)
        measured = [measure(examples, of_rounds) for of_rounds in scores]
        best = int(np.argmax([of_rounds.mean() for of_rounds in measured]))
        booster = _boost(examples, _ROUNDS[best], seed)
        advance(1)
    trees = [_tree(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]
    return Trained(trees, measured[best])


def random_folds(questions: int, folds: int, seed: int) -> NDArray[np.int64]:
    """Parts of about equal size, int64 [Q]. Raises `InputError` for fewer questions than folds."""
    if questions < folds:
        raise InputError(
            f"{questions:,} questions have a relevant candidate, fewer than the {folds} folds",
            "Give more questions about the articles of this index.",
        )
    return np.random.default_rng(seed).permutation(np.arange(questions) % folds)


def accuracy(examples: Examples, scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Whether a relevant candidate is among the first 1, 5 and 20 by scores [n]: bool [Q, 3]."""
    question, rank = examples.hits(scores)
    first = np.full(len(examples.sizes), np.iinfo(np.int64).max)
    np.minimum.at(first, question, rank)
    return np.asarray(first[:, None] < np.array(ACCURACY_CUTOFFS))


def recall(
    examples: Examples, relevant: NDArray[np.int64], scores: NDArray[np.floating]
) -> NDArray[np.float64]:
    """The share of a question's relevant units among the first 2, 5 and 20 by scores [n]: float64 [Q, 3].

    relevant: how many each question has, int64 [Q], also beyond its candidates.
    """
    question, rank = examples.hits(scores)
    counts = [np.bincount(question[rank < cutoff], minlength=len(relevant)) for cutoff in RECALL_CUTOFFS]
    return np.asarray(np.stack(counts, 1) / np.maximum(relevant, 1)[:, None])


def _boost(examples: Examples, rounds: int, seed: int) -> Any:
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # a missing libgomp is the latter
        raise MachineError(
            f"LightGBM cannot be imported ({error})", f"{install_hint('lightgbm')}\n{_LIBGOMP}"
        ) from None
    data = lightgbm.Dataset(examples.values, examples.relevant.astype(np.int32), group=examples.sizes)
    return lightgbm.train(_PARAMETERS | {"seed": seed}, data, rounds)


def _tree(root: dict[str, Any]) -> Tree:
    """A tree of LightGBM as lists. The value of a node is the mean of its leaves by their training rows."""
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    value: list[float] = []

    def add(node: dict[str, Any]) -> tuple[int, float]:
        """Add a node and those below; returns its number and its training rows."""
        number = len(feature)
        is_leaf = "leaf_value" in node
        feature.append(-1 if is_leaf else node["split_feature"])
        threshold.append(0.0 if is_leaf else float(f"{node['threshold']:.9g}"))
        left.append(0)
        right.append(0)
        value.append(_rounded(node["leaf_value"]) if is_leaf else 0.0)
        if is_leaf:
            return number, node.get("leaf_count", 1)
        left[number], rows_left = add(node["left_child"])
        right[number], rows_right = add(node["right_child"])
        mean = value[left[number]] * rows_left + value[right[number]] * rows_right
        value[number] = _rounded(mean / (rows_left + rows_right))
        return number, rows_left + rows_right

    add(root)
    return Tree(feature=feature, threshold=threshold, left=left, right=right, value=value)


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
