"""Building an index: one corpus through its stages, each taken over where nothing has changed.

    documents -> passages -> links
                          -> bm25
                          -> vectors -> dense     (once for each encoder)

Every stage is a part of the workspace (`indexer.artifacts`) with a fingerprint of what it is made
from, by content: a build that was interrupted, or is run again with one more encoder, does only what
is missing.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from indexer.artifacts import (
    BM25,
    DOCUMENTS,
    FORMAT_VERSION,
    LINKS,
    PASSAGES,
    VECTORS,
    Manifest,
    dense_part,
    segment_path,
    segment_paths,
    vectors_part,
)
from indexer.corpus import default_processes, write_documents
from indexer.documents import REDIRECT_SCHEMA, Document, DocumentStore
from indexer.encoding import Encoder, encode_passages
from indexer.errors import InputError, UsageError
from indexer.faiss_index import FLAT, build_faiss, empty_index, shards_from_flat
from indexer.ids import IdTable
from indexer.index import open_passages
from indexer.links import build_links
from indexer.passages import PASSAGE_SCHEMA, PassageStore, passage_row, split_document
from indexer.progress import progress
from indexer.readers import open_reader
from indexer.tables import Table, TableWriter
from indexer.vectors import open_shards
from indexer.workspace import Workspace, link_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from indexer.sources import Source


@dataclass(frozen=True)
class Plan:
    """What to build. The names are those of the command's options, which explain them."""

    corpus: Path
    format: str | None = None
    passage_words: int | None = None
    limit: int | None = None
    on_error: str = "stop"
    title: bool = True
    bm25: bool = True
    encoders: Sequence[str] = ()
    faiss: str = FLAT
    processes: int | None = None
    fresh: bool = False
    command: str = ""


@dataclass
class Built:
    """What came out: the manifest, and for each stage its seconds and whether it was taken over."""

    manifest: Manifest
    seconds: dict[str, float] = field(default_factory=dict)
    taken_over: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def build_index(index: Path, plan: Plan, open_encoder: Callable[[str, bool], Encoder]) -> Built:
    """Build `index` and put it in the place of what was there; what was there stays whole till then.

    open_encoder: (name, with titles) -> encoder; called once for each of `plan.encoders`.
    Raises `InputError` for a bad corpus, `UsageError` for options that do not fit, `BusyError` if
    another build works on the same index. After any error the finished parts are kept for next time.
    """
    reader = open_reader(plan.corpus, plan.format)
    words = reader.passage_words if plan.passage_words is None else plan.passage_words
    if len({dense_part(name) for name in plan.encoders}) < len(plan.encoders):
        raise UsageError("two encoders of the same name", "Each needs a folder name of its own.")
    index = index.resolve()
    index.parent.mkdir(parents=True, exist_ok=True)
    with Workspace(index, fresh=plan.fresh) as workspace:
        stages = _Stages(workspace, plan)
        documents = stages.documents(reader)
        passages = stages.passages(documents, words)
        links = stages.links(documents, passages)
        parts = [DOCUMENTS, PASSAGES, LINKS]
        if plan.bm25:
            stages.bm25(passages)
            parts.append(BM25)
        for name in plan.encoders:
            stages.dense(passages, name, open_encoder)
            parts.append(dense_part(name))
        kept = workspace.take_over_others(
            lambda fingerprint: (
                fingerprint.get("passages") == passages["content_sha256"]
                and fingerprint.get("title", plan.title) == plan.title
            ),
            parts,
        )
        dense = [part for part in parts + kept if part.startswith("dense/")]
        manifest = {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": plan.command,
            "versions": _versions(),
            "corpus": {
                "file": plan.corpus.name,
                "format": reader.name,
                "bytes": plan.corpus.stat().st_size,
                "sha256": documents["source_sha256"],
            },
            "text": {"title": plan.title, "passage_words": words},
            "counts": {
                "documents": documents["documents"],
                "redirects": documents["redirects"],
                "passages": passages["passages"],
                **links["counts"],
            },
            "skipped": documents["skipped"],
            "default_encoder": dense[0].partition("/")[2] if dense else None,
            "deleted_rows": [],
        }
        workspace.publish(manifest, parts + kept)
    return Built(manifest, stages.seconds, workspace.taken_over, kept)


