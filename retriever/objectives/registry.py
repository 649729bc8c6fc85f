"""All objectives of retrievers by name: whatever files of this folder define."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import retriever.objectives
from retriever.objectives.base import Objective


@cache
def all_objectives() -> dict[str, Objective]:
    """Every objective by name, in alphabetical order of their files."""
    objectives: dict[str, Objective] = {}
    for name in sorted(info.name for info in pkgutil.iter_modules(retriever.objectives.__path__)):
        module = importlib.import_module(f"{retriever.objectives.__name__}.{name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Objective) and "name" in vars(value):
                objectives[value.name] = value()
    return objectives


def objectives_markdown() -> str:
    """The table of objectives for the documentation."""
    rows = [f"| `{name}` | {each.query_is} | {each.positive_is} |" for name, each in all_objectives().items()]
    return "\n".join(["| objective | query | passage to find |", "|---|---|---|", *rows])
