"""The encoder of a corpus, by its size and this machine: `linkseek build --encoder auto`."""

from __future__ import annotations

import os

from linkseek.indexer.base.defaults import DEFAULT_ENCODER
from linkseek.indexer.base.devices import cuda_devices
from linkseek.indexer.base.log import log_line
from linkseek.retriever.models.locations import STATIC_ENCODER, shipped_models

_RATE = 54  # passages a second and core, of the default encoder (docs/how-to/large-corpora.md)
_LIMIT = 3_600  # seconds


def encoder_for(passages: int, device: str = "auto") -> str:
    """The default encoder; the static one where that would take more than an hour without a GPU.

    The time is computed from a recorded rate, not measured: with the same corpus, the same machine always
    chooses the same. The choice is logged. Raises `UsageError` for a missing device.
    """
    cores = os.cpu_count() or 1
    seconds = passages / (_RATE * cores)
    if seconds <= _LIMIT or STATIC_ENCODER not in shipped_models() or cuda_devices(device):
        log_line(f"encoder: {DEFAULT_ENCODER}")
        return DEFAULT_ENCODER
    log_line(
        f"encoder: {STATIC_ENCODER}, since {DEFAULT_ENCODER} would take about {seconds / 3_600:,.1f} hours "
        f"for {passages:,} passages on {cores} cores without a GPU; "
        f"--encoder {DEFAULT_ENCODER} takes it anyway"
    )
    return STATIC_ENCODER
