"""Vectors in a FAISS index: built in a stream, opened memory-mapped, searched by inner product.

The folder is one that Pyserini opens too: `index` (FAISS's own format) and `docid` (an id a line).
The metric is always inner product: many of FAISS's helpers default to L2.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import DamagedIndexError, MachineError, UsageError
from indexer.encoding.shards import Shard, write_shard
from indexer.store.artifacts import Manifest, rebuild_hint

FLAT = "Flat"

Hits = tuple[NDArray[np.int64], NDArray[np.float32]]
"""The result of a search: rows [Q, k], scores [Q, k]."""

_TRAIN_VECTORS_PER_CENTROID = 64
_MIN_TRAIN_VECTORS = 65_536


def import_faiss() -> Any:
    """FAISS. Raises `MachineError` that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MachineError(
            f"FAISS cannot be loaded ({error})",
            "Install one of the two extras: pip install -e '.[cpu]' or pip install -e '.[gpu]'.",
        ) from None
    return faiss


def empty_index(factory: str, dimension: int, rows: int) -> Any:
    """An untrained FAISS index by factory string; `Flat` stores float16 (the shards' own precision).

    Raises `UsageError` for a string that FAISS does not know or that asks for more centroids than
    there are rows.
    """
    faiss = import_faiss()
    if factory == FLAT:
        return faiss.IndexScalarQuantizer(
            dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        )
    try:
        if _CRASHES.search(factory):
            raise RuntimeError("a number is too small")
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except (RuntimeError, MemoryError) as error:
        raise UsageError(
            f"--faiss {factory}: FAISS makes no index from it for {dimension} dimensions ({_reason(error)})",
            "Examples: Flat, HNSW32, IVF1024,SQfp16, IVF1024,PQ48 "
            "(the number after PQ must divide the dimension).",
        ) from None
    centroids = _centroids(factory)
    if centroids > rows:
        raise UsageError(
            f"--faiss {factory}: {centroids:,} centroids for {rows:,} passages",
            f"Use at most IVF{max(1, min(rows, int(4 * rows**0.5)))}, or Flat.",
        )
    return index


# FAISS accepts these strings, but crashes when vectors are added, or returns nothing later.
_CRASHES = re.compile(r"[A-Za-z]0+(?![0-9])|(?:HNSW|NSG)1(?![0-9])")


def _reason(error: Exception) -> str:
    line = str(error).strip().rpartition("\n")[2].strip()
    return re.sub(r"^Error in .* at \S+:\d+: (Error: )?", "", line)  # without the line of FAISS's source


def build_faiss(
    folder: Path,
    shards: list[Shard],
    factory: str,
    dimension: int,
    ids: Iterable[str],
    on_rows: Callable[[float], None] = lambda rows: None,
) -> dict[str, Any]:
    """Write `index` and `docid` into an existing folder; return the manifest's entries.

    Trains on a sample spread over all shards, then adds shard by shard. In memory: the index itself,
    the sample and one block of vectors. Raises `UsageError` if there are too few vectors for this type
    of index, `MachineError` if the file cannot be written.
    """
    faiss = import_faiss()
    rows = sum(shard.rows for shard in shards)
    index = empty_index(factory, dimension, rows)
    try:
        if not index.is_trained:
            index.train(_sample(shards, rows, _centroids(factory)))
        for shard in shards:
            for block in shard.blocks():
                index.add(block.astype(np.float32))
                on_rows(len(block))
    except RuntimeError as error:
        raise UsageError(
            f"--faiss {factory}: FAISS cannot put {rows:,} vectors into it ({_reason(error)})",
            "A PQ needs at least 256 passages, and IDMap does not fit here. For few passages use Flat.",
        ) from None
    try:
        faiss.write_index(index, str(folder / "index"))
    except RuntimeError as error:
        raise MachineError(
            f"{folder / 'index'}: FAISS cannot write it ({_reason(error)})",
            "Is the disk full? Free some space and run the same command: it resumes.",
        ) from None
    with (folder / "docid").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{id_}\n" for id_ in ids)
    return {"rows": int(index.ntotal), "dimension": dimension, "metric": "inner product"}


def shards_from_flat(folder: Path, shard_rows: int, target: Path) -> list[Shard]:
    """The shards that a `Flat` index in `folder` was made from, bit for bit, written into `target`."""
    index = import_faiss().read_index(str(folder / "index"), import_faiss().IO_FLAG_MMAP_IFC)
    return [
        write_shard(target, number, start, index.reconstruct_n(start, min(shard_rows, index.ntotal - start)))
        for number, start in enumerate(range(0, index.ntotal, shard_rows))
    ]


