"""Objectives with weights and settings, from the command line of `linkseek mine-contrasts`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexer.base.errors import UsageError
from indexer.base.settings import nearest
from reranker.objectives.base import Objective
from reranker.objectives.registry import MIXES, all_objectives

Mix = Mapping[str, tuple[Objective, float]]
"""Objectives with their weights, which are above 0, by name."""


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
    return {name: (_make(known[name], settings), weight) for name, weight in weights.items()}


def _make(objective: type[Objective], settings: Mapping[str, Any]) -> Objective:
    return objective(**{name: settings[name] for name in objective.settings() if name in settings})


def _weight(number: str, text: str) -> float:
    try:
        weight = float(number or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UsageError(f"--objective {text}: {number} is no weight", "Weights are numbers above 0.")
    return weight
