"""All objectives of cross-encoders by name: whatever files of this folder define; and mixes of them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import reranker.objectives
from reranker.objectives.base import Objective

MIXES: dict[str, dict[str, float]] = {
    "harp": {"harp-rqp": 1.0, "harp-qdm": 1.0, "harp-rdp": 1.0, "harp-acm": 1.0},
}
"""Names of several objectives with weights (HARP, section 3.2: tasks are sampled uniformly)."""


@cache
def all_objectives() -> dict[str, type[Objective]]:
    """Every objective by name, in alphabetical order of their files."""
    objectives: dict[str, type[Objective]] = {}
    for name in sorted(info.name for info in pkgutil.iter_modules(reranker.objectives.__path__)):
        module = importlib.import_module(f"{reranker.objectives.__name__}.{name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Objective) and "name" in vars(value):
                objectives[value.name] = value
    return objectives