def search_parameters(factory: str) -> dict[str, int]:
    """The default search parameters of an approximate index.

    A sixteenth of the inverted lists (nprobe), or 128 candidates in an HNSW graph (efSearch).
    """
    if centroids := _centroids(factory):
        return {"nprobe": max(1, centroids // 16)}
    return {"efSearch": 128} if "HNSW" in factory else {}


class FaissIndex:
    """An open FAISS index over the passages, with the manifest of its part."""

    def __init__(self, index: Any, manifest: Manifest, folder: Path) -> None:
        self.index = index
        self.manifest = manifest
        self._folder = folder
        self._lock = threading.Lock()
        self.elsewhere: dict[str, Any] = {}
        """Device -> the same vectors there; filled by `indexer.search.gpu_index.on_device`."""

    @property
    def encoder(self) -> dict[str, Any]:
        """The identity of the encoder whose vectors these are."""
        return self.manifest["encoder"]  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """The k best rows: (rows int64 [Q, k], scores float32 [Q, k]); -1 and -inf in place of missing hits.

        vectors: float32 [Q, d]. parameters: FAISS's search parameters, such as nprobe or efSearch.
        """
        vectors = np.ascontiguousarray(vectors, np.float32)  # [Q, d]
        if vectors.shape[1] != self.index.d:
            raise ValueError(f"vectors of {vectors.shape[1]} dimensions, the index has {self.index.d}")
        depth = min(k, len(self))
        with self._lock:
            self._set(parameters)
            try:
                scores, rows = self.index.search(vectors, depth)  # [Q, depth]
            except RuntimeError as error:
                raise DamagedIndexError(
                    f"{self._folder / 'index'}: FAISS cannot search it ({_reason(error)})",
                    rebuild_hint(self._folder),
                ) from None
        if rows.size and not -1 <= rows.min() <= rows.max() < len(self):
            problem = "its vectors have other row numbers than the passages"
            raise DamagedIndexError(f"{self._folder / 'index'}: {problem}", rebuild_hint(self._folder))
        return padded_result(rows, scores, k)

    def flat_vectors(self) -> NDArray[np.float16]:
        """The vectors of a `Flat` index, float16 [N, d], memory-mapped. Raises `UsageError` for others."""
        if self.manifest["factory"] != FLAT:
            factory = self.manifest["factory"]
            raise UsageError(f"a {factory} index does not hold its vectors as they are", "Build a Flat one.")
        size = self.index.ntotal * self.index.d * 2
        codes = import_faiss().rev_swig_ptr(self.index.codes.data(), size)  # uint8 [N * d * 2]
        return codes.view(np.float16).reshape(self.index.ntotal, self.index.d)  # type: ignore[no-any-return]

    def _set(self, parameters: dict[str, int]) -> None:
        values = {**search_parameters(self.manifest["factory"]), **parameters}
        if not values:
            return
        faiss = import_faiss()
        try:
            for name, value in values.items():
                faiss.ParameterSpace().set_index_parameter(self.index, name, value)
        except RuntimeError as error:
            raise UsageError(
                f"this {self.manifest['factory']} index has no search parameter {name}",
                "nprobe belongs to IVF indexes, efSearch to HNSW.",
            ) from error


def padded_result(rows: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> Hits:
    """FAISS's result [Q, depth] as k columns, with -inf for missing hits."""
    missing = ((0, 0), (0, k - rows.shape[1]))
    scores = np.where(rows < 0, -np.inf, scores).astype(np.float32)
    return np.pad(rows, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf)


def open_faiss(folder: Path, manifest: Manifest, passages: int) -> FaissIndex:
    """Open a part that `build_faiss` wrote, memory-mapped if its type allows.

    Raises `DamagedIndexError` if the file is not a FAISS index or has another number of rows.
    """
    faiss = import_faiss()
    path = folder / "index"
    hint = rebuild_hint(folder)
    encoder = manifest.get("encoder")
    if not isinstance(manifest.get("factory"), str) or not isinstance(encoder, dict):
        raise DamagedIndexError(f"{folder}: its manifest names neither factory nor encoder", hint)
    plain = faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE  # which is for L2 only
    with _size_limits(path):
        try:
            index = faiss.read_index(str(path), plain | faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError):
            try:
                index = faiss.read_index(str(path), plain)
            except (RuntimeError, MemoryError) as error:
                raise DamagedIndexError(f"{path}: not a FAISS index ({_reason(error)})", hint) from None
    if index.ntotal != passages or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise DamagedIndexError(
            f"{path}: {index.ntotal:,} vectors, expected {passages:,} by inner product", hint
        )
    if index.d != manifest.get("dimension", index.d) or not index.is_trained:
        raise DamagedIndexError(f"{path}: its header was altered", hint)
    return FaissIndex(index, manifest, folder)


_limits = threading.Lock()


@contextmanager
def _size_limits(path: Path) -> Iterator[None]:
    """Make FAISS refuse arrays larger than the file.

    The size of each array is stored before it, and one altered byte can make it a terabyte, which FAISS
    would allocate first.
    """
    faiss = import_faiss()
    if not path.is_file() or not hasattr(faiss, "set_deserialization_vector_byte_limit"):  # an older FAISS
        yield
        return
    size = path.stat().st_size
    with _limits:  # they hold for all threads
        before = faiss.get_deserialization_vector_byte_limit(), faiss.get_deserialization_loop_limit()
        faiss.set_deserialization_vector_byte_limit(size)
        faiss.set_deserialization_loop_limit(size)
        try:
            yield
        finally:
            faiss.set_deserialization_vector_byte_limit(before[0])
            faiss.set_deserialization_loop_limit(before[1])


def _centroids(factory: str) -> int:
    match = re.search(r"IVF(\d+)", factory)
    return int(match.group(1)) if match else 0


def _sample(shards: list[Shard], rows: int, centroids: int) -> NDArray[np.float32]:
    """A sample of the rows of all shards, drawn with a fixed seed, float32 [n, d]."""
    count = min(rows, max(_MIN_TRAIN_VECTORS, centroids * _TRAIN_VECTORS_PER_CENTROID))
    chosen = np.sort(np.random.default_rng(0).choice(rows, count, replace=False))
    pieces = []
    for shard in shards:
        low, high = np.searchsorted(chosen, [shard.first_row, shard.first_row + shard.rows])
        pieces.append(shard.open()[chosen[low:high] - shard.first_row].astype(np.float32))
    return np.concatenate(pieces)
