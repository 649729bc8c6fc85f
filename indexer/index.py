"""An open index: its documents, passages and links, and its Lucene and FAISS indexes.

Opening reads manifests, files of up to 1 MB and the ids, and maps everything else. The Lucene and FAISS
parts are opened when they are first used, once for all threads.

An index of partitions (`linkseek partition`) is read like a single index: its tables are the tables of all
partitions one after another, its ids, offsets and links are its own, and searches ask all partitions.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.alike import check_parts, contents, joined_parts
from linkseek.indexer.documents import DocumentStore, page_address, section_address
from linkseek.indexer.encoding.impacts import IMPACTS
from linkseek.indexer.encoding.shards import TokenShards, joined_shards, open_shards
from linkseek.indexer.encoding.token_codes import TokenCodes
from linkseek.indexer.files.hashes import OnBytes
from linkseek.indexer.links import LinkGraph
from linkseek.indexer.machine.once import Once, shared_property
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.defaults import MULTILINGUAL
from linkseek.indexer.program.errors import DamagedIndexError, MismatchError, UsageError
from linkseek.indexer.program.limits import allow_open_files
from linkseek.indexer.program.text import nearest
from linkseek.indexer.store import artifacts
from linkseek.indexer.store.artifacts import BM25, DENSE, DOCUMENTS, LATE, LINKS, LUCENE, PASSAGES, SPARSE
from linkseek.indexer.store.ids import IdTable
from linkseek.indexer.store.manifest_files import (
    Parts,
    read_index_manifest,
    read_part,
    read_parts,
    verify_part,
    verify_small_files,
)
from linkseek.indexer.store.manifests import IndexManifest, PartManifest

if TYPE_CHECKING:
    from linkseek.indexer.search.faiss_index import FaissIndex
    from linkseek.indexer.search.lucene_index import LuceneIndex
    from linkseek.indexer.search.partitioned import Searches, VectorSearch, WordSearch

_MADE = {DENSE: "vectors of the encoder", LATE: "token vectors of", SPARSE: "term weights of"}

Level = Literal["passages", "documents"]


class OpenIndex:
    """One index folder. Make one with `OpenIndex.open`."""

    def __init__(
        self, path: Path, manifest: IndexManifest, parts: Parts, partitions: Sequence[OpenIndex] = ()
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.parts = joined_parts(parts, partitions)
        self.partitions = partitions
        """the partitions of an index of partitions, else empty"""
        self.searches: Searches | None = None
        """who searches this index instead of this process; see `searched_by`"""
        self._links = LinkGraph.open(path / LINKS)  # at once: a new index may replace this one later
        self._own_dense: Once[FaissIndex] = Once(self._open_own_dense)
        self._dense: Once[VectorSearch] = Once(self._open_dense)
        self._codes: Once[TokenShards] = Once(self._open_codes)
        self._words: Once[LuceneIndex] = Once(self._open_words)

    @classmethod
    def open(cls, path: str | Path) -> OpenIndex:
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
    def _open(cls, path: Path) -> OpenIndex:
        manifest = read_index_manifest(path)
        parts = read_parts(path, manifest)
        for name, part in parts.items():
            verify_small_files(path / name, part)
        for needed in (DOCUMENTS, PASSAGES, LINKS):
            if needed not in parts:
                raise DamagedIndexError(f"{path}: the part {needed} is missing", "Build it again.")
        if manifest.partitions:
            allow_open_files()
        partitions = [cls._open(path / name) for name in manifest.partitions]
        check_parts(path, parts, partitions)
        index = cls(path, manifest, parts, partitions)
        actual = {"documents": len(index.documents), "passages": len(index.passages)}
        if len(index.passages.offsets) != len(index.documents) + 1:
            numbers, documents = len(index.passages.offsets), len(index.documents)
            problem = f"{numbers:,} numbers, expected one more than {documents:,} documents"
            raise artifacts.damaged(path / PASSAGES / "offsets.npy", problem)
        listed = {name: getattr(manifest.counts, name) for name in actual}
        if listed != actual:
            raise DamagedIndexError(f"{path}: has {actual}, its manifest lists {listed}", "Build it again.")
        if manifest.default_encoder not in (None, *index.encoders):
            raise DamagedIndexError(
                f"{path}: the vectors of its default encoder are missing", "Build it again."
            )
        return index

    def verify(self, on_bytes: OnBytes | None = None) -> None:
        """Compare the hash of every file. Raises `DamagedIndexError` naming the first that differs."""
        for name in self.manifest.parts:
            verify_part(self.path / name, on_bytes)
        for partition in self.partitions:
            partition.verify(on_bytes)

    def searched_by(self, searches: Searches) -> OpenIndex:
        """The same index, searched elsewhere, such as by actors on a cluster; this one is searched here."""
        other = copy(self)
        other.searches, other._dense = searches, Once(other._open_dense)
        return other

    @property
    def folders(self) -> list[Path]:
        """The folders of its partitions, or its own."""
        return [partition.path for partition in self.partitions] or [self.path]

    def check_undivided(self) -> None:
        """Raises `UsageError` for an index of partitions, where a command needs the files of one index."""
        if self.partitions:
            raise UsageError(
                f"{self.path}: an index of {len(self.partitions)} partitions, but this needs a single index",
                "Run it on the index of each partition, then join them again: linkseek partition.",
            )

    def check_same(self, other: OpenIndex) -> None:
        """Raises `MismatchError` unless another index has the same passages."""
        if contents([other]) != contents([self]):
            raise MismatchError(
                f"{other.path} and {self.path} do not have the same passages",
                "Use files that were made with the same index.",
            )

    @property
    def language(self) -> str:
        """The language of its texts (`indexer.language.codes`)."""
        return self.manifest.text.language

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(part.bytes for part in self.parts.values())

    @shared_property
    def document_ids(self) -> IdTable:
        """The table from document ids to rows."""
        return IdTable.open(self.path / DOCUMENTS, len(self.documents))

    @shared_property
    def documents(self) -> DocumentStore:
        """The documents, by row."""
        return DocumentStore(artifacts.part_segments(self.folders, DOCUMENTS))

    @shared_property
    def passages(self) -> PassageStore:
        """The passages, by row or id."""
        return open_passages(self.path, self.document_ids, self.parts.passages.words, self.folders)

    @shared_property
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

    def passage_url(self, passage_row: int) -> str:
        """The address of the section that a passage begins in; empty where unknown.

        A page of a folder has one if the index was built with the base of its site (`indexer.documents`).
        """
        passage = self.passages[passage_row]
        document = self.documents[int(self.passages.document_rows(np.array([passage_row]))[0])]
        url, base = document.url, self.manifest.corpus.base_url
        if base and "://" not in url:
            url = page_address(base, url or document.id)
        above = [section for section in document.sections if section.start <= passage.start]
        if not self.manifest.text.headings or not above or not above[-1].anchor or "://" not in url:
            return url
        return section_address(url, above[-1].anchor)

    @property
    def encoders(self) -> list[str]:
        """The names of the encoders whose vectors the index has (`dense/NAME`)."""
        return list(self.parts.dense)

    def reads(self, encoder: str | None = None) -> bool:
        """Whether an encoder, by default that of `dense`, can read the passages. Raises `UsageError`."""
        return self.parts.dense[self.encoder_name(encoder)].reading.reads(self.language)

    @property
    def reading_hint(self) -> str:
        """How to add an encoder that can read the passages; empty if there is one, or no vectors."""
        if not self.encoders or MULTILINGUAL in self.encoders or any(map(self.reads, self.encoders)):
            return ""
        command = f"linkseek update --index {shlex.quote(str(self.path))} --encoder"
        if self.partitions:
            command = "build its partitions with --encoder"
        return f"To add an encoder that reads a hundred languages: {command} {MULTILINGUAL}"

    def lucene(self) -> WordSearch:
        """The Lucene index. Raises `UsageError` if it was built with --no-bm25."""
        if not self.has_lucene:
            raise UsageError(f"{self.path}: the index has no Lucene part", "Build it without --no-bm25.")
        return self.local_lucene if self.searches is None else self.searches.lucene(BM25)

    @property
    def local_lucene(self) -> LuceneIndex:
        """The Lucene index on this machine, also where searches are on a cluster."""
        return self._words(BM25)

    def sparse(self, encoder: str) -> WordSearch:
        """The term weights of an encoder by its name here. Raises `UsageError` if there are none."""
        part = self.codes_part(SPARSE, encoder)
        return self._words(part) if self.searches is None else self.searches.lucene(part)

    def _open_words(self, part: str) -> LuceneIndex:
        self.check_in_place(part)
        return open_words(self.folders, part, self.language)

    def check_in_place(self, part: str) -> None:
        """Raises `DamagedIndexError` if a new index with another such part has replaced this one."""
        for partition in self.partitions:
            partition.check_in_place(part)
        if self.partitions:
            return
        opened = self.parts[part]
        if _unmeasured(read_part(self.path / part, type(opened))) != _unmeasured(opened):
            raise DamagedIndexError(
                f"{self.path}: a new index has replaced it since it was opened",
                "Open it again: run the same command again, or restart the program that has it open.",
            )

    def dense(self, encoder: str | None = None, device: str = "cpu") -> VectorSearch:
        """The vectors of an encoder by its name here; without a name, of the only or first one.

        device: where they are searched, see `indexer.search.gpu_index.on_device`, which puts them there once
        for all callers. Raises `UsageError` for an encoder that the index was not built with, and the errors
        of `on_device`.
        """
        return self._dense(self.encoder_name(encoder), device)

    def _open_dense(self, name: str, device: str) -> VectorSearch:
        if self.searches is not None:
            return self.searches.dense(name)
        if device != "cpu":
            from linkseek.indexer.search.gpu_index import on_device

            return on_device(self.dense(name), device)
        if not self.partitions:
            return self.own_dense(name)
        from linkseek.indexer.search.partitioned import PartitionedVectors

        return PartitionedVectors([partition.own_dense(name) for partition in self.partitions])

    def encoder_name(self, encoder: str | None = None) -> str:
        """The name here of an encoder, or of the one that `dense` uses by default. Raises `UsageError`."""
        names = self.encoders
        if not names:
            raise UsageError(
                f"{self.path}: the index has no vectors", "Build it without --no-dense, or search with BM25."
            )
        return self._known(encoder or self.manifest.default_encoder or names[0], DENSE)

    def vectors_of(self, rows: NDArray[np.int64], encoder: str | None = None) -> NDArray[np.float32]:
        """The vectors of passages by row, float32 [n, d]; read on this machine, also where searches are not.

        Raises the errors of `dense`.
        """
        name = self.encoder_name(encoder)
        vectors = np.empty((len(rows), self.parts.dense[name].dimension), np.float32)
        first = 0
        for part in self.partitions or [self]:
            places = np.flatnonzero((rows >= first) & (rows < first + len(part.passages)))
            if len(places):
                vectors[places] = part.own_dense(name).vectors[rows[places] - first]
            first += len(part.passages)
        return vectors

    def codes(self, part: str, rows: NDArray[np.int64]) -> TokenCodes:
        """The codes of passages by row. part: such as `late/NAME`."""
        return self._codes(part).take(rows)

    def codes_part(self, kind: str, encoder: str) -> str:
        """The name of the part with an encoder's codes of a kind. Raises `UsageError` if there are none."""
        return f"{kind}/{self._known(encoder, kind)}"

    def _known(self, encoder: str, kind: str) -> str:
        """The name here of an encoder of a kind. Raises `UsageError` if it made no vectors of this kind."""
        known = [artifacts.encoder_of(part) for part in self.parts if part.startswith(f"{kind}/")]
        name = artifacts.encoder_of(artifacts.vector_part(artifacts.PREFIXES[kind] + encoder))
        if name not in known:
            option = "encoder" if kind == DENSE else kind
            raise UsageError(
                f"{self.path}: no {_MADE[kind]} {encoder}",
                f"{nearest(name, known)} To add them: "
                f"linkseek update --index {self.path} --{option} {encoder}",
            )
        return name

    def _open_codes(self, part: str) -> TokenShards:
        self.check_in_place(part)
        wholes = self.partitions or [self]
        shards = joined_shards(
            open_shards(one.path / part / artifacts.VECTORS, len(one.passages)) for one in wholes
        )
        return TokenShards(shards)

    def own_dense(self, encoder: str | None = None) -> FaissIndex:
        """As `dense`, of an index without partitions. Raises `UsageError` for one that has some."""
        self.check_undivided()
        return self._own_dense(self.encoder_name(encoder))

    def _open_own_dense(self, name: str) -> FaissIndex:
        from linkseek.indexer.search.faiss_index import open_faiss

        part = f"{DENSE}/{name}"
        self.check_in_place(part)
        return open_faiss(self.path / part, self.parts.dense[name], len(self.passages))


def open_words(folders: Sequence[Path], part: str, language: str, only: range | None = None) -> LuceneIndex:
    """The Lucene index of a part of several indexes. only: see `LuceneIndex`."""
    from linkseek.indexer.search.lucene_index import LuceneIndex

    if part != BM25:
        part, language = f"{part}/{LUCENE}", IMPACTS
    return LuceneIndex(*(folder / part for folder in folders), only=only, language=language)


def _unmeasured(part: PartManifest) -> dict[str, Any]:
    """A part without the measurements that `linkseek recall` may add while the index is open."""
    return {key: value for key, value in part.to_json().items() if key not in ("recall", "search")}


def open_passages(
    index: Path, document_ids: IdTable, words: int, folders: Sequence[Path] = ()
) -> PassageStore:
    """The passages of an index folder, finished or being built. folders: the folders of its partitions."""
    folder = index / PASSAGES
    offsets = artifacts.open_array(folder / "offsets.npy")
    segments = artifacts.part_segments(folders or [index], PASSAGES)
    store = PassageStore(segments, offsets, document_ids, words)
    artifacts.check_offsets(folder / "offsets.npy", offsets, len(offsets) - 1, len(store))
    return store
