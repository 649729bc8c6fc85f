"""The vectors of a FAISS index on GPUs: by FAISS where it is built for them, else by `indexer.search.exact`.

Over several GPUs the vectors are spread, so that their memories add up. Nothing on the disk changes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import LinkseekError, UsageError
from indexer.base.progress import log_line
from indexer.search.faiss_index import FaissIndex, Found, import_faiss, padded_result, search_parameters

_FAISS_DEEPEST = 2048  # how deep FAISS searches on a GPU


class VectorSearch(Protocol):
    """What is open for searches by vectors, wherever it is."""

    @property
    def encoder(self) -> dict[str, Any]:
        """The identity of the encoder whose vectors these are."""

    def __len__(self) -> int: ...

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Found:
        """The k best rows: (rows int64 [Q, k], scores float32 [Q, k]); -1 and -inf where nothing is."""


def on_gpus(index: FaissIndex, gpus: Sequence[str], *, needed: bool) -> VectorSearch:
    """The index on these GPUs, such as ["cuda:0"].

    Where that cannot be done it is left where it is, or, if `needed`, a `UsageError` says why not.
    """
    reasons = []
    for place in (_FaissOnGpus, _ExactOnGpus):
        try:
            return place(index, gpus)
        except (RuntimeError, LinkseekError) as error:
            reasons.append(_reason(error))
    if needed:
        raise UsageError(
            f"this {index.manifest['factory']} index cannot be searched on a GPU ({'; '.join(reasons)})",
            "Build it with --faiss Flat, install the [gpu] extra, or search on the CPU.",
        )
    log_line(f"searching vectors on the CPU ({'; '.join(reasons)})")
    return index


def _reason(error: Exception) -> str:
    if isinstance(error, LinkseekError):
        return error.message
    lines = str(error).strip().splitlines()  # FAISS's begin with places in its source
    return lines[-1][:200] if lines else type(error).__name__


class _FaissOnGpus:
    """Any type of index that FAISS has for GPUs; `Flat` stays float16."""

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
        self._defaults = search_parameters(index.manifest["factory"])
        self._on_cpu = index
        self._lock = threading.Lock()
        self.encoder = index.encoder

    def __len__(self) -> int:
        return len(self._on_cpu)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Found:
        """See `VectorSearch`. Deeper than FAISS goes on a GPU, the CPU searches."""
        if min(k, len(self)) > _FAISS_DEEPEST:
            return self._on_cpu.search(vectors, k, **parameters)
        with self._lock:
            for name, value in (self._defaults | parameters).items():
                self._parameters.set_index_parameter(self._index, name, value)
            scores, rows = self._index.search(
                np.ascontiguousarray(vectors, np.float32), min(k, len(self))
            )  # [Q, depth]
        return padded_result(rows, scores, k)


class _ExactOnGpus:
    """A `Flat` index, by torch alone."""

    def __init__(self, index: FaissIndex, gpus: Sequence[str]) -> None:
        from indexer.search.exact import ExactSearch

        self._search = ExactSearch(index.flat_vectors(), gpus)
        self.encoder = index.encoder

    def __len__(self) -> int:
        return len(self._search)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Found:
        """See `VectorSearch`. Raises `UsageError` for parameters: an exact search has none."""
        if parameters:
            name = next(iter(parameters))
            raise UsageError(f"this Flat index has no search parameter {name}", "An exact search has none.")
        return self._search.search(vectors, k)
