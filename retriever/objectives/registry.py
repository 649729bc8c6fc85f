"""All objectives of bi-encoders by name."""

from __future__ import annotations

from linkseek.retriever.mining.objective_registry import Registry
from linkseek.retriever.objectives.base import PairObjective

PAIRS: Registry[PairObjective] = Registry(
    "linkseek.retriever.objectives",
    PairObjective,  # type: ignore[type-abstract]
    "Contrasts of re-rankers (PROP, HARP, PHP) are mined by `linkseek mine-contrasts`.",
)
