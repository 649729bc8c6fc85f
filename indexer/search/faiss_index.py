"""Vectors in a FAISS index: built in a stream, opened memory-mapped, searched by inner product.

The folder is one that Pyserini opens too: `index` (FAISS's own format) and `docid` (an id a line).
The metric is always inner product: many of FAISS's helpers default to L2.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.shards import Shard, ShardRows, open_shards
from linkseek.indexer.machine.devices import memory_bytes
from linkseek.indexer.machine.once import shared_property
from linkseek.indexer.program.errors import MachineError, UsageError, raise_of_machine
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.search.compact import (
    CANDIDATES,
    COMPACT,
    SAMPLE,
    CodeFile,
    CompactIndex,
    empty_codes,
    write_codes,
)
from linkseek.indexer.search.faiss_tools import (
    Hits,
    checked_queries,
    exact_search,
    import_faiss,
    padded_result,
    reason,
    set_parameters,
    size_limits,
    training_sample,
)
from linkseek.indexer.store.artifacts import VECTORS, damaged
from linkseek.indexer.store.manifests import Entries, VectorsPart

AUTO = "auto"
FLAT = "Flat"

_FLAT_BYTES = 512 << 20  # a question reads them all: about 20 ms of processor time

_TRAIN_VECTORS_PER_CENTROID = 64
_MIN_TRAIN_VECTORS = 65_536
_BLOCK_ROWS = 65_536  # that are added at a time


def resolved_type(factory: str, rows: int, dimension: int) -> tuple[str, str]:
    """The factory string chosen for `auto`, and the reason; any other string as it is.

    Flat while all vectors are at most 512 MiB and a quarter of the memory, else compact.
    """
    if factory != AUTO:
        return factory, "as asked for"
    size, limit = rows * dimension * 2, min(_FLAT_BYTES, memory_bytes() // 4)
    comparison = f"{byte_size(size)} of vectors, {'up to' if size <= limit else 'over'} {byte_size(limit)}"
    if size <= limit:
        return FLAT, f"exact search of {comparison}"
    return COMPACT, f"codes of {byte_size(size // 8)} for {comparison}"


def disk_bytes(factory: str, rows: int, dimension: int) -> int:
    """The disk that a build needs for float16 shards and the index of a type, at least.

    For types other than `Flat` and `compact` only the shards are counted.
    """
    vectors = rows * dimension * 2
    return vectors + {FLAT: vectors, COMPACT: vectors // 8}.get(factory, 0)


def building_memory(factory: str, rows: int, dimension: int, size: int = 0) -> int:
    """The peak memory of `build_faiss`, in bytes. size: the size of the file, for types without a formula.

    A Flat index grows by doubling, and both copies are in memory while it does.
    """
    block = min(rows, _BLOCK_ROWS) * dimension * 4
    if factory == COMPACT:
        return 3 * block + 3 * min(rows, SAMPLE) * dimension * 4
    if factory != FLAT:
        return size + block + min(rows, max(_MIN_TRAIN_VECTORS, enough_rows(factory) * 64)) * dimension * 4
    last = _BLOCK_ROWS  # rows when the index last grows
    while 2 * last < rows:
        last *= 2
    return block + (rows if rows <= _BLOCK_ROWS else 2 * last) * dimension * 2


def enough_rows(factory: str) -> int:
    """The smallest number of vectors to train a type of index with."""
    if factory in (FLAT, COMPACT):
        return 16 if factory == COMPACT else 1
    return max(256 if "PQ" in factory else 1, _centroids(factory))


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
    if factory == COMPACT:
        return empty_codes(dimension)
    try:
        if _CRASHES.search(factory):
            raise RuntimeError("a number is too small")
        index = faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except (RuntimeError, MemoryError) as error:
        raise UsageError(
            f"--faiss {factory}: FAISS cannot make it for {dimension} dimensions ({reason(error)})",
            "Examples: auto, Flat, compact, HNSW32, IVF1024,SQfp16, IVF1024,PQ48 "
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


def build_faiss(
    folder: Path,
    shards: list[Shard],
    factory: str,
    dimension: int,
    ids: Iterable[str],
    on_rows: Callable[[float], None] = lambda rows: None,
) -> Entries:
    """Write `index` and `docid` into an existing folder; return the manifest's entries.

    Trains on a sample spread over all shards, then adds shard by shard. In memory: the index itself (of a
    compact one only a block), the sample and one block of vectors. Raises `UsageError` if there are too few
    vectors for this type of index, `MachineError` if the file cannot be written.
    """
    rows = sum(shard.rows for shard in shards)
    write = write_codes if factory == COMPACT else partial(_write_index, factory)
    try:
        made = write(folder / "index", shards, dimension, on_rows)
    except RuntimeError as error:
        raise_of_machine(error)
        raise UsageError(
            f"--faiss {factory}: FAISS cannot put {rows:,} vectors into it ({reason(error)})",
            "PQ needs at least 256 passages, and IDMap is not supported. For few passages use Flat.",
        ) from None
    with (folder / "docid").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{id_}\n" for id_ in ids)
    return {"rows": rows, "dimension": dimension, "metric": "inner product", **made}


def _write_index(
    factory: str, path: Path, shards: list[Shard], dimension: int, on_rows: Callable[[float], None]
) -> dict[str, Any]:
    index = empty_index(factory, dimension, sum(shard.rows for shard in shards))
    if not index.is_trained:
        count = max(_MIN_TRAIN_VECTORS, _centroids(factory) * _TRAIN_VECTORS_PER_CENTROID)
        with progress(f"training {factory}"):
            index.train(training_sample(shards, count))
    for shard in shards:
        for block in shard.blocks():
            index.add(block.astype(np.float32))
            on_rows(len(block))
    try:
        import_faiss().write_index(index, str(path))
    except RuntimeError as error:
        raise MachineError(
            f"{path}: FAISS cannot write it ({reason(error)})",
            "Is the disk full? Free some space and run the same command: it resumes.",
        ) from None
    return {}


def search_parameters(factory: str) -> dict[str, int]:
    """The default search parameters of an approximate index.

    A sixteenth of the inverted lists (nprobe), 128 candidates in an HNSW graph (efSearch), or 1,000 rows of
    a compact index that are scored again.
    """
    if factory == COMPACT:
        return {"candidates": CANDIDATES}
    if centroids := _centroids(factory):
        return {"nprobe": max(1, centroids // 16)}
    return {"efSearch": 128} if "HNSW" in factory else {}


def search_grid(factory: str) -> tuple[str, list[int]]:
    """The search parameter that decides between recall and time, and its values worth trying, ascending."""
    doubling = [1 << power for power in range(32)]
    if factory == COMPACT:
        return "candidates", [100 * value for value in doubling[:7]]
    if centroids := _centroids(factory):
        return "nprobe", [value for value in doubling if value < centroids] + [centroids]
    return "efSearch", doubling[5:11] if "HNSW" in factory else []


def recall_text(part: VectorsPart) -> str:
    """What `linkseek recall` measured, for people; empty before."""
    if part.recall is None:
        return ""
    chosen = part.recall.chosen
    settings = ", ".join(f"{value} {name}" for name, value in chosen.setting.items()) or "no settings"
    place = f"{settings}; {part.recall.questions} questions"
    return f"{chosen.recall:.4f} of the exact top {part.recall.depth} ({place})"


class _Owned:
    """An array of memory that belongs to an object, which stays as long as views of the array do."""

    def __init__(self, array: NDArray[np.uint8], owner: object) -> None:
        self.__array_interface__ = array.__array_interface__
        self.owner = owner


class FaissIndex:
    """An open FAISS index over the passages, with the manifest of its part."""

    def __init__(self, index: Any, manifest: VectorsPart, folder: Path) -> None:
        self.index = index
        self.manifest = manifest
        self._folder = folder
        self._lock = threading.Lock()

    @property
    def encoder(self) -> dict[str, Any]:
        """The identity of the encoder whose vectors these are."""
        return self.manifest.encoder

    def __len__(self) -> int:
        return int(self.index.ntotal)

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """The k best rows: (rows int64 [Q, k], scores float32 [Q, k]); -1 and -inf in place of missing hits.

        vectors: float32 [Q, d]. parameters: FAISS's search parameters, such as nprobe or efSearch, or the
        candidates of a compact index; by default the values in the manifest, else `search_parameters`.
        """
        vectors = checked_queries(vectors, self.index.d)  # [Q, d]
        depth = min(k, len(self))
        with self._lock:
            values = self._set(parameters)
            try:
                if self.manifest.factory == FLAT:
                    rows, scores = exact_search(self.index, self.flat_vectors(), vectors, depth)  # [Q, depth]
                else:
                    scores, rows = self.index.search(vectors, depth, **values)  # [Q, depth]
            except RuntimeError as error:
                raise_of_machine(error)
                raise damaged(self._folder / "index", f"FAISS cannot search it ({reason(error)})") from None
        if rows.size and not -1 <= rows.min() <= rows.max() < len(self):
            raise damaged(self._folder / "index", "its row numbers differ from those of the passages")
        return padded_result(rows, scores, k)

    def flat_vectors(self) -> NDArray[np.float16]:
        """The vectors of a `Flat` index, float16 [N, d], memory-mapped; they keep the index open.

        Raises `UsageError` for other indexes.
        """
        if self.manifest.factory != FLAT:
            factory = self.manifest.factory
            raise UsageError(f"a {factory} index does not store its vectors unchanged", "Build a Flat one.")
        size = self.index.ntotal * self.index.d * 2
        codes = np.asarray(_Owned(import_faiss().rev_swig_ptr(self.index.codes.data(), size), self))
        vectors: NDArray[np.float16] = codes.view(np.float16).reshape(self.index.ntotal, self.index.d)
        return vectors

    @property
    def vectors(self) -> NDArray[np.float16] | ShardRows:
        """The vectors, float16, by rows in any order. Raises `DamagedIndexError` as `open_shards`."""
        return self.flat_vectors() if self.manifest.factory == FLAT else self._shards

    @shared_property
    def _shards(self) -> ShardRows:
        if isinstance(self.index, CompactIndex):
            return self.index.vectors
        return ShardRows(open_shards(self._folder / VECTORS, len(self)), self.index.d)

    def parameters(self) -> dict[str, int]:
        """The search parameters for searches that give none."""
        return search_parameters(self.manifest.factory) | self.manifest.search

    def _set(self, parameters: dict[str, int]) -> dict[str, int]:
        """Set parameters in FAISS; returns parameters that are arguments of the search instead."""
        values = self.parameters() | parameters
        arguments = {}
        if isinstance(self.index, CompactIndex):
            arguments["candidates"] = values.pop("candidates")
        if values:
            set_parameters(import_faiss().ParameterSpace(), self.index, values, self.manifest.factory)
        return arguments


def open_faiss(folder: Path, manifest: VectorsPart, passages: int) -> FaissIndex:
    """Open a part that `build_faiss` wrote, memory-mapped if its type allows.

    Raises `DamagedIndexError` if the file is not a FAISS index or has another number of rows.
    """
    faiss = import_faiss()
    path = folder / "index"
    if manifest.factory == COMPACT:
        shards = open_shards(folder / VECTORS, passages)
        codes = CodeFile(path, manifest.codes_at, shards)
        return FaissIndex(CompactIndex([codes]), manifest, folder)
    plain = faiss.IO_FLAG_SKIP_PRECOMPUTE_TABLE  # which is for L2 only
    # a small file is read: mapped, one that ends within a number of its header would end the process
    mapped = faiss.IO_FLAG_MMAP_IFC if path.is_file() and path.stat().st_size > 1 << 20 else 0
    with size_limits(path):
        try:
            index = faiss.read_index(str(path), plain | mapped)
        except (RuntimeError, MemoryError):
            try:
                index = faiss.read_index(str(path), plain)
            except (RuntimeError, MemoryError) as error:
                raise_of_machine(error)
                raise damaged(path, f"not a FAISS index ({reason(error)})") from None
    if index.ntotal != passages or index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise damaged(path, f"{index.ntotal:,} vectors, expected {passages:,} by inner product")
    is_wrong = manifest.factory == FLAT and not _holds_halves(index)
    if index.d != manifest.dimension or not index.is_trained or is_wrong:
        raise damaged(path, "its header was altered")
    return FaissIndex(index, manifest, folder)


def _holds_halves(index: Any) -> bool:
    """Whether an index is one that `FLAT` makes, with all its float16 numbers."""
    faiss = import_faiss()
    return (
        type(index) is faiss.IndexScalarQuantizer
        and index.sq.qtype == faiss.ScalarQuantizer.QT_fp16
        and index.codes.size() == index.ntotal * index.d * 2
    )


def joined_codes(parts: Sequence[object]) -> FaissIndex | None:
    """The `compact` indexes of partitions as one; None if any of them is of another type.

    The number of candidates is the largest of theirs.
    """
    indexes = [part for part in parts if isinstance(part, FaissIndex)]
    files = [file for index in indexes if isinstance(index.index, CompactIndex) for file in index.index.files]
    if len(files) < len(parts):
        return None
    candidates = max(index.parameters()["candidates"] for index in indexes)
    manifest = indexes[0].manifest.replace(search={"candidates": candidates})
    return FaissIndex(CompactIndex(files), manifest, indexes[0]._folder)


def _centroids(factory: str) -> int:
    match = re.search(r"IVF(\d+)", factory)
    return int(match.group(1)) if match else 0
