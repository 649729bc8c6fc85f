"""An open index: its documents, passages and links, and its Lucene and FAISS indexes.

Opening reads manifests, files of up to 1 MB and the ids, and maps everything else. The Lucene and FAISS
parts are opened when they are first used, once for all threads.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from indexer.base.errors import DamagedIndexError, UsageError
from indexer.base.settings import nearest
from indexer.documents import DocumentStore
from indexer.files.hashes import OnBytes
from indexer.links import LinkGraph
from indexer.passages import PassageStore
from indexer.store import artifacts
from indexer.store.artifacts import BM25, DENSE, DOCUMENTS, LINKS, PASSAGES, Manifest
from indexer.store.ids import IdTable, hash_ids

if TYPE_CHECKING:
    from indexer.search.faiss_index import FaissIndex
    from indexer.search.lucene_index import LuceneIndex

Level = Literal["passages", "documents"]


@dataclass(frozen=True, slots=True)
class ResolvedIds:
    """The rows of n ids of a run or of judgements, read both ways; int64 [n], -1 where unknown."""

    passages: NDArray[np.int64]
    documents: NDArray[np.int64]

    @property
    def level(self) -> Level:
        """Passages, unless more of the ids are ids of documents."""
        return "documents" if (self.documents >= 0).sum() > (self.passages >= 0).sum() else "passages"

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows at that level, int64 [n]."""
        return self.documents if self.level == "documents" else self.passages


def resolve_ids(index: Index, ids: Sequence[str]) -> ResolvedIds:
    """The rows of ids that may be those of passages or of documents."""
    documents = index.document_ids.rows(hash_ids(ids)).astype(np.int64)  # [n]
    return ResolvedIds(index.passages.rows_of(ids), documents)


