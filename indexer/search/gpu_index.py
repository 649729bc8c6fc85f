"""Searches of a FAISS index on a device: exactly in torch (see `exact`), or by a FAISS built for GPUs.

    compact     torch, an exact search of the float16 vectors, where the memory of the GPUs holds them; FAISS
                has no GPU version of its codes, which the CPU scans
    Flat        torch. FAISS would need the memory twice while it copies, and copies what several GPUs are to
                share to the memory of the CPU, without an error
    others      FAISS, if it has a GPU version

Several GPUs share the vectors, so that their memories add up. No file changes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.errors import LinkseekError, MachineError, UsageError, log_line
from linkseek.indexer.search.compact import CompactIndex
from linkseek.indexer.search.faiss_index import FLAT, FaissIndex, search_parameters
from linkseek.indexer.search.faiss_tools import (
    Hits,
    checked_queries,
    import_faiss,
    padded_result,
    reason,
    set_parameters,
)
from linkseek.indexer.search.partitioned import PartitionedVectors, VectorSearch

_FAISS_MAX_DEPTH = 2048
"""The largest number of results and of inverted lists (nprobe) of FAISS on a GPU."""


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
    factory, reasons = index.manifest.factory, []
    is_compact = isinstance(index.index, CompactIndex)
    places = (_ExactOnGpus,) if is_compact or factory == FLAT else (_FaissOnGpus, _ExactOnGpus)
    for place in places:
        try:
            found = place(index, gpus, needed)
            if is_compact and not needed:
                log_line('searching vectors exactly on the GPU (device = "cpu" scans the codes of the index)')
            return found
        except (RuntimeError, LinkseekError) as error:
            reasons.append(error.message if isinstance(error, LinkseekError) else reason(error)[:200])
    if needed:
        how = 'Set device = "cpu"' if is_compact else "Build it with --faiss Flat, install the [gpu] extra"
        raise UsageError(
            f"this {factory} index cannot be searched on a GPU ({'; '.join(reasons)})",
            f"{how}, or use GPUs with more memory." if is_compact else f"{how}, or search on the CPU.",
        )
    log_line(f"searching vectors on the CPU ({'; '.join(reasons)})")
    return index


class _FaissOnGpus:
    """Any type of index that FAISS supports on GPUs, in float16."""

    def __init__(self, index: FaissIndex, gpus: Sequence[str], needed: bool) -> None:
        faiss = import_faiss()
        if not hasattr(faiss, "StandardGpuResources"):
            raise UsageError(
                "this build of FAISS does not support GPUs",
                "Install the extra [gpu] instead of [cpu], or use --device cpu.",
            )
        options = faiss.GpuMultipleClonerOptions()
        options.useFloat16 = options.shard = True
        numbers = [int(gpu.partition(":")[2]) for gpu in gpus]
        self._index = faiss.index_cpu_to_gpus_list(index.index, options, numbers)
        if not isinstance(self._index, (faiss.GpuIndex, faiss.IndexShards)):
            raise UsageError(
                "FAISS does not support this type of index on GPUs, and has copied it to the CPU's memory",
                "Use --device cpu.",
            )
        self._space = faiss.GpuParameterSpace()
        self._defaults = index.parameters()
        self._on_cpu = index
        self._lock = threading.Lock()
        self.encoder = index.encoder

    def __len__(self) -> int:
        return len(self._on_cpu)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """As `FaissIndex.search`. Beyond the limits of FAISS on a GPU, the CPU searches.

        Raises `MachineError` if the GPU fails, such as for lack of memory.
        """
        values = self._defaults | parameters
        if max(min(k, len(self)), values.get("nprobe", 0)) > _FAISS_MAX_DEPTH:
            return self._on_cpu.search(vectors, k, **parameters)
        vectors = checked_queries(vectors, self._index.d)  # [Q, d]
        with self._lock:
            set_parameters(self._space, self._index, values, self._on_cpu.manifest.factory)
            try:
                scores, rows = self._index.search(vectors, min(k, len(self)))  # [Q, depth]
            except RuntimeError as error:
                raise MachineError(
                    f"FAISS cannot search on the GPU ({reason(error)[:200]})",
                    'Close other programs that use it, or set device = "cpu" for the pipeline.',
                ) from None
        return padded_result(rows, scores, k)


class _ExactOnGpus:
    """A `Flat` or a compact index, in torch."""

    def __init__(self, index: FaissIndex, gpus: Sequence[str], needed: bool) -> None:
        """A `Flat` index that does not fit the GPUs is copied to them at each search, if that is `needed`."""
        from linkseek.indexer.search.exact import ExactSearch

        inner = index.index
        vectors = inner.vectors if isinstance(inner, CompactIndex) else index.flat_vectors()
        try:
            self._search = ExactSearch(vectors, gpus, must_hold=True)
        except MachineError as error:
            if not needed or isinstance(inner, CompactIndex):  # whose codes the CPU scans faster
                raise
            self._search = ExactSearch(vectors, gpus)
            log_line(f"{error.message}: each search copies all vectors to the GPU")
        self._factory = index.manifest.factory
        self.encoder = index.encoder

    def __len__(self) -> int:
        return len(self._search)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """As `FaissIndex.search`, exactly: the candidates of a compact index do not matter.

        Raises `UsageError` for other parameters: an exact search has none.
        """
        for name in parameters.keys() - search_parameters(self._factory):
            raise UsageError(
                f"this {self._factory} index has no search parameter {name}", "Exact search has none."
            )
        return self._search.search(vectors, k)
