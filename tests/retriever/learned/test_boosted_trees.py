"""Trees from a file: scores, what features add, and files that are none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from linkseek.indexer.program.errors import InputError
from linkseek.retriever.learned import boosted_trees
from linkseek.retriever.learned.boosted_trees import BoostedTrees, FusionFile, Tree

# value 0 of feature 1 at most .5 -> leaf 1; else feature 0 at most 2 -> leaf 3, else leaf 4
STUMP = {"feature": [1, -1, 0, -1, -1], "threshold": [0.5, 0, 2, 0, 0], "left": [1, 0, 3, 0, 0]}
TREE = STUMP | {"right": [2, 0, 4, 0, 0], "value": [0.25, -1.0, 1.5, 1.0, 2.0]}
LEAF = {"feature": [-1], "threshold": [0.0], "left": [0], "right": [0], "value": [0.125]}
FILE = {
    "format": "linkseek fusion 1",
    "pipelines": ["a"],
    "links": False,
    "features": ["x", "y"],
    "trained": {},
    "trees": [TREE, LEAF, TREE],
}
ROWS = np.array([[0.0, 0.5], [2.0, 0.6], [2.1, 9.0], [-1.0, -1.0]])


def walk(tree: Tree, row) -> float:
    node = 0
    while tree.feature[node] >= 0:
        smaller = row[tree.feature[node]] <= tree.threshold[node]
        node = tree.left[node] if smaller else tree.right[node]
    return tree.value[node]


def test_scores_are_those_of_a_walk_through_each_tree(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(FILE))
    file = FusionFile.read(tmp_path / "m.json")
    trees = BoostedTrees(file.trees)
    expected = [sum(walk(tree, row) for tree in file.trees) for row in ROWS]
    assert trees.scores(ROWS).tolist() == expected == [-1.875, 2.125, 4.125, -1.875]
    assert trees.scores(ROWS[:0]).shape == (0,)


def test_contributions_add_up_to_the_score():
    trees = BoostedTrees(FusionFile.model_validate(FILE).trees)
    added = trees.contributions(ROWS)
    assert np.allclose(added.sum(axis=1) + trees.bias, trees.scores(ROWS))
    # two trees: .25 -> 1.5 by y, 1.5 -> 1 by x
    assert added[1].tolist() == [-1.0, 2.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "linkseek fusion 2"}, "format"),
        ({"trees": []}, "trees"),
        ({"trees": [TREE | {"left": [0, 0, 3, 0, 0]}]}, "node 0 leads to a node that does not follow it"),
        ({"trees": [TREE | {"right": [2, 0, 9, 0, 0]}]}, "node 2 leads to a node"),
        ({"trees": [TREE | {"value": [1.0]}]}, "differ in length"),
        ({"trees": [TREE | {"value": [1e300] * 5}]}, "needs a number from"),
        ({"trees": [TREE | {"feature": [2, -1, 0, -1, -1]}]}, "not in the list"),
        ({"trees": [LEAF] * 2001}, "at most 2000"),
        ({"auto_map": {"a": "os.system"}}, "unknown"),
        ({"trees": [TREE | {"feature": ["__import__('os')"] * 5}]}, "needs a whole number"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, change, message):
    path = tmp_path / "m.json"
    path.write_text(json.dumps(FILE | change))
    with pytest.raises(InputError, match=message) as caught:
        FusionFile.read(path)
    assert str(path) in caught.value.message and len(caught.value.message) < 2000
    assert "linkseek train-fusion" in caught.value.hint


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04K\x01.", b"[" * 100_000, b"[1]", b"{}", b'{"trees": NaN}']
)
def test_a_damaged_file_is_a_sentence(tmp_path, content):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(InputError, match=r"m\.json"):
        FusionFile.read(tmp_path / "m.json")


def test_a_missing_or_huge_file_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match=r"m\.json: no such file"):
        FusionFile.read(tmp_path / "m.json")
    with (tmp_path / "m.json").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InputError, match="at most"):
        FusionFile.read(tmp_path / "m.json")


def chain(depth: int) -> dict:
    """A tree whose right children follow each other, with a leaf at each node's left."""
    nodes = 2 * depth - 1
    inner = [number % 2 == 0 and number < nodes - 1 for number in range(nodes)]
    return {
        "feature": [0 if is_inner else -1 for is_inner in inner],
        "threshold": [0.0] * nodes,
        "left": [number + 1 if is_inner else 0 for number, is_inner in enumerate(inner)],
        "right": [number + 2 if is_inner else 0 for number, is_inner in enumerate(inner)],
        "value": [float(number) for number in range(nodes)],
    }


def test_paths_have_a_longest_length():
    assert BoostedTrees([Tree.model_validate(chain(64))]).scores(np.ones((1, 1))).tolist() == [126.0]
    with pytest.raises(ValueError, match="a path of 65 nodes, expected 64 at most"):
        Tree.model_validate(chain(65))


def test_blocks_of_rows_do_not_change_scores(monkeypatch):
    trees = BoostedTrees(FusionFile.model_validate(FILE).trees)
    expected = trees.scores(ROWS).tolist()
    monkeypatch.setattr(boosted_trees, "_BLOCK", 1)
    assert trees.scores(ROWS).tolist() == expected


@pytest.mark.parametrize("change", [{"links": "yes"}, {"links": 1}, {"trees": [LEAF | {"feature": ["-1"]}]}])
def test_values_of_other_types_are_refused(tmp_path, change):
    (tmp_path / "m.json").write_text(json.dumps(FILE | change))
    with pytest.raises(InputError, match=r"m\.json"):
        FusionFile.read(tmp_path / "m.json")
