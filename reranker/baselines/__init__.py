"""The neural re-rankers that the papers compare with: K-NRM, Conv-KNRM, DRMM, DUET (HARP, section 4.2).

They are trained by `linkseek finetune` with `[model] kind = "knrm"` and so on, and opened by `open_scorer`
like any other re-ranker: same inputs, same losses, same checkpoints.
"""

from __future__ import annotations

from pathlib import Path

from linkseek.indexer.base.errors import DamagedIndexError
from linkseek.indexer.store.artifacts import read_json

KIND = "linkseek_baseline"
"""The key of config.json that says which one a folder holds."""


def is_baseline(folder: Path) -> bool:
    """Whether a folder holds one of them."""
    try:
        config = read_json(folder / "config.json")
    except DamagedIndexError:
        return False
    return isinstance(config, dict) and KIND in config
