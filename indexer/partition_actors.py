"""Searching on a Ray cluster: actors, each with a part of an index; this process asks and merges.

    part           one partition, or several in a row where the cluster has fewer cores than partitions
    this process   sends questions to one actor of each part, and merges their results
    actor          BM25 with the statistics of all partitions, scored in its own; the vectors of its own

An actor that dies or hangs is replaced, and its part asked again (`machine.cluster`): each part has one
answer, so no passage is found twice. All machines see the index at the same path.
"""

from __future__ import annotations

import heapq
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.alike import identity
from linkseek.indexer.index import OpenIndex, open_words
from linkseek.indexer.machine.cluster import Actors, ClusterQuestion, connected, worker_count
from linkseek.indexer.program.errors import DamagedIndexError, MachineError, UsageError, log_line
from linkseek.indexer.search.faiss_tools import Hits, import_faiss
from linkseek.indexer.search.lucene_index import Hits as LuceneHits
from linkseek.indexer.search.lucene_index import LuceneIndex, Question, Similarity
from linkseek.indexer.search.partitioned import PartitionedVectors, VectorSearch, WordSearch, merged
from linkseek.indexer.store.manifest_files import read_index_manifest

_TASK_QUERIES = 128
_SMALL = 1 << 16


@contextmanager
def searched_on_ray(
    index: OpenIndex, address: str | None, *, replicas: int = 1, partial: bool = False
) -> Iterator[OpenIndex]:
    """An index as the actors of a Ray cluster search it; without an address, as it is.

    replicas: actors for each part. partial: skip parts that do not answer, instead of failing.
    Raises the errors of `connected`, and `UsageError` for options without a cluster.
    """
    if address is None and (partial or replicas > 1):
        raise UsageError("--replicas and --partial are for searches on a cluster", "Add --ray ADDRESS.")
    with connected(address) as ray:
        if ray is None:
            yield index
            return
        actors = PartitionActors(ray, index, replicas=replicas, partial=partial)
        try:
            yield index.searched_by(actors)
        finally:
            actors.stop()


class _PartitionPart:
    """The state of an actor: the partitions of its part, opened when they are first searched."""

    def __init__(self, folders: Sequence[Path], identities: Sequence[str], threads: int, part: range) -> None:
        self._folders = folders
        self._identities = identities
        self._threads = threads
        self._part = part
        self._vectors: dict[str, VectorSearch] = {}
        self._words: dict[str, LuceneIndex] = {}

    @cached_property
    def _partitions(self) -> list[OpenIndex]:
        import_faiss().omp_set_num_threads(self._threads)
        return [_open(self._folders[number], self._identities[number]) for number in self._part]

    def lucene(
        self, part: str, texts: Sequence[Question], k: int, similarity: Similarity
    ) -> list[LuceneHits]:
        if part not in self._words:
            language = read_index_manifest(self._folders[0]).text.language
            self._words[part] = open_words(self._folders, part, language, only=self._part)
        return self._words[part].search(texts, k, similarity)

    def dense(self, encoder: str, vectors: NDArray[np.float32], k: int, parameters: dict[str, int]) -> Hits:
        if encoder not in self._vectors:
            own = [partition.own_dense(encoder) for partition in self._partitions]
            self._vectors[encoder] = own[0] if len(own) == 1 else PartitionedVectors(own)
        vectors_of_part = self._vectors[encoder]
        return vectors_of_part.search(vectors, min(k, len(vectors_of_part)), **parameters)


def _open(folder: Path, expected: str) -> OpenIndex:
    if not folder.is_dir():
        raise MachineError(
            f"{folder}: not on every machine of the cluster",
            "Put the index on a file system that all machines share.",
        )
    index = OpenIndex.open(folder)
    if identity(index) != expected:
        raise DamagedIndexError(
            f"{folder}: a new index has replaced it since the search was started", "Start the search again."
        )
    return index


