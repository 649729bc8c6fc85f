"""Vectors in partitions, searched as one index: each partition is asked for its k best, and these are merged.

The k best of all are among the k best of each, so exact partitions give the rows and scores of one exact
index; IVF and HNSW return what they would return alone. The codes of `compact` partitions are scanned as in
one index: the number of candidates that are scored again holds for all partitions together, not for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.search.faiss_index import joined_codes
from linkseek.indexer.search.faiss_tools import Hits, import_faiss, padded_result

if TYPE_CHECKING:
    from linkseek.indexer.search.lucene_index import Hits as LuceneHits
    from linkseek.indexer.search.lucene_index import Question, Similarity


class VectorSearch(Protocol):
    """Vectors that are open for searches, on any device, such as `FaissIndex`."""

    @property
    def encoder(self) -> dict[str, Any]:
        """The identity of the encoder whose vectors these are."""

    def __len__(self) -> int: ...

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """The k best rows and their scores."""
        ...


class WordSearch(Protocol):
    """Words that are open for searches, such as `LuceneIndex`."""

    folder: Path

    def search(self, texts: Sequence[Question], k: int, similarity: Similarity) -> list[LuceneHits]:
        """The k best passages of each query."""
        ...


class Searches(Protocol):
    """Searches of all partitions of an index, elsewhere than in this process."""

    @property
    def missing(self) -> list[str]:
        """The partitions that did not answer when they were last asked."""
        ...

    def lucene(self, part: str) -> WordSearch:
        """The Lucene index of a part, with the statistics of all partitions."""
        ...

    def dense(self, encoder: str) -> VectorSearch:
        """The vectors of an encoder of the index."""
        ...


class PartitionedVectors:
    """The vectors of partitions as one index: rows count on from one partition to the next."""

    def __init__(self, parts: Sequence[VectorSearch]) -> None:
        self.parts = parts
        self.encoder = parts[0].encoder
        self._first = np.cumsum([0, *map(len, parts)])  # [parts + 1]
        self.codes = joined_codes(parts)
        """Their codes as one index, if all partitions are compact."""
        faiss = import_faiss()
        threads = min(len(parts), faiss.omp_get_max_threads())
        # A core for each: FAISS would start all its threads for one question in one partition after another.
        self._threads = ThreadPoolExecutor(threads, "partition", faiss.omp_set_num_threads, (1,))

    def __len__(self) -> int:
        return int(self._first[-1])

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """As `FaissIndex.search`; equal scores by row."""
        if self.codes is not None:
            return self.codes.search(vectors, k, **parameters)

        def ask(part: VectorSearch) -> Hits:
            return part.search(vectors, min(k, len(part)), **parameters)

        return merged(list(self._threads.map(ask, self.parts)), self._first[:-1].tolist(), k)


def merged(hits: Sequence[Hits], first: Sequence[int], k: int) -> Hits:
    """The k best of the hits of partitions: rows int64 [Q, k], scores float32 [Q, k], equal scores by row.

    hits: the hits of each partition, with its own rows, -1 for none. first: the row that its row 0 is in all.
    """
    rows = np.concatenate(
        [np.where(own < 0, -1, own + start) for (own, _), start in zip(hits, first, strict=True)], axis=1
    )  # [Q, m]
    scores = np.concatenate([scores for _, scores in hits], axis=1)  # [Q, m]
    order = np.lexsort((rows, -scores, rows < 0), axis=1)[:, :k]
    return padded_result(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1), k)
