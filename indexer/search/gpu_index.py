"""Searches of a FAISS index on a device: on GPUs by FAISS if it is built for them, else by `exact`.

Several GPUs share the vectors, so that their memories add up. No file changes. Not yet tested on a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.base.devices import cuda_devices
from linkseek.indexer.base.errors import LinkseekError, UsageError
from linkseek.indexer.base.log import log_line
from linkseek.indexer.search.faiss_index import FaissIndex
from linkseek.indexer.search.faiss_tools import Hits, import_faiss, padded_result
from linkseek.indexer.search.partitioned import PartitionedVectors, VectorSearch

_FAISS_MAX_DEPTH = 2048  # of FAISS on a GPU


_lock = threading.Lock()


def on_device(index: VectorSearch, device: str) -> VectorSearch:
    """The index for searches on a device (see `indexer.base.devices`); on GPUs once for all callers.

    auto: on the GPUs if there are any that can search it, else the index itself. Raises `UsageError` for a
    missing GPU, or one that cannot search this type of index.
    """
    gpus = cuda_devices(device)
    if gpus and isinstance(index, PartitionedVectors):
        return PartitionedVectors([on_device(part, device) for part in index.parts])
    if not gpus or not isinstance(index, FaissIndex):
        return index
    with _lock:
        if device not in index.elsewhere:
            index.elsewhere[device] = _on_gpus(index, gpus, needed=device != "auto")
        opened: VectorSearch = index.elsewhere[device]
        return opened


def _on_gpus(index: FaissIndex, gpus: Sequence[str], *, needed: bool) -> VectorSearch:
    reasons = []
    for place in (_FaissOnGpus, _ExactOnGpus):
        try:
            return place(index, gpus)
        except (RuntimeError, LinkseekError) as error:
            lines = [error.message] if isinstance(error, LinkseekError) else str(error).strip().splitlines()
            # FAISS's errors begin with lines of its source
            reasons.append(lines[-1][:200] if lines else type(error).__name__)
    if needed:
        raise UsageError(
            f"this {index.manifest['factory']} index cannot be searched on a GPU ({'; '.join(reasons)})",
            "Build it with --faiss Flat, install the [gpu] extra, or search on the CPU.",
        )
    log_line(f"searching vectors on the CPU ({'; '.join(reasons)})")
    return index


class _FaissOnGpus:
    """Any type of index that FAISS supports on GPUs; `Flat` stays float16."""

    def __init__(self, index: FaissIndex, gpus: Sequence[str]) -> None:
        faiss = import_faiss()
        if not hasattr(faiss, "StandardGpuResources"):
            raise UsageError(
                "this FAISS is not built for GPUs",
                "Install the extra [gpu] instead of [cpu], or use --device cpu.",
            )
        options = faiss.GpuMultipleClonerOptions()
        options.useFloat16 = options.shard = True
        numbers = [int(gpu.partition(":")[2]) for gpu in gpus]
        self._index = faiss.index_cpu_to_gpus_list(index.index, options, numbers)
        self._parameters = faiss.GpuParameterSpace()
        self._defaults = index.parameters()
        self._on_cpu = index
        self._lock = threading.Lock()
        self.encoder = index.encoder

    def __len__(self) -> int:
        return len(self._on_cpu)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """As `FaissIndex.search`. Beyond the maximum depth of FAISS on a GPU, the CPU searches."""
        if min(k, len(self)) > _FAISS_MAX_DEPTH:
            return self._on_cpu.search(vectors, k, **parameters)
        with self._lock:
            for name, value in (self._defaults | parameters).items():
                self._parameters.set_index_parameter(self._index, name, value)
            vectors = np.ascontiguousarray(vectors, np.float32)  # [Q, d]
            scores, rows = self._index.search(vectors, min(k, len(self)))  # [Q, depth]
        return padded_result(rows, scores, k)


class _ExactOnGpus:
    """A `Flat` index, in torch."""

    def __init__(self, index: FaissIndex, gpus: Sequence[str]) -> None:
        from linkseek.indexer.search.exact import ExactSearch

        self._search = ExactSearch(index.flat_vectors(), gpus)
        self.encoder = index.encoder

    def __len__(self) -> int:
        return len(self._search)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """As `FaissIndex.search`. Raises `UsageError` for parameters: an exact search has none."""
        if parameters:
            name = next(iter(parameters))
            raise UsageError(f"this Flat index has no search parameter {name}", "An exact search has none.")
        return self._search.search(vectors, k)
