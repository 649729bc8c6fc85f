"""All objectives of cross-encoders by name."""

from __future__ import annotations

from linkseek.reranker.objectives.base import ContrastObjective
from linkseek.retriever.mining.objective_registry import Registry

CONTRASTS: Registry[ContrastObjective] = Registry(
    "linkseek.reranker.objectives",
    ContrastObjective,  # type: ignore[type-abstract]
    "Pairs of bi-encoders (HLP, dual-link, BFS) are mined by `linkseek mine`.",
    # HARP's tasks are sampled uniformly (section 3.2).
    {"harp": {"harp-rqp": 1.0, "harp-qdm": 1.0, "harp-rdp": 1.0, "harp-acm": 1.0}},
)