class PartitionActors:
    """The actors of all parts of an index, as its `Searches`. Any number of threads may use them."""

    def __init__(self, ray: Any, index: OpenIndex, *, replicas: int, partial: bool) -> None:
        # More actors than cores would only wait for each other, each with a Java of its own.
        self._parts = _parts(len(index.folders), worker_count(1))
        nodes = sum(node["Alive"] for node in ray.nodes())
        on_a_node = -(-len(self._parts) * replicas // max(nodes, 1))
        threads = max((os.cpu_count() or 1) // on_a_node, 1)
        folders = [folder.resolve() for folder in index.folders]
        identities = [identity(partition) for partition in index.partitions or [index]]
        # They reserve no cores, which replicas share.
        self._actors = [
            Actors(ray, replicas, _PartitionPart, [folders, identities, threads, part])
            for part in self._parts
        ]
        self._names = [[folders[number].name for number in part] for part in self._parts]
        self._ray = ray
        self._index = index
        self._partial = partial
        self._missing: frozenset[int] = frozenset()  # replaced as a whole: others may be reading it
        self._lock = threading.Lock()

    @property
    def missing(self) -> list[str]:
        """The partitions that did not answer when they were last asked."""
        return [name for number in sorted(self._missing) for name in self._names[number]]

    def lucene(self, part: str) -> WordSearch:
        """A Lucene index over all partitions, with the statistics of all."""
        return _Words(self, self._index.path / part, part)

    def dense(self, encoder: str) -> VectorSearch:
        """The vectors of an encoder over all partitions."""
        counts = [len(partition.passages) for partition in self._index.partitions or [self._index]]
        first = np.cumsum([0, *(sum(counts[number] for number in part) for part in self._parts)]).tolist()
        return _Vectors(self, encoder, self._index.parts.dense[encoder].encoder, first)

    def ask(self, method: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The answers of all parts in order; None for skipped partitions (`partial`).

        method: of `_PartitionPart`. A part that did not answer last time gets one attempt. Raises the error
        of an actor, or `MachineError` for a part that does not answer.
        """
        # The store of objects takes milliseconds, so few questions travel with each call instead.
        shared = self._ray.put((method, arguments)) if any(map(_is_large, arguments)) else None
        question, missing = ClusterQuestion(method, arguments, shared), self._missing
        asked = [
            actors.ask(question, self._name(number), 1 if number in missing else None)
            for number, actors in enumerate(self._actors)
        ]
        answers: list[Any] = []
        for number, answer in enumerate(asked):
            try:
                answers.append(answer.result())
                self._set_missing(number, False)
            except (MachineError, DamagedIndexError) as error:
                if not self._partial or len(self._missing | {number}) == len(self._parts):
                    raise
                log_line(f"{error.message}; its passages are skipped")
                self._set_missing(number, True)
                answers.append(None)
        return answers

    def stop(self) -> None:
        """End all actors."""
        for actors in self._actors:
            actors.shutdown(cancel_futures=True)

    def _set_missing(self, number: int, is_missing: bool) -> None:
        with self._lock:
            self._missing = self._missing - {number} | ({number} if is_missing else set())

    def _name(self, number: int) -> str:
        names = self._names[number]
        return f"{'partition' if len(names) == 1 else 'partitions'} {', '.join(names)}"


def _parts(partitions: int, actors: int) -> list[range]:
    """The partitions of each actor: consecutive ones; the numbers of any two actors differ by one at most."""
    count = min(partitions, actors)
    starts = [number * partitions // count for number in range(count + 1)]
    return [range(*ends) for ends in pairwise(starts)]


def _is_large(argument: Any) -> bool:
    return getattr(argument, "nbytes", 0) > _SMALL or (isinstance(argument, list) and len(argument) > 8)


class _Words:
    """The search by words over all parts."""

    def __init__(self, actors: PartitionActors, folder: Path, part: str) -> None:
        self.folder = folder
        self._part = part
        self._actors = actors

    def search(self, texts: Sequence[Question], k: int, similarity: Similarity) -> list[LuceneHits]:
        """As `LuceneIndex.search`."""
        hits: list[LuceneHits] = []
        for start in range(0, len(texts), _TASK_QUERIES):
            block = slice(start, start + _TASK_QUERIES)
            found = self._actors.ask(_PartitionPart.lucene, self._part, texts[block], k, similarity)
            answers = [answer for answer in found if answer is not None]
            for number in range(len(texts[block])):
                hits.append(_best([answer[number] for answer in answers], k))
        return hits


def _best(parts: Sequence[LuceneHits], k: int) -> LuceneHits:
    """The k best of the hits of parts; equal scores by id, as bytes."""
    ranked = ([(-score, id_.encode(), id_) for id_, score in zip(*part, strict=True)] for part in parts)
    hits = list(islice(heapq.merge(*ranked), k))
    return [id_ for _, _, id_ in hits], np.array([-score for score, _, _ in hits], np.float32)


class _Vectors:
    """The vectors of an encoder in all parts."""

    def __init__(
        self, actors: PartitionActors, name: str, encoder: dict[str, Any], first: Sequence[int]
    ) -> None:
        """first: the row of all that each part begins with, and their number."""
        self.encoder = encoder
        self._actors = actors
        self._name = name
        self._first = first

    def __len__(self) -> int:
        return int(self._first[-1])

    def search(self, vectors: NDArray[np.float32], k: int, **parameters: int) -> Hits:
        """As `FaissIndex.search`; equal scores by row."""
        blocks = []
        for start in range(0, len(vectors), _TASK_QUERIES):
            block = vectors[start : start + _TASK_QUERIES]
            found = self._actors.ask(_PartitionPart.dense, self._name, block, k, parameters)
            there = [pair for pair in zip(found, self._first, strict=False) if pair[0] is not None]
            hits, first = zip(*there, strict=True)
            blocks.append(merged(hits, first, k))
        rows, scores = zip(*blocks, strict=True)
        return np.concatenate(rows), np.concatenate(scores)