class _Stages:
    """The stages, in the workspace of one build."""

    def __init__(self, workspace: Workspace, plan: Plan) -> None:
        self._workspace = workspace
        self._folder = workspace.folder
        self._plan = plan
        self.seconds: dict[str, float] = {}

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        before = len(self._workspace.taken_over)
        yield
        self.seconds[name] = time.perf_counter() - started
        if name in self._workspace.taken_over[before:]:
            _say(f"{name}: unchanged, taken over")

    def documents(self, reader: Any) -> Manifest:
        plan = self._plan
        stat = plan.corpus.stat()
        fingerprint = {
            "linkseek": version("linkseek"),  # another one may read the same file otherwise
            "format": reader.name,
            "corpus": str(plan.corpus.resolve()),
            "bytes": stat.st_size,
            "modified_ns": stat.st_mtime_ns,
            "limit": plan.limit,
            "on_error": plan.on_error,
        }

        def build(folder: Path) -> Manifest:
            def on_start(records: int) -> None:
                if records:
                    _say(f"documents: going on after {records:,} finished records")

            sources: list[Source] = []
            with progress(f"reading {plan.corpus.name}", stat.st_size, "bytes") as advance:
                told = 0

                def on_record() -> None:
                    nonlocal told
                    if sources and sources[0].position != told:
                        advance(sources[0].position - told)
                        told = sources[0].position

                return write_documents(
                    reader,
                    folder,
                    limit=plan.limit,
                    on_error=plan.on_error,
                    processes=plan.processes or default_processes(),
                    on_source=sources.append,
                    on_start=on_start,
                    on_record=on_record,
                )

        with self._timed(DOCUMENTS):
            return self._workspace.part(DOCUMENTS, fingerprint, build)

    def passages(self, documents: Manifest, words: int) -> Manifest:
        def build(folder: Path) -> Manifest:
            store = self._documents()
            offsets = np.zeros(len(store) + 1, np.int64)  # [D+1]
            digest = sha256()
            with (
                TableWriter(segment_path(folder, 0), PASSAGE_SCHEMA) as writer,
                progress("splitting into passages", len(store), "documents") as advance,
            ):
                row = 0
                for ids, titles, texts in store.table.batches(["id", "title", "text"]):
                    for id_, title, text in zip(
                        ids.to_pylist(), titles.to_pylist(), texts.to_pylist(), strict=True
                    ):
                        for passage in split_document(Document(id_, title, text), words):
                            writer.write(passage_row(passage), len(passage.text))
                            digest.update(f"{passage.id}\0{title}\0{passage.text}\0".encode())
                        row += 1
                        offsets[row] = writer.rows
                    advance(len(ids))
                passages = writer.rows
            if passages == 0:
                raise InputError(
                    f"{self._plan.corpus}: none of its {len(store):,} documents has any text",
                    "There is nothing to search.",
                )
            np.save(folder / "offsets.npy", offsets)
            return {"passages": passages, "words": words, "content_sha256": digest.hexdigest()}

        fingerprint = {"documents": documents["content_sha256"], "words": words}
        with self._timed(PASSAGES):
            return self._workspace.part(PASSAGES, fingerprint, build)

    def links(self, documents: Manifest, passages: Manifest) -> Manifest:
        def build(folder: Path) -> Manifest:
            redirects = Table(segment_paths(self._folder / DOCUMENTS, "redirects-"), REDIRECT_SCHEMA)
            ids, store = self._ids(), self._passages(passages)
            return {"counts": build_links(folder, self._documents(), redirects, ids, store)}

        fingerprint = {
            "documents": documents["content_sha256"],
            "passages": passages["content_sha256"],
        }
        with self._timed(LINKS):
            return self._workspace.part(LINKS, fingerprint, build)

    def bm25(self, passages: Manifest) -> Manifest:
        def build(folder: Path) -> Manifest:
            from indexer.lucene_index import build_lucene, passage_texts

            with progress("Lucene index", passages["passages"], "passages") as advance:
                count = build_lucene(
                    passage_texts(self._passages(passages)),
                    folder,
                    index_title=self._plan.title,
                    threads=self._plan.processes or default_processes(),
                    on_rows=advance,
                )
            return {"passages": count}

        fingerprint = {"passages": passages["content_sha256"], "title": self._plan.title}
        with self._timed(BM25):
            return self._workspace.part(BM25, fingerprint, build, resumable=False)

    def dense(self, passages: Manifest, name: str, open_encoder: Callable[[str, bool], Encoder]) -> Manifest:
        part, factory = dense_part(name), self._plan.faiss
        started = time.perf_counter()
        with progress(f"opening {name}"):  # seconds, where the model has to be converted first
            encoder = open_encoder(name, self._plan.title)
        empty_index(factory, encoder.dimension, passages["passages"])  # a bad factory fails early
        self.seconds[f"opening {name}"] = time.perf_counter() - started
        content = {"passages": passages["content_sha256"], "encoder": encoder.identity}

        def build(folder: Path) -> Manifest:
            vectors = self._vectors(passages, part, encoder, content)
            shards = open_shards(self._folder / vectors_part(part), passages["passages"])
            store = self._passages(passages)
            started = time.perf_counter()
            with progress(f"FAISS {factory}", passages["passages"], "vectors") as advance:
                built = build_faiss(
                    folder, shards, factory, encoder.dimension, store.table.column("id"), advance
                )
            if factory != FLAT:  # a float16 Flat index is the vectors; others keep them beside
                link_tree(self._folder / vectors_part(part), folder / VECTORS)
            self.seconds[f"FAISS {name}"] = time.perf_counter() - started
            return {
                "encoder": {**encoder.identity, "location": encoder.location},
                "execution": encoder.execution,
                "factory": factory,
                "vectors_sha256": vectors["vectors_sha256"],
                **built,
            }

        before = len(self._workspace.taken_over)
        fingerprint = {**content, "title": self._plan.title, "factory": factory}
        manifest = self._workspace.part(part, fingerprint, build)
        if part in self._workspace.taken_over[before:]:
            _say(f"{part}: unchanged, taken over")
        return manifest

    def _vectors(
        self, passages: Manifest, part: str, encoder: Encoder, content: Mapping[str, Any]
    ) -> Manifest:
        def build(folder: Path) -> Manifest:
            self._recover_vectors(part, encoder, content, folder)
            with progress(f"encoding {part.partition('/')[2]}", passages["passages"], "passages") as advance:

                def on_start(finished: int, total: int, rows: int) -> None:
                    if finished:
                        _say(f"{part}: {finished} of {total} shards are there, going on at the next")
                        advance(rows)

                shards = encode_passages(
                    encoder, self._passages(passages), folder, on_start=on_start, on_rows=advance
                )
            digest = sha256()
            for shard in shards:
                for block in shard.blocks():
                    digest.update(block.tobytes())
            return {"shards": len(shards), "vectors_sha256": digest.hexdigest()}

        how = {"token_budget": encoder.token_budget, "shard_rows": encoder.shard_rows}
        started = time.perf_counter()
        fingerprint = {**content, "execution": encoder.execution, **how}
        beside = [self._workspace.index / part / VECTORS]
        manifest = self._workspace.part(vectors_part(part), fingerprint, build, elsewhere=beside)
        self.seconds[f"encoding {part.partition('/')[2]}"] = time.perf_counter() - started
        return manifest

    def _recover_vectors(self, part: str, encoder: Encoder, content: Mapping[str, Any], folder: Path) -> None:
        """Take the same vectors out of a Flat index in use, which holds them bit for bit."""
        old = self._workspace.in_use(part)
        if old is None or old["factory"] != FLAT or old["execution"] != encoder.execution:
            return
        if all(old["fingerprint"].get(key) == value for key, value in content.items()):
            shards_from_flat(self._workspace.index / part, encoder.shard_rows, folder)

    def _documents(self) -> DocumentStore:
        return DocumentStore(segment_paths(self._folder / DOCUMENTS))

    def _ids(self) -> IdTable:
        return IdTable.open(self._folder / DOCUMENTS)

    def _passages(self, manifest: Manifest) -> PassageStore:
        return open_passages(self._folder, self._ids(), manifest["words"])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _versions() -> dict[str, str]:
    names = ("linkseek", "numpy", "pyarrow", "torch", "sentence-transformers", "openvino", "pyserini")
    return {"format": str(FORMAT_VERSION), "python": platform.python_version()} | {
        name: version(name) for name in names
    }
