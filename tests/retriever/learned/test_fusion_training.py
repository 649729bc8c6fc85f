"""Training a learned fusion: better than its features, the same as LightGBM's own, and deterministic."""

from __future__ import annotations

import numpy as np
import pytest

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.learned import training as fusion_training
from linkseek.retriever.learned.boosted_trees import BoostedTrees, FusionFile
from linkseek.retriever.learned.training import Examples, accuracy, random_folds, train
from linkseek.retriever.links.questions import link_questions


@pytest.fixture(scope="module")
def examples():
    """Relevant is the candidate with the largest sum of two features out of three."""
    random = np.random.default_rng(1)
    sizes = random.integers(20, 40, 100)
    values = random.random((sizes.sum(), 3)).astype(np.float32)
    owner = np.repeat(np.arange(100), sizes)
    total = values[:, 0] + values[:, 2]
    best = np.full(100, -1.0)
    np.maximum.at(best, owner, total)
    return Examples(values, total == best[owner], sizes, np.arange(len(owner)))


def file_of(trained):
    return FusionFile(
        format="linkseek fusion 1",
        pipelines=["a"],
        links=False,
        features=["x", "y", "z"],
        trained={},
        trees=trained.trees,
    )


def test_it_learns_and_is_deterministic(examples):
    fold = random_folds(100, 2, seed=1)
    trained = train(examples, fold, seed=1)
    assert trained.values.shape == (100, 3)
    alone = max(accuracy(examples, examples.values[:, column])[:, 0].mean() for column in range(3))
    assert trained.values[:, 0].mean() > alone + 0.2
    assert train(examples, fold, seed=1).trees == trained.trees
    added = BoostedTrees(trained.trees).contributions(examples.values.astype(np.float64))
    assert np.abs(added).sum(axis=0).argmin() == 1  # the feature that says nothing


def test_our_trees_score_as_lightgbm_does(examples):
    booster = fusion_training._boost(examples, 20, 1)
    trees = [fusion_training._tree(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]
    ours = BoostedTrees(trees)
    assert np.allclose(
        ours.scores(examples.values.astype(np.float64)), booster.predict(examples.values), atol=1e-4
    )


def test_accuracy_is_that_of_sorting_each_question(examples):
    scores = np.random.default_rng(2).random(len(examples.relevant))
    expected, start = [], 0
    for size in examples.sizes:
        order = np.argsort(-scores[start : start + size])
        hits = examples.relevant[start : start + size][order]
        expected.append([hits[:k].any() for k in (1, 5, 20)])
        start += size
    assert accuracy(examples, scores).tolist() == expected


def test_too_few_questions_are_named(examples):
    with pytest.raises(InputError, match="1 questions have a relevant candidate, fewer than the 2 folds"):
        random_folds(1, folds=2, seed=1)


def test_questions_from_links(tmp_path):
    from tests.support.tiny.linked import document, make_index

    rows = [
        document("Paris", "The long [river Seine|Seine] flows through it. The [Tower] stands.", "Paris"),
        document("Seine", "It flows through [Paris] slowly, and [Seine] is its name."),
        document("Tower", "Iron."),
    ]
    index = make_index(tmp_path, rows)
    questions = link_questions(index, 3, seed=1)
    assert len({question.query.id for question in questions}) == 3
    for number, question in enumerate(questions):
        link = int(question.query.id.removeprefix("link-"))
        text = index.passages[question.passage].text
        anchor = text[index.links.start[link] : index.links.end[link]]
        assert question.document == index.links.target[link] and index.links.passage[link] == question.passage
        assert question.query.text == anchor if number % 2 == 0 else anchor not in question.query.text
    assert link_questions(index, 1, seed=1) == questions[:1]
    bare = make_index(tmp_path / "bare", [document("Rome", "No links.")])
    with pytest.raises(InputError, match="needs links between documents"):
        link_questions(bare, 1, seed=1)
