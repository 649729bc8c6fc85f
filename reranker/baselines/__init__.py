"""The neural re-rankers that the papers compare with: K-NRM, Conv-KNRM, DRMM, DUET (HARP, section 4.2).

They are trained by `reranker.finetune` with `[model] kind = "knrm"` and so on, and opened by `open_scorer`
as any other re-ranker: same inputs, same losses, same checkpoints.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from indexer.base.errors import DamagedIndexError
from indexer.store.artifacts import read_json

if TYPE_CHECKING:
    from retriever.models.engine import Opened

KIND = "linkseek_baseline"
"""The key of config.json that says which one a folder holds."""


def is_baseline(folder: Path) -> bool:
    """Whether a folder holds one of them."""
    try:
        config = read_json(folder / "config.json")
    except DamagedIndexError:
        return False
    return isinstance(config, dict) and KIND in config


def open_baseline(folder: str, device: str = "auto") -> Opened:
    """One of them on a device (see `indexer.base.devices`), in float32. Raises `InputError` if it is
    damaged."""
    from indexer.base.devices import cuda_devices
    from indexer.encoding.batches import Parallel
    from reranker.baselines.folders import load_baseline
    from retriever.models.engine import Opened, torch_forward
    from retriever.models.locations import model_sha256
    from retriever.models.torch_engine import Whole

    model, facts = load_baseline(Path(folder))
    where = next(iter(cuda_devices(device)), "cpu")
    forward = torch_forward(Whole([model], "scores"), facts, where, "float32")
    return Opened(folder, model_sha256(Path(folder)), facts, forward, Parallel())
