"""A sum of decision trees over named features, in a JSON file that people can read.

    {"format": "linkseek fusion 1", "features": ["bm25: score", ...], "trained": {...},
     "pipelines": ["bm25", "dense"], "links": true, "neighbours": "links", "trees": [{...}, ...]}

A tree lists its nodes, the root first and children after their parents: at node i, a value of `feature[i]`
of at most `threshold[i]` leads to node `left[i]`, a larger one to `right[i]`; a leaf has the feature -1.
`value[i]` is a leaf's value, or the mean of the leaves below over the training data. A score is the sum of
the values of the leaves that are reached.

The file is data alone: everything in it is checked, and nothing is imported, called or evaluated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, model_validator

from linkseek.indexer.program.errors import InputError, LinkseekError, MismatchError
from linkseek.indexer.program.settings import Settings, validate
from linkseek.retriever.learned.hop_graph import LINKS, GraphName
from linkseek.retriever.models.checks.only_data import read_settings

MAX_TREES = 2_000
_MAX_NODES = 511
_MAX_DEPTH = 64  # nodes from the root to a leaf; LightGBM's of 15 leaves have 15 at most
_BLOCK = 1 << 18  # nodes of rows and trees that are looked at together
_LARGEST = 1e12

Node = Annotated[int, Field(ge=-1, lt=_MAX_NODES)]
Value = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]


class Strict(Settings):
    """Settings of a file that a program wrote: "yes" and 1 are not true."""

    model_config = ConfigDict(strict=True)


class Tree(Strict):
    """The nodes of a tree, 1 to 511, at most 64 of them on a path."""

    feature: Annotated[list[Node], Field(min_length=1, max_length=_MAX_NODES)]
    threshold: list[Value]
    left: list[Node]
    right: list[Node]
    value: list[Value]

    @model_validator(mode="after")
    def _is_tree(self) -> Self:
        nodes = len(self.feature)
        if any(len(column) != nodes for column in (self.threshold, self.left, self.right, self.value)):
            raise ValueError("its lists differ in length")
        for node, (feature, *children) in enumerate(zip(self.feature, self.left, self.right, strict=True)):
            if feature >= 0 and not all(node < child < nodes for child in children):
                raise ValueError(f"node {node} leads to a node that does not follow it")
        depth = [1] * nodes
        for node, (feature, *children) in enumerate(zip(self.feature, self.left, self.right, strict=True)):
            for child in children if feature >= 0 else ():
                depth[child] = max(depth[child], depth[node] + 1)
        if max(depth) > _MAX_DEPTH:
            raise ValueError(f"a path of {max(depth)} nodes, expected {_MAX_DEPTH} at most")
        return self


class TreeFile(Strict):
    """The fields that all files of trees have. trained: how they were trained, for people; not used."""

    command: ClassVar[str]
    """The command that makes such a file."""

    format: str
    features: Annotated[list[str], Field(min_length=1, max_length=1_000)]
    trained: dict[str, Any]
    trees: Annotated[list[Tree], Field(min_length=1, max_length=MAX_TREES)]

    @model_validator(mode="after")
    def _has_features(self) -> Self:
        if max(max(tree.feature) for tree in self.trees) >= len(self.features):
            raise ValueError("a tree reads a feature that is not in the list")
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """The checked content of a file, which is read again after a change.

        Raises `InputError` for anything else than the class describes.
        """
        stamp = path.stat() if path.is_file() else None
        file: Self = _read(cls, path, stamp and (stamp.st_mtime_ns, stamp.st_size))
        return file

    def check_features(self, names: Sequence[str], path: Path) -> None:
        """Raises `MismatchError` if the trees were trained for other features than these."""
        if self.features != names:
            raise MismatchError(
                f"{path}: its features are for another version of Linkseek", _AGAIN.format(self.command)
            )


_AGAIN = "Train it again with {}."


@lru_cache(maxsize=8)
def _read(kind: type[TreeFile], path: Path, stamp: object) -> Any:
    try:
        return validate(kind, read_settings(path), file=path)
    except LinkseekError as error:
        raise InputError(error.message, _AGAIN.format(kind.command)) from None


class FusionFile(TreeFile):
    """The file of a learned fusion."""

    command = "linkseek train-fusion"
    format: Literal["linkseek fusion 1"]
    pipelines: Annotated[list[str], Field(min_length=1, max_length=50)]
    links: bool
    neighbours: GraphName = LINKS


def trees_json(file: TreeFile) -> bytes:
    """The text of a model's file: its keys indented, and each of its trees in one line."""
    others = file.model_dump(exclude={"trees"})
    text = orjson.dumps(others | {"trees": []}, option=orjson.OPT_INDENT_2).decode()
    lines = ",\n".join(orjson.dumps(tree.model_dump()).decode() for tree in file.trees)
    return text.replace('"trees": []', f'"trees": [\n{lines}\n]').encode() + b"\n"


