"""All objectives of cross-encoders by name: whatever files of this folder define; and mixes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import linkseek.reranker.objectives
from linkseek.indexer.base.errors import UsageError
from linkseek.indexer.base.settings import nearest
from linkseek.reranker.objectives.base import Objective, Setting
from linkseek.retriever.objectives.registry import named_classes

Mix = Mapping[str, tuple[Objective, float]]
"""Objectives with their weights, which are above 0, by name."""

MIXES: dict[str, dict[str, float]] = {
    "harp": {"harp-rqp": 1.0, "harp-qdm": 1.0, "harp-rdp": 1.0, "harp-acm": 1.0},
}
"""Names of several objectives with weights (HARP, section 3.2: tasks are sampled uniformly)."""


@cache
def all_objectives() -> dict[str, type[Objective]]:
    """Every objective by name, in alphabetical order of their files."""
    return named_classes(linkseek.reranker.objectives, Objective)


@cache
def all_settings() -> dict[str, Setting]:
    """The settings of all objectives by name. default: those of all, with the objectives that have them."""
    by_name: dict[str, dict[str, Setting]] = {}
    for objective in all_objectives().values():
        for name, setting in objective.settings().items():
            by_name.setdefault(name, {})[objective.name] = setting
    return {name: _share(settings) for name, settings in by_name.items()}


def _share(settings: dict[str, Setting]) -> Setting:
    by_default: dict[str, list[str]] = {}
    for name, setting in settings.items():
        by_default.setdefault(setting.default, []).append(name)
    defaults = "; ".join(f"{default} ({', '.join(names)})" for default, names in by_default.items())
    return replace(next(iter(settings.values())), default=defaults)


def make_mix(text: str, settings: Mapping[str, Any]) -> Mix:
    """NAME, or NAME=WEIGHT,NAME=WEIGHT, as objectives with weights; the name of a mix is its parts.

    settings: each objective gets those that it has. Raises `UsageError` for an unknown name, a name given
    twice, an invalid weight, and a setting that none of the objectives has.
    """
    known = all_objectives()
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (word.strip() for word in part.partition("="))
        shares = {name: 1.0} if name in known else MIXES.get(name, {})
        if not shares:
            raise UsageError(f"no objective {name}", nearest(name, {*known, *MIXES}))
        for objective, share in shares.items():
            if objective in weights:
                raise UsageError(f"--objective {text}: {objective} is there twice", "Name each once.")
            weights[objective] = _weight(number, text) * share / sum(shares.values())
    for setting in settings:
        if not any(setting in known[name].settings() for name in weights):
            able = [name for name, objective in known.items() if setting in objective.settings()]
            raise UsageError(
                f"--{setting.replace('_', '-')}: {text} has no such setting",
                f"Objectives that have it: {', '.join(able)}.",
            )
    mix = {}
    for name, weight in weights.items():
        own = {setting: settings[setting] for setting in known[name].settings() if setting in settings}
        mix[name] = known[name](**own), weight
    return mix


def _weight(number: str, text: str) -> float:
    try:
        weight = float(number or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UsageError(f"--objective {text}: {number} is no weight", "Weights are numbers above 0.")
    return weight


def objectives_markdown() -> str:
    """The table of objectives for the documentation."""
    rows = [f"| `{name}` | {each.better_is} | {each.worse_is} |" for name, each in all_objectives().items()]
    return "\n".join(["| objective | better | worse |", "|---|---|---|", *rows])


def settings_markdown() -> str:
    """The table of their settings, as options of the command."""
    rows = [
        f"| `--{name.replace('_', '-')}` | {setting.meaning} | {setting.default} |"
        for name, setting in all_settings().items()
    ]
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows])
