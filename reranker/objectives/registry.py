"""All objectives of cross-encoders by name: whatever files of this folder define; and mixes of them."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Any

import reranker.objectives
from reranker.objectives.base import Objective, Setting

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


@dataclass(frozen=True, slots=True)
class SharedSetting:
    """A setting of one or several objectives. defaults: in words, by objective. bounds: pydantic's."""

    type: Any
    meaning: str
    defaults: str
    bounds: dict[str, Any]


@cache
def all_settings() -> dict[str, SharedSetting]:
    """The settings of all objectives by name."""
    by_name: dict[str, dict[str, Setting]] = {}
    for objective in all_objectives().values():
        for name, setting in objective.settings().items():
            by_name.setdefault(name, {})[objective.name] = setting
    return {name: _share(settings) for name, settings in by_name.items()}


def _share(settings: dict[str, Setting]) -> SharedSetting:
    by_default: dict[str, list[str]] = {}
    for name, setting in settings.items():
        by_default.setdefault(setting.default, []).append(name)
    defaults = "; ".join(f"{default} ({', '.join(names)})" for default, names in by_default.items())
    first = next(iter(settings.values()))
    return SharedSetting(first.type, first.meaning, defaults, first.bounds)


def objectives_markdown() -> str:
    """The table of objectives for the documentation."""
    rows = [f"| `{name}` | {each.better_is} | {each.worse_is} |" for name, each in all_objectives().items()]
    return "\n".join(["| objective | better | worse |", "|---|---|---|", *rows])


def settings_markdown() -> str:
    """The table of their settings, as options of the command."""
    rows = [
        f"| `--{name.replace('_', '-')}` | {setting.meaning} | {setting.defaults} |"
        for name, setting in all_settings().items()
    ]
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows])