class BoostedTrees:
    """Scores of rows of features. T trees of at most n nodes, F features."""

    def __init__(self, trees: Sequence[Tree]) -> None:
        """trees: the trees of a file, at least one."""
        nodes = max(len(tree.feature) for tree in trees)

        def columns(name: str, missing: float) -> NDArray[Any]:
            rows = [getattr(tree, name) for tree in trees]
            return np.array([row + [missing] * (nodes - len(row)) for row in rows])  # [T, n]

        self._first = np.arange(len(trees)) * nodes  # [T], the roots
        self._feature = columns("feature", -1).ravel()  # [T * n]
        self._threshold, self._value = columns("threshold", 0.0).ravel(), columns("value", 0.0).ravel()
        own = np.arange(len(self._feature))
        leaf, shift = self._feature < 0, own // nodes * nodes
        # [2 * T * n]: of node i the right one is at 2 i and the left one at 2 i + 1; a leaf leads to itself
        sides = [np.where(leaf, own, columns(name, 0).ravel() + shift) for name in ("right", "left")]
        self._children = np.stack(sides, axis=1).ravel()

    def scores(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scores of N rows of features [N, F], a block of rows at a time: float64 [N]."""
        rows = max(1, _BLOCK // len(self._first))
        scores = np.empty(len(values))  # [N]
        for start in range(0, len(values), rows):
            [node] = deque(self._paths(values[start : start + rows]), maxlen=1)
            scores[start : start + rows] = self._value.take(node).sum(axis=1)
        return scores

    def contributions(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each feature adds to the scores of N rows [N, F]: float64 [N, F].

        The change of the mean value at each node on the path counts for the feature that the node reads
        (Saabas 2014), so a row's contributions add up to its score less `bias`.
        """
        added = np.zeros(values.shape)  # [N, F]
        rows = np.arange(len(values))[:, None]  # [N, 1]
        for node, following in pairwise(self._paths(values)):
            change = self._value[following] - self._value[node]  # [N, T], 0 at leaves
            np.add.at(added, (rows, self._feature[node]), change)
        return added

    @property
    def bias(self) -> float:
        """The mean score over the training data."""
        return float(self._value[self._first].sum())

    def _paths(self, values: NDArray[np.float64]) -> Iterator[NDArray[np.int64]]:
        """The nodes that N rows reach in all trees, level by level: int64 [N, T], the leaves last."""
        count, features = values.shape
        flat, row = np.ascontiguousarray(values).ravel(), np.arange(count)[:, None] * features  # [N, 1]
        node = np.broadcast_to(self._first, (count, len(self._first)))
        yield node
        while ((feature := self._feature.take(node)) >= 0).any():
            smaller = flat.take(row + np.maximum(feature, 0)) <= self._threshold.take(node)
            node = self._children.take(2 * node + smaller)  # `take` needs half the time of an index
            yield node
