"""All objectives of retrievers by name: whatever files of this folder define."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any

import linkseek.retriever.objectives
from linkseek.retriever.objectives.base import Objective


def named_classes(package: ModuleType, base: type) -> dict[str, Any]:
    """Subclasses of `base` by their own attribute `name`, in alphabetical order of a package's files."""
    classes: dict[str, Any] = {}
    for file in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        for value in vars(importlib.import_module(f"{package.__name__}.{file}")).values():
            if isinstance(value, type) and issubclass(value, base) and "name" in vars(value):
                classes[vars(value)["name"]] = value
    return classes


@cache
def all_objectives() -> dict[str, Objective]:
    """Every objective by name."""
    classes = named_classes(linkseek.retriever.objectives, Objective)
    return {name: objective() for name, objective in classes.items()}


def objectives_markdown() -> str:
    """The table of objectives for the documentation."""
    rows = [f"| `{name}` | {each.query_is} | {each.positive_is} |" for name, each in all_objectives().items()]
    return "\n".join(["| objective | query | passage to find |", "|---|---|---|", *rows])