class Index:
    """One index folder. Make one with `Index.open`."""

    def __init__(self, path: Path, manifest: Manifest, parts: dict[str, Manifest]) -> None:
        self.path = path
        self.manifest = manifest
        self.parts = parts
        self._lock = threading.RLock()
        self._dense: dict[str, FaissIndex] = {}

    @classmethod
    def open(cls, path: str | Path) -> Index:
        """Open an index folder; checks versions, sizes, counts, order, and the hashes of small files.

        `verify` checks all hashes.

        Raises `DamagedIndexError` naming the part that is missing or does not fit.
        """
        path = Path(path)
        while True:
            before = artifacts.index_stamp(path)
            try:
                index = cls._open(path)
            except DamagedIndexError:
                if artifacts.index_stamp(path) == before:
                    raise
            else:
                if artifacts.index_stamp(path) == before:
                    return index
            # Else a new index has just replaced this one, and we have read some of both.

    @classmethod
    def _open(cls, path: Path) -> Index:
        manifest = artifacts.read_index_manifest(path)
        parts = {name: artifacts.read_part(path / name) for name in manifest["parts"]}
        for name, part in parts.items():
            artifacts.verify_small_files(path / name, part)
        for needed in (DOCUMENTS, PASSAGES, LINKS):
            if needed not in parts:
                raise DamagedIndexError(f"{path}: the part {needed} is missing", "Build it again.")
        index = cls(path, manifest, parts)
        actual = {"documents": len(index.documents), "passages": len(index.passages)}
        if len(index.passages.offsets) != len(index.documents) + 1:
            raise DamagedIndexError(
                f"{path / PASSAGES / 'offsets.npy'}: {len(index.passages.offsets):,} numbers, "
                f"expected one more than {len(index.documents):,} documents",
                artifacts.rebuild_hint(path / PASSAGES),
            )
        counts = manifest.get("counts")
        if not isinstance(counts, dict) or any(counts.get(name) != actual[name] for name in actual):
            raise DamagedIndexError(f"{path}: holds {actual}, its manifest lists {counts}", "Build it again.")
        if manifest.get("default_encoder") not in (None, *index.encoders):
            raise DamagedIndexError(
                f"{path}: the vectors of its default encoder are missing", "Build it again."
            )
        len(index._links)  # opened now: a new index may replace this one later
        return index

    def verify(self, on_bytes: OnBytes | None = None) -> None:
        """Compare the hash of every file. Raises `DamagedIndexError` naming the first that differs."""
        for name in self.parts:
            artifacts.verify_part(self.path / name, on_bytes)

    @property
    def updates(self) -> list[Manifest]:
        """The updates since the index was built from its corpus (`indexer.building.growth`)."""
        updates = self.manifest.get("updates")
        return [each for each in updates if isinstance(each, dict)] if isinstance(updates, list) else []

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(f["bytes"] for part in self.parts.values() for f in part["files"].values())

    @cached_property
    def document_ids(self) -> IdTable:
        """Document ids to rows."""
        return IdTable.open(self.path / DOCUMENTS, len(self.documents))

    @cached_property
    def documents(self) -> DocumentStore:
        """The documents, by row."""
        return DocumentStore(artifacts.segment_paths(self.path / DOCUMENTS))

    @cached_property
    def passages(self) -> PassageStore:
        """The passages, by row or id."""
        words = self.parts[PASSAGES].get("words")
        if not isinstance(words, int):
            raise DamagedIndexError(
                f'{self.path / PASSAGES}: "words" is not in its manifest', "Build it again."
            )
        return open_passages(self.path, self.document_ids, words)

    @cached_property
    def _links(self) -> LinkGraph:
        return LinkGraph.open(self.path / LINKS)

    @cached_property
    def links(self) -> LinkGraph:
        """The link graph, checked when it is first used: searches do without it."""
        return self._links.check(self.path / LINKS, len(self.documents), len(self.passages))

    @property
    def has_lucene(self) -> bool:
        """Whether the index was built with BM25 and query likelihood."""
        return BM25 in self.parts

    def document_url(self, passage_row: int) -> str:
        """The address of the document that a passage is from; empty where unknown."""
        document = int(self.passages.document_rows(np.array([passage_row]))[0])
        return str(self.documents.table.value("url", document))

    @property
    def encoders(self) -> list[str]:
        """The names of the encoders whose vectors the index holds (`dense/NAME`)."""
        return [part.removeprefix(f"{DENSE}/") for part in self.parts if part.startswith(f"{DENSE}/")]

    def lucene(self) -> LuceneIndex:
        """The Lucene index. Raises `UsageError` if it was built with --no-bm25."""
        if not self.has_lucene:
            raise UsageError(f"{self.path}: the index has no Lucene part", "Build it without --no-bm25.")
        with self._lock:
            return self._lucene

    @cached_property
    def _lucene(self) -> LuceneIndex:
        from indexer.search.lucene_index import LuceneIndex

        self._check_in_place(BM25)
        return LuceneIndex(self.path / BM25)

    def _check_in_place(self, part: str) -> None:
        """Raises `DamagedIndexError` if a new index with another such part has replaced this one."""
        measured = ("recall", "search")  # `indexer.recall` may add them to an index that is open
        in_place, opened = (
            {**manifest, **dict.fromkeys(measured)}
            for manifest in (artifacts.read_part(self.path / part), self.parts[part])
        )
        if in_place != opened:
            raise DamagedIndexError(
                f"{self.path}: a new index has replaced it since it was opened",
                "Open it again: start this program again.",
            )

    def dense(self, encoder: str | None = None) -> FaissIndex:
        """The vectors of an encoder by its name here; without a name, of the only or first one.

        Raises `UsageError` for an encoder that the index was not built with.
        """
        names = self.encoders
        if not names:
            raise UsageError(
                f"{self.path}: the index has no vectors", "Build it without --no-dense, or search with BM25."
            )
        name = encoder or self.manifest.get("default_encoder") or names[0]
        name = artifacts.dense_part(name).removeprefix(f"{DENSE}/")
        if name not in names:
            raise UsageError(
                f"{self.path}: no vectors of the encoder {encoder}",
                f"{nearest(name, names)} To add them: linkseek build --index {self.path} --encoder {encoder}",
            )
        from indexer.search.faiss_index import open_faiss

        with self._lock:
            if name not in self._dense:
                part = f"{DENSE}/{name}"
                self._check_in_place(part)
                encoder = self.parts[part].get("encoder")
                named = isinstance(encoder, dict) and map(encoder.get, ("name", "sha256", "location"))
                if not named or not all(isinstance(text, str) for text in named):
                    raise DamagedIndexError(
                        f"{self.path / part}: its manifest does not say which encoder made the vectors",
                        artifacts.rebuild_hint(self.path / part),
                    )
                self._dense[name] = open_faiss(self.path / part, self.parts[part], len(self.passages))
            return self._dense[name]


def open_passages(index: Path, document_ids: IdTable, words: int) -> PassageStore:
    """The passages of an index folder, finished or being built."""
    folder = index / PASSAGES
    offsets = artifacts.open_array(folder / "offsets.npy")
    store = PassageStore(artifacts.segment_paths(folder), offsets, document_ids, words)
    artifacts.check_offsets(folder / "offsets.npy", offsets, len(offsets) - 1, len(store))
    return store
