"""Vectors as 4-bit codes that are scanned whole, and the best again exactly from the memory-mapped shards.

    1. rotation to the principal axes, the largest variance next to the smallest, and so on,
       so that no code wastes its bits (Ge et al. 2013, section 3.2)
    2. product quantisation (Jegou et al. 2011): each pair in 4 bits, so 21 million vectors of 384 dimensions
       are 2 GB; FAISS scans them with SIMD (fast scan, Andre et al. 2017)
    3. the best few hundred of each question are scored again with their float16 vectors

The file is one that raw FAISS reads (`IndexPreTransform` of `IndexPQFastScan`, the codes at its end). Here
the codes are mapped, so that an index opens at once and processes share them; FAISS would copy them. FAISS
uses several cores only for several questions: the rows are cut in parts, which threads scan, so that one
question has all cores.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.shards import Shard, ShardRows, joined_shards
from linkseek.indexer.program.errors import raise_of_machine
from linkseek.indexer.program.progress import progress
from linkseek.indexer.search.faiss_tools import import_faiss, reason, size_limits, training_sample
from linkseek.indexer.store.artifacts import atomic_file, damaged

COMPACT = "compact"
CANDIDATES = 1000
"""The default number of rows that are scored again for the best 100."""

_BLOCK = 32  # rows whose codes FAISS interleaves
_BATCH = 65_536  # rows that are coded at a time
SAMPLE = 16_384  # rows to train 16 centroids for each pair of dimensions: a quarter of a minute
_QUERIES = 32  # whose candidates are in memory at a time
_MIN_ROWS = 32_768  # of a part


def empty_codes(dimension: int) -> Any:
    """An untrained `PQ{d/2}x4fs` index; an odd dimension gets 4 bits for each number."""
    faiss = import_faiss()
    pieces = dimension // 2 if dimension % 2 == 0 else dimension
    index = faiss.IndexPQFastScan(dimension, pieces, 4, faiss.METRIC_INNER_PRODUCT)
    index.pq.cp.min_points_per_centroid = 1  # no warnings on stderr
    index.pq.cp.max_points_per_centroid = SAMPLE // 16
    return index


def write_codes(
    path: Path, shards: list[Shard], dimension: int, on_rows: Callable[[float], None]
) -> dict[str, Any]:
    """Train, code all rows, and write a file for FAISS; in memory are the sample and one block of rows.

    Returns the manifest's entries: the factory string, and where in the file the codes begin. Raises
    `RuntimeError` of FAISS for fewer than 16 rows.
    """
    rows = sum(shard.rows for shard in shards)
    with progress("training PQ"):
        index, codes = train_codes(shards, dimension)
    size = _code_bytes(rows, codes.pq.M)
    index.ntotal = codes.ntotal = rows
    codes.ntotal2 = -(-rows // _BLOCK) * _BLOCK
    head = import_faiss().serialize_index(index).tobytes()  # ends with the number of bytes of the codes, 0
    with atomic_file(path) as file:
        file.write(head[:-8] + size.to_bytes(8, "little"))
        rest = np.empty((0, dimension), np.float32)
        for shard in shards:
            for block in shard.blocks(_BATCH):
                pending = np.concatenate([rest, block], dtype=np.float32)
                whole = len(pending) - len(pending) % _BLOCK
                file.write(_coded(index, codes, pending[:whole]))
                rest = pending[whole:]
                on_rows(len(block))
        file.write(_coded(index, codes, rest))
    return {"code": f"PQ{codes.pq.M}x4fs", "codes_at": len(head)}


def train_codes(shards: list[Shard], dimension: int) -> tuple[Any, Any]:
    """The rotation with empty codes, and these codes, trained on at most `SAMPLE` rows."""
    faiss = import_faiss()
    codes = empty_codes(dimension)
    sample = training_sample(shards, SAMPLE)
    rotation = faiss.LinearTransform(dimension, dimension, False)
    faiss.copy_array_to_vector(_rotation(sample).ravel(), rotation.A)
    rotation.is_trained = True
    index = faiss.IndexPreTransform(rotation, codes)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # several wait for each other: 192 codebooks of two numbers
    try:
        index.train(sample)
    finally:
        faiss.omp_set_num_threads(threads)
    return index, codes


def _rotation(sample: NDArray[np.float32]) -> NDArray[np.float32]:
    """Principal axes as rows [d, d], in the order of the 1st, d-th, 2nd, (d-1)-th, ... largest variance."""
    centred = sample - sample.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)  # [d, d], ascending, as columns
    order = np.arange(len(axes))
    if len(axes) % 2 == 0:
        order = np.stack([order[::-1], order], axis=1).ravel()[: len(axes)]
    return np.ascontiguousarray(axes.T[order], np.float32)


def _coded(index: Any, codes: Any, vectors: NDArray[np.float32]) -> bytes:
    index.reset()
    if not len(vectors):
        return b""
    index.add(np.ascontiguousarray(vectors))
    content: bytes = import_faiss().rev_swig_ptr(codes.codes.get(), codes.codes.size()).tobytes()
    return content


def _code_bytes(rows: int, pieces: int) -> int:
    return -(-rows // _BLOCK) * _BLOCK * (pieces + pieces % 2) // 2


class CodeFile:
    """A file of codes that is open, mapped, with the shards that it was made from."""

    def __init__(self, path: Path, codes_at: int, shards: list[Shard]) -> None:
        """codes_at: as returned by `write_codes`. Raises `DamagedIndexError` for a file that does not fit."""
        faiss = import_faiss()
        self.path = path
        self.shards = shards
        self.rows = sum(shard.rows for shard in shards)
        try:
            with path.open("rb") as file:
                head = np.frombuffer(file.read(codes_at)[:-8] + bytes(8), np.uint8)
            with size_limits(path):
                read = faiss.deserialize_index(head)
            if type(read) is not faiss.IndexPreTransform or read.chain.size() != 1:
                raise ValueError("its header was altered")
            rotation = faiss.downcast_VectorTransform(read.chain.at(0))
            codes = faiss.downcast_index(read.index)
            self.rotation = faiss.vector_to_array(rotation.A).reshape(read.d, read.d)
            pieces, self.d = int(codes.pq.M), int(read.d)
            size, found = _code_bytes(self.rows, pieces), path.stat().st_size - codes_at
            if type(codes) is not faiss.IndexPQFastScan or codes.pq.ksub != 16 or size != found:
                raise ValueError(f"{found:,} bytes of codes, expected {size:,}")
            self._centroids = faiss.vector_to_array(codes.pq.centroids)  # float32 [16 * d]
            if (
                len(self._centroids) != 16 * self.d
                or codes.metric_type != faiss.METRIC_INNER_PRODUCT
                or self.d % pieces
            ):
                raise ValueError("its header was altered")
        except (OSError, RuntimeError, MemoryError, ValueError, TypeError, AttributeError) as error:
            raise_of_machine(error)
            raise damaged(path, f"not a file of codes ({reason(error)})") from None
        self._pieces = pieces
        self.codes = np.memmap(path, np.uint8, "r", codes_at, (size,))

    def cut(self, parts: int) -> Iterator[tuple[int, Any]]:
        """(first row, FAISS index of its codes) of at most `parts` parts of equal length, not too small."""
        parts = max(1, min(parts, self.rows // _MIN_ROWS))
        bounds = [self.rows * part // parts // _BLOCK * _BLOCK for part in range(parts)]
        for start, stop in pairwise([*bounds, self.rows]):
            yield start, self._index(start, stop)

    def _index(self, start: int, stop: int) -> Any:
        """A FAISS index of rows [start, stop) over the mapped codes."""
        faiss = import_faiss()
        index = faiss.IndexPQFastScan(self.d, self._pieces, 4, faiss.METRIC_INNER_PRODUCT)
        faiss.copy_array_to_vector(self._centroids, index.pq.centroids)
        index.is_trained, index.ntotal = True, stop - start
        index.ntotal2 = -(-index.ntotal // _BLOCK) * _BLOCK
        lend(self.codes[_code_bytes(start, self._pieces) :][: _code_bytes(stop - start, self._pieces)], index)
        return index


class CompactIndex:
    """Files of codes, usually one, searched like a FAISS index; rows count on from one file to the next.

    Each file has its own rotation and centroids, but all approximate the same scores: so several indexes
    together have the same number of candidates as one, those with the best scores by code.
    """

    def __init__(self, files: Sequence[CodeFile]) -> None:
        """Raises `DamagedIndexError` for files of different dimensions."""
        faiss = import_faiss()
        self.files = files
        self.d = files[0].d
        if any(file.d != self.d for file in files):
            raise damaged(files[0].path, "partitions of different dimensions")
        first = np.cumsum([0, *(file.rows for file in files)]).tolist()
        self.ntotal = int(first[-1])
        self.vectors = ShardRows(joined_shards(file.shards for file in files), self.d)
        """the vectors of all files, by row"""
        threads = max(1, min(faiss.omp_get_max_threads(), self.ntotal // _MIN_ROWS))
        # (number of the file, first row, codes)
        self._parts = [
            (number, first[number] + start, codes)
            for number, file in enumerate(files)
            for start, codes in file.cut(threads)
        ]
        self._threads = ThreadPoolExecutor(threads, "scan", faiss.omp_set_num_threads, (1,))

    def search(
        self, vectors: NDArray[np.float32], k: int, candidates: int = CANDIDATES
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The k best rows as FAISS returns them: (scores float32 [Q, k], rows int64 [Q, k]).

        candidates: how many rows are scored exactly for the best 100; in proportion for a larger k.
        Raises `DamagedIndexError` for vectors that are not finite.
        """
        depth = min(self.ntotal, max(k, candidates * max(k, 100) // 100))
        scores = np.empty((len(vectors), k), np.float32)
        rows = np.empty((len(vectors), k), np.int64)
        for start in range(0, len(vectors), _QUERIES):
            chunk = slice(start, start + _QUERIES)
            best = self.candidates(vectors[chunk], depth)  # [q, depth]
            scores[chunk], rows[chunk] = self._exact(vectors[chunk], best, k)
        return scores, rows

    def candidates(self, vectors: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
        """The rows with the best scores by their codes, int64 [Q, depth], in any order.

        FAISS omits rows whose rounded score is 0, the lowest possible one: -1 in their place.
        """

        rotated = [vectors @ file.rotation.T for file in self.files]  # [Q, d] each

        def scan(part: tuple[int, int, Any]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
            number, start, index = part
            scores, rows = index.search(rotated[number], min(depth, index.ntotal))
            return scores, np.where(rows < 0, -1, rows + start)

        scans = list(self._threads.map(scan, self._parts))
        rows = np.concatenate([rows for _, rows in scans], axis=1)
        if rows.shape[1] == depth:
            return rows
        scores = np.concatenate([scores for scores, _ in scans], axis=1)
        best = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        return np.take_along_axis(rows, best, axis=1)

    def _exact(
        self, vectors: NDArray[np.float32], candidates: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The k best of the candidates by their float16 vectors; equal scores by row."""
        candidates = np.sort(candidates, axis=1)  # [q, c]
        rows, places = np.unique(candidates, return_inverse=True)
        stored = self.vectors.take(np.maximum(rows, 0)).astype(np.float32)  # [u, d]
        places = places.reshape(candidates.shape)
        scores = np.stack([stored[at] @ query for at, query in zip(places, vectors, strict=True)])  # [q, c]
        if not np.isfinite(scores).all():
            raise damaged(self.files[0].path, "vectors that are not finite: a shard was altered")
        scores[candidates < 0] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(candidates, order, axis=1)


def lend(codes: NDArray[np.uint8], index: Any) -> None:
    """Let a FAISS index read `codes` where they are; copy them if this FAISS keeps its table differently.

    FAISS holds codes in an AlignedTable: pointer, capacity, size. The three words are checked with a table of
    one byte first. The index is never freed, since FAISS would free the codes with it: some 30 KB.
    """
    table, pointer_type = index.codes, ctypes.c_size_t * 3
    table.resize(1)
    words = pointer_type.from_address(int(table.this))
    fits = words[0] == int(table.get()) and words[2] == 1
    table.resize(0)
    if not fits or any(words):
        import_faiss().copy_array_to_AlignedTable(np.array(codes), table)
        return
    words[:] = [codes.ctypes.data, codes.size, codes.size]
    index.this.disown()
