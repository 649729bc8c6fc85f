"""Shared by all FAISS indexes: the library, its errors, a sample to train on, and the form of a result.

Also the exact best rows of questions, by passes over all vectors, which recall is measured by.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.errors import MachineError, UsageError
from linkseek.indexer.program.extras import install_hint

if TYPE_CHECKING:
    from linkseek.indexer.encoding.shards import Shard

Hits = tuple[NDArray[np.int64], NDArray[np.float32]]
"""The result of a search: rows [Q, k], scores [Q, k]."""

_TRAIN_BYTES = 1 << 30  # of a sample in memory, as float32


def import_faiss() -> Any:
    """FAISS. Raises `MachineError` that says how to install it."""
    try:
        import faiss
    except ImportError as error:
        raise MachineError(
            f"FAISS cannot be loaded ({error})",
            f"{install_hint('faiss')}\nFor an NVIDIA GPU the extra gpu (faiss-gpu) in its place; never both.",
        ) from None
    return faiss


def reason(error: Exception) -> str:
    """The last line of an error, which in FAISS's is the problem."""
    line = str(error).strip().rpartition("\n")[2].strip()
    return re.sub(r"^Error in .* at \S+:\d+: (Error: )?", "", line)  # without the line of FAISS's source


_limits = threading.Lock()


@contextmanager
def size_limits(path: Path) -> Iterator[None]:
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


def training_sample(shards: list[Shard], count: int) -> NDArray[np.float32]:
    """At most `count` rows of all shards, drawn with a fixed seed, in order, float32 [n, d]; at most 1 GB."""
    from linkseek.indexer.encoding.shards import ShardRows  # not installed wherever `exact` is measured

    vectors = ShardRows(shards)
    rows, width = vectors.shape
    count = min(rows, count, _TRAIN_BYTES // (4 * width))
    chosen = np.sort(np.random.default_rng(0).choice(rows, count, replace=False))
    return vectors.take(chosen).astype(np.float32)


def checked_queries(vectors: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """Vectors of queries, float32 [Q, d], as FAISS reads them.

    Raises ValueError for another dimension, or for numbers that are not finite, whose rows mean nothing.
    """
    if vectors.shape[1] != dimension:
        raise ValueError(f"vectors of {vectors.shape[1]} dimensions, the index has {dimension}")
    if not np.isfinite(vectors).all():
        raise ValueError("vectors of queries that are not finite")
    return np.ascontiguousarray(vectors, np.float32)


_PARAMETERS = frozenset(
    "nprobe efSearch k_factor k_factor_rf quantizer_nprobe quantizer_efSearch ht max_codes".split()
)
"""FAISS sets others too, such as verbose, which prints to the standard output."""


def set_parameters(space: Any, index: Any, values: dict[str, int], factory: str) -> None:
    """Set search parameters of a FAISS index. Raises `UsageError` for one that it lacks.

    space: FAISS's ParameterSpace, or GpuParameterSpace.
    """
    for name, value in values.items():
        if not 1 <= value < 1 << 31:
            raise UsageError(f"the search parameter {name} is {value:,}", "Expected 1 or more.")
        try:
            if name not in _PARAMETERS:
                raise TypeError
            space.set_index_parameter(index, name, value)
        except (RuntimeError, TypeError) as error:
            raise UsageError(
                f"this {factory} index has no search parameter {name}",
                "candidates belongs to compact indexes, nprobe to IVF, efSearch to HNSW.",
            ) from error


def padded_result(rows: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> Hits:
    """FAISS's result [Q, depth] as k columns, with -inf for missing hits."""
    missing = ((0, 0), (0, k - rows.shape[1]))
    scores = np.where(rows < 0, -np.inf, scores).astype(np.float32)
    return np.pad(rows, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf)


_MANY = 64  # questions, from which products of matrices are faster than FAISS's scan of each
_SCAN_ROWS = 8192  # that are multiplied at a time
_MARGIN = 32  # results whose order rounding may change


def exhaustive_search(
    blocks: Iterable[NDArray[np.floating[Any]]],
    queries: NDArray[np.float32],
    k: int,
    on_rows: Callable[[float], None] = lambda rows: None,
) -> Hits:
    """The k best rows by inner product in float32: (rows int64 [Q, k], scores float32 [Q, k]), best first.

    blocks: all vectors in order, float16 or float32 [b, d] each. queries: float32 [Q, d]. Of equal scores the
    lower row wins. Rows -1 and scores -inf in place of missing results, as for vectors that are not finite.
    """
    best = [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
    first = 0
    for block in blocks:
        scores = queries @ block.astype(np.float32, copy=False).T  # [Q, b]
        for number, (rows, kept) in enumerate(best):
            worst = kept[-1] if len(kept) == k else -np.inf
            better = np.flatnonzero(scores[number] > worst)
            if len(better):
                rows = np.concatenate([rows, better + first])
                kept = np.concatenate([kept, scores[number, better]])
                order = np.argsort(-kept, kind="stable")[:k]
                best[number] = rows[order], kept[order]
        first += len(block)
        on_rows(len(block))
    found = np.full((len(queries), k), -1, np.int64)
    found_scores = np.full((len(queries), k), -np.inf, np.float32)
    for number, (rows, kept) in enumerate(best):
        found[number, : len(rows)], found_scores[number, : len(kept)] = rows, kept
    return found, found_scores


def exact_search(index: Any, stored: NDArray[np.float16], queries: NDArray[np.float32], k: int) -> Hits:
    """The k best rows of a FAISS index of these vectors: (rows int64 [Q, k], scores float32 [Q, k]).

    index: finds candidates by inner product. stored: float16 [N, d], at least k. queries: float32 [Q, d]. Of
    equal scores the lower row wins. A few questions are scanned by FAISS; for many, products of matrices read
    the vectors once. The scores of both are rounded differently. So the best rows of either are scored once
    more, each by itself: results do not depend on how many questions are asked together.
    """
    depth = min(k + _MARGIN, len(stored))
    if len(queries) < _MANY:
        candidates = index.search(queries, depth)[1]
    else:
        blocks = (stored[start : start + _SCAN_ROWS] for start in range(0, len(stored), _SCAN_ROWS))
        candidates, _ = exhaustive_search(blocks, queries, depth)
    rows, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
    for number, own in enumerate(np.sort(candidates, axis=1)):
        own_scores = np.einsum("cd,d->c", stored[own].astype(np.float32), queries[number])
        missing = (own < 0) | np.isnan(own_scores)
        own_scores[missing] = -np.inf
        best = np.argsort(-own_scores, kind="stable")[:k]
        rows[number], scores[number] = np.where(missing, -1, own)[best], own_scores[best]
    return rows, scores


def recall(found: NDArray[np.int64], expected: NDArray[np.int64]) -> float:
    """The share of the expected rows that was found, [Q, k] each; the mean over the questions."""
    shares = [np.isin(wanted, rows).mean() for rows, wanted in zip(found, expected, strict=True)]
    return float(np.mean(shares))
