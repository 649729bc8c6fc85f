"""The encoder of a corpus, by its language, its size and this machine: `linkseek build --encoder auto`."""

from __future__ import annotations

import os

from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.defaults import DEFAULT_ENCODER, MULTILINGUAL
from linkseek.indexer.program.log import log_line
from linkseek.retriever.models.locations import STATIC_ENCODER, is_here, shipped_models

_RATES = {DEFAULT_ENCODER: 54, MULTILINGUAL: 27}
"""Passages a second and core (docs/how-to/large-corpora.md)."""
_LIMIT = 3_600  # seconds


def encoder_for(passages: int, language: str, device: str = "auto") -> str:
    """The default encoder, or for other languages than English the multilingual one if it is on this machine;
    the static one where that would take more than an hour without a GPU.

    The time is computed from a recorded rate, not measured: with the same corpus, the same machine always
    chooses the same. The choice is logged. Raises `UsageError` for a missing device.
    """
    cores = os.cpu_count() or 1
    chosen = MULTILINGUAL if language != ENGLISH and is_here(MULTILINGUAL) else DEFAULT_ENCODER
    seconds = passages / (_RATES[chosen] * cores)
    if seconds <= _LIMIT or STATIC_ENCODER not in shipped_models() or cuda_devices(device):
        log_line(f"encoder: {chosen}")
        return chosen
    log_line(
        f"encoder: {STATIC_ENCODER}, since {chosen} would take about {seconds / 3_600:,.1f} hours "
        f"for {passages:,} passages on {cores} cores without a GPU; "
        f"--encoder {chosen} takes it anyway"
    )
    return STATIC_ENCODER
