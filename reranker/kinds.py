"""Kinds of re-rankers that plug-ins add.

One is trained by `linkseek finetune` with `[model] kind = "NAME"` and opened by `open_scorer` like a
cross-encoder: same inputs, same losses, same checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from linkseek.indexer.program.plugins import load_plugins

if TYPE_CHECKING:
    from linkseek.retriever.models.engine import Opened

DEFAULT_KIND = "cross-encoder"
"""The kind that is always there."""


class RerankerKind(NamedTuple):
    """Models of one form on disk. Functions import large libraries only when they are called."""

    names: tuple[str, ...]
    """values of `[model] kind`"""
    holds: Callable[[Path], bool]
    """whether a folder contains one"""
    open: Callable[[str, str], Opened]
    """one in a folder, on a device (see `indexer.machine.devices`)"""
    trainable: Callable[[Any], Any]
    """a `FinetuneConfig` -> the `Trainable` that it names, as training starts"""


_KINDS: list[RerankerKind] = []


def add_kind(kind: RerankerKind) -> None:
    """Add a kind; called by a plug-in as it is imported."""
    _KINDS.append(kind)


def kind_of_folder(folder: Path) -> RerankerKind | None:
    """The kind of the model in a folder; None for a cross-encoder, and for a folder without a model."""
    return next((kind for kind in _all_kinds() if kind.holds(folder)), None)


def kind_named(name: str) -> RerankerKind | None:
    """The kind with a name; None for a cross-encoder. Raises `ValueError` for an unknown one."""
    kinds = {name: kind for kind in _all_kinds() for name in kind.names}
    if name not in (DEFAULT_KIND, *kinds):
        raise ValueError(f"no such kind of re-ranker; there are: {', '.join((DEFAULT_KIND, *kinds))}")
    return kinds.get(name)


def _all_kinds() -> list[RerankerKind]:
    load_plugins()
    return _KINDS
