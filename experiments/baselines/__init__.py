"""The neural re-rankers that the papers compare with: K-NRM, Conv-KNRM, DRMM, DUET (HARP, section 4.2).

They are a plug-in of Linkseek, a kind of re-ranker (`linkseek.reranker.kinds`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.store.artifacts import read_json
from linkseek.reranker.kinds import RerankerKind

if TYPE_CHECKING:
    from linkseek.reranker.training.config import FinetuneConfig
    from linkseek.reranker.training.trainable_cross_encoder import Trainable
    from linkseek.retriever.models.engine import Opened

KIND = "linkseek_baseline"
"""The key of config.json that says which one a folder contains."""


def is_baseline(folder: Path) -> bool:
    """Whether a folder contains one of them."""
    try:
        config = read_json(folder / "config.json")
    except DamagedIndexError:
        return False
    return isinstance(config, dict) and KIND in config


def _open(folder: str, device: str) -> Opened:
    from experiments.baselines.folders import open_baseline

    return open_baseline(folder, device)


def _trainable(config: FinetuneConfig) -> Trainable:
    from experiments.baselines.training import trainable_baseline

    return trainable_baseline(config)


BASELINE = RerankerKind(("knrm", "conv-knrm", "drmm", "duet"), is_baseline, _open, _trainable)
