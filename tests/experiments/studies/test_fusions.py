"""python -m experiments fusions: its table, and its measures by hand."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.studies import fusions
from linkseek.indexer.build import SAMPLE
from linkseek.retriever.learned import training as fusion_training
from linkseek.retriever.learned.training import Examples


def test_measures_by_hand():
    """Two questions: the relevant candidates are the second and third best, and the best."""
    relevant, sizes = np.array([0, 1, 1, 1, 0], np.bool_), np.array([3, 2])
    examples = Examples(np.zeros((5, 1), np.float32), relevant, sizes, np.arange(5))
    values = fusions.measured(examples, np.array([3.0, 2.0, 1.0, 9.0, 8.0]))
    both = 1 + 1 / np.log2(3)
    assert values.tolist() == [
        [0, 1, 1, pytest.approx((1 / np.log2(3) + 1 / np.log2(4)) / both)],
        [1, 1, 1, 1],
    ]


def test_scores_below_the_best_by_hand():
    """The deviation of a question's candidates 1, 3 and 5 is the root of 8 / 3."""
    values, relevant = np.array([[1], [3], [5], [7]], np.float32), np.ones(4, np.bool_)
    examples = Examples(values, relevant, np.array([3, 1]), np.arange(4))
    below = fusions.below_best(examples, 0)
    assert below.tolist() == pytest.approx([-4 / (8 / 3) ** 0.5, -2 / (8 / 3) ** 0.5, 0, 0])


def test_each_collection_is_held_back(sample_index, monkeypatch, capsys):
    held_back = []
    monkeypatch.setattr(
        fusion_training,
        "_PARAMETERS",
        fusion_training._PARAMETERS | {"min_data_in_leaf": 2, "num_threads": 1},
    )

    def noted(examples, fold, *rest):
        held_back.append([*np.unique(fold)])
        assert examples.values.shape[1] == 11  # of each pipeline three, and five of both
        return fusion_training.train(examples, fold, *rest)

    monkeypatch.setattr(fusions, "train", noted)
    questions, qrels = (str(SAMPLE.with_name(name)) for name in ("questions.jsonl", "qrels.txt"))
    of_sample = ["--collection", str(sample_index), questions]
    fusions.main([*of_sample, *of_sample, qrels, "--pipeline", "bm25", "ql", "--limit", "12"])
    lines = capsys.readouterr().out.splitlines()
    assert held_back == [[0, 1]]
    assert lines[1] == "| held back | questions | accuracy@1 | accuracy@5 | accuracy@20 | nDCG@10 |"
    assert [line.split("|")[2].strip() for line in lines[3:]] == ["12", "12"]
    assert all(line.count("(p = ") == 4 for line in lines[3:])
