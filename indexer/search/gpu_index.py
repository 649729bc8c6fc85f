"""Searches of a FAISS index on GPUs: exactly, in torch (see `exact`), of its float16 vectors.

`auto` does so for `Flat` indexes, if the free memory of the GPUs holds the vectors; the CPU searches all
others faster than exactly, so only `cuda` asks for it. Several GPUs share the vectors, so that their memories
add up. No file changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.errors import LinkseekError, MachineError, UsageError
from linkseek.indexer.program.log import log_line
from linkseek.indexer.search.faiss_index import FLAT, FaissIndex, search_parameters
from linkseek.indexer.search.faiss_tools import Hits, reason
from linkseek.indexer.search.partitioned import PartitionedVectors, VectorSearch


def on_device(index: VectorSearch, device: str) -> VectorSearch:
    """The index for searches on a device (see `machine.devices`); `Index.dense` calls it once for each.

    auto: on the GPUs if there are any that can search it, else the index itself. Raises `UsageError` for a
    missing GPU, or one that cannot search this type of index.
    """
    gpus = cuda_devices(device)
    if not gpus:
        return index
    if isinstance(index, PartitionedVectors):
        if index.codes is not None:
            on_gpus = on_device(index.codes, device)
            return index if on_gpus is index.codes else on_gpus
        return PartitionedVectors([on_device(part, device) for part in index.parts])
    if not isinstance(index, FaissIndex):
        return index
    return _on_gpus(index, gpus, needed=device != "auto")


def _on_gpus(index: FaissIndex, gpus: Sequence[str], *, needed: bool) -> VectorSearch:
    factory = index.manifest.factory
    if factory != FLAT and not needed:
        log_line(f'searching the {factory} index on the CPU (device = "cuda" searches its vectors exactly)')
        return index
    try:
        return _ExactOnGpus(index, gpus, needed)
    except (RuntimeError, LinkseekError) as error:
        why = error.message if isinstance(error, LinkseekError) else reason(error)[:200]
    if needed:
        raise UsageError(
            f"this {factory} index cannot be searched on a GPU ({why})",
            'Set device = "cpu", or use GPUs with more memory.',
        )
    log_line(f"searching vectors on the CPU ({why})")
    return index


class _ExactOnGpus:
    """The vectors of an index, in torch."""

    def __init__(self, index: FaissIndex, gpus: Sequence[str], needed: bool) -> None:
        """A `Flat` one that the GPUs do not hold is copied to them at each search, if that is `needed`."""
        from linkseek.indexer.search.exact import ExactSearch

        self._factory = index.manifest.factory
        try:
            self._search = ExactSearch(index.vectors, gpus, must_hold=True)
        except MachineError as error:
            if not needed or self._factory != FLAT:  # the CPU searches those faster
                raise
            self._search = ExactSearch(index.vectors, gpus)
            log_line(f"{error.message}: each search copies all vectors there")
        self.encoder = index.encoder

    def __len__(self) -> int:
        return len(self._search)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """As `FaissIndex.search`, exactly: its parameters do not matter.

        Raises `UsageError` for other parameters: an exact search has none.
        """
        for name in parameters.keys() - search_parameters(self._factory):
            raise UsageError(
                f"this {self._factory} index has no search parameter {name}", "An exact search has none."
            )
        return self._search.search(vectors, k)
