"""The file of a trained model for hops: `boosted_trees` over the features of `hop_features`, in JSON.

{"format": "linkseek hops 2", "features": ["score", ...], "trained": {...}, "graphs": ["links"],
 "sources": 10, "several_steps": {...}, "trees": [{...}, ...]}

Files of "linkseek hops 1" have no `several_steps`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from linkseek.indexer.program.errors import InputError, LinkseekError
from linkseek.indexer.program.settings import validate
from linkseek.retriever.learned.boosted_trees import TreeFile
from linkseek.retriever.learned.question_kinds import QuestionKind
from linkseek.retriever.models.checks.only_data import read_settings
from linkseek.retriever.search.neighbours import Neighbours

_HINT = "Train it again with linkseek train-hops."


class HopModel(TreeFile):
    """The content of a file."""

    format: Literal["linkseek hops 1", "linkseek hops 2"]
    graphs: Annotated[list[Neighbours], Field(min_length=1, max_length=2)]
    sources: Annotated[int, Field(ge=1, le=1_000)]
    """results of the first stage that are followed"""
    several_steps: QuestionKind | None = None
    """tells questions of one step from questions of several; without it, all are of several"""


def read_hop_model(path: Path) -> HopModel:
    """The checked content of a file. Raises `InputError` for anything else than `HopModel` describes."""
    stamp = path.stat() if path.is_file() else None
    return _read(path, stamp and (stamp.st_mtime_ns, stamp.st_size))


@lru_cache(maxsize=8)
def _read(path: Path, stamp: object) -> HopModel:
    try:
        return validate(HopModel, read_settings(path), file=path)
    except LinkseekError as error:
        raise InputError(error.message, _HINT) from None
