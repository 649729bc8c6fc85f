"""All objectives by name, their settings as options, and mixes of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import nearest
from linkseek.retriever.mining.objective import Objective, Setting

O = TypeVar("O", bound=Objective[Any])  # noqa: E741


@dataclass(frozen=True)
class Mix(Generic[O]):
    """Objectives of one kind of data and their weights, which are above 0, by name.

    without_links: the names of all objectives of this data that need no links.
    """

    objectives: Mapping[str, O]
    weights: Mapping[str, float]
    without_links: Sequence[str] = ()

    @property
    def first(self) -> O:
        """Any one objective of the registry."""
        return next(iter(self.objectives.values()))


@dataclass(frozen=True)
class Registry(Generic[O]):
    """The objectives that the files of a package define.

    base: their base class. elsewhere: a hint for objectives that are mined elsewhere. mixes: names of several
    objectives with weights.
    """

    package: str
    base: type[O]
    elsewhere: str
    mixes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def objectives(self) -> dict[str, O]:
        """Every objective with its default settings, in alphabetical order of their files."""
        package = importlib.import_module(self.package)
        objectives: dict[str, O] = {}
        for file in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
            for value in vars(importlib.import_module(f"{self.package}.{file}")).values():
                if isinstance(value, type) and issubclass(value, self.base) and "name" in vars(value):
                    objectives[value.name] = value()
        return objectives

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings of all objectives by name, each with the objectives that have a default."""
        by_name: dict[str, dict[str, Setting]] = {}
        for objective in self.objectives.values():
            for name, setting in objective.settings().items():
                by_name.setdefault(name, {})[objective.name] = setting
        return {name: self._joined(settings) for name, settings in by_name.items()}

    def _joined(self, settings: dict[str, Setting]) -> Setting:
        by_default: dict[str, list[str]] = {}
        for name, setting in settings.items():
            by_default.setdefault(setting.default, []).append(name)
        if len(by_default) == 1 and len(settings) == len(self.objectives):
            return setting  # the same for all
        defaults = "; ".join(f"{default} ({', '.join(names)})" for default, names in by_default.items())
        return replace(next(iter(settings.values())), default=defaults)

    def mix(self, text: str, settings: Mapping[str, Any]) -> Mix[O]:
        """NAME, or NAME=WEIGHT,NAME=WEIGHT, as objectives with weights; the name of a mix is its parts.

        settings: each objective gets its own. Raises `UsageError` for an unknown name, a name given twice, an
        invalid weight, and a setting that none of the objectives has.
        """
        known = self.objectives
        weights: dict[str, float] = {}
        for part in text.split(","):
            name, _, number = (word.strip() for word in part.partition("="))
            shares = {name: 1.0} if name in known else self.mixes.get(name, {})
            if not shares:
                hint = f"{nearest(name, {*known, *self.mixes})} {self.elsewhere}"
                raise UsageError(f"no objective {name}", hint)
            for objective, share in shares.items():
                if objective in weights:
                    raise UsageError(f"--objective {text}: {objective} is given twice", "Name each once.")
                weights[objective] = _weight(number, text) * share / sum(shares.values())
        for setting in settings:
            if not any(setting in known[name].settings() for name in weights):
                able = [name for name, objective in known.items() if setting in objective.settings()]
                option = f"--{setting.replace('_', '-')}"
                hint = f"Objectives that have it: {', '.join(able)}."
                raise UsageError(f"{option}: {text} has no such setting", hint)
        without_links = [name for name, objective in known.items() if not objective.needs_links]
        return Mix({name: _configured(known[name], settings) for name in weights}, weights, without_links)

    def knows(self, text: str) -> bool:
        """Whether the registry has one of the names in a text that `mix` takes."""
        names = {part.partition("=")[0].strip() for part in text.split(",")}
        return not names.isdisjoint({*self.objectives, *self.mixes})

    def help(self) -> str:
        """All objectives and mixes with a summary each."""
        objectives = [f"{name}, {objective.summary}" for name, objective in self.objectives.items()]
        return "; ".join(objectives + [f"{name}: {', '.join(parts)}" for name, parts in self.mixes.items()])


def _configured(objective: O, settings: Mapping[str, Any]) -> O:
    given = {name: settings[name] for name in settings.keys() & objective.settings()}
    return replace(objective, **given)  # type: ignore[type-var]


def _weight(number: str, text: str) -> float:
    try:
        weight = float(number or 1)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UsageError(f"--objective {text}: {number} is not a valid weight", "Use numbers above 0.")
    return weight
