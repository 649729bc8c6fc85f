"""The stages of a build: what each is made from, what it calls, and how it tells how far it is.

A stage is a part of the workspace with a fingerprint of what it is made from, by content. What is made from
passages runs at the same time; a stage that fails stops the others where they advance their progress bars.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer.base.errors import DamagedIndexError, InputError
from indexer.base.progress import log_line, progress
from indexer.base.together import Stop, run_together
from indexer.building.corpus import default_processes, write_documents
from indexer.building.workspace import Workspace, link_tree
from indexer.documents import REDIRECT_SCHEMA, DocumentStore
from indexer.encoding.encode import WHOLE, Encoder, Share, encode_passages, rows_of_share, shards_of_share
from indexer.encoding.shards import Shard, open_shards
from indexer.index import open_passages
from indexer.links import build_links
from indexer.passages import PassageStore, write_passages
from indexer.search.faiss_index import FLAT, build_faiss, empty_index, shards_from_flat
from indexer.store.artifacts import (
    BM25,
    DOCUMENTS,
    LINKS,
    PASSAGES,
    VECTORS,
    Manifest,
    dense_part,
    segment_paths,
    vectors_part,
    verify_part,
)
from indexer.store.ids import IdTable
from indexer.store.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from indexer.building.builder import OpenEncoder, Plan
    from indexer.files.sources import Reading


class _ShareDone(Exception):  # noqa: N818
    """A share of the shards is there, and the others are not: the part stays as it is."""

    def __init__(self, shards: list[Shard]) -> None:
        super().__init__()
        self.shards = shards


class Stages:
    """The stages, in the workspace of one build."""

    def __init__(self, workspace: Workspace, plan: Plan) -> None:
        self._workspace = workspace
        self._folder = workspace.folder
        self._plan = plan
        self._stop = Stop()
        self._began = time.perf_counter()
        self.times: dict[str, tuple[float, float]] = {}

    def after_passages(self, documents: Manifest, passages: Manifest, open_encoder: OpenEncoder) -> Manifest:
        """Everything that is made from passages, at the same time; the manifest of the links."""

        def encode() -> None:
            for name in self._plan.encoders:
                self._dense(passages, name, open_encoder)

        tasks: list[Callable[[], Any]] = [lambda: self._links(documents, passages)]
        if self._plan.bm25:
            tasks.append(lambda: self._bm25(passages))
        if self._plan.encoders:
            tasks.append(encode)
        links: Manifest = run_together(tasks, self._stop)[0]
        return links

    def _part(self, name: str, *details: Any, **options: Any) -> Manifest:
        """`Workspace.part`, unless another stage has failed, telling when it was taken over."""
        self._stop.check()
        manifest = self._workspace.part(name, *details, **options)
        if name in self._workspace.taken_over:
            log_line(f"{name}: unchanged, taken over")
        return manifest

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter() - self._began
        yield
        self.times[name] = (started, time.perf_counter() - self._began)

    @contextmanager
    def _progress(
        self, label: str, total: float | None = None, unit: str = ""
    ) -> Iterator[Callable[[float], None]]:
        """A progress bar; advancing it is also where a stage ends when another one has failed."""
        with progress(label, total, unit) as advance:

            def step(count: float) -> None:
                self._stop.check()
                advance(count)

            yield step

    def documents(self, reader: Any) -> Manifest:
        """Documents, redirects and their ids, from the corpus."""
        plan = self._plan
        state = reader.state()
        fingerprint = {
            "linkseek": version("linkseek"),  # another one may read the same file otherwise
            "format": reader.name,
            "corpus": str(plan.corpus.resolve()),
            **state,
            "limit": plan.limit,
            "on_error": plan.on_error,
        }

        def build(folder: Path) -> Manifest:
            def on_start(records: int) -> None:
                if records:
                    log_line(f"documents: going on after {records:,} finished records")

            sources: list[Reading] = []
            with progress(f"reading {plan.corpus.name}", state["bytes"], "bytes") as advance:
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
            return self._part(DOCUMENTS, fingerprint, build)

    def passages(self, documents: Manifest, words: int) -> Manifest:
        """The documents cut into passages. Raises `InputError` if there are none."""

        def build(folder: Path) -> Manifest:
            store = self._documents()
            with progress("splitting into passages", len(store), "documents") as advance:
                written = write_passages(folder, store, words, advance)
            if written["passages"] == 0:
                raise InputError(
                    f"{self._plan.corpus}: none of its {len(store):,} documents has any text",
                    "There is nothing to search.",
                )
            return written

        fingerprint = {"documents": documents["content_sha256"], "words": words}
        with self._timed(PASSAGES):
            return self._part(PASSAGES, fingerprint, build)

    def _links(self, documents: Manifest, passages: Manifest) -> Manifest:
        def build(folder: Path) -> Manifest:
            redirects = Table(segment_paths(self._folder / DOCUMENTS, "redirects-"), REDIRECT_SCHEMA)
            store, ids = self._documents(), self._ids()
            with self._progress("resolving links", len(store), "documents") as advance:
                counts = build_links(folder, store, redirects, ids, self._passages(passages), advance)
            return {"counts": counts}

        fingerprint = {
            "documents": documents["content_sha256"],
            "passages": passages["content_sha256"],
        }
        with self._timed(LINKS):
            return self._part(LINKS, fingerprint, build)

    def _bm25(self, passages: Manifest) -> Manifest:
        def build(folder: Path) -> Manifest:
            from indexer.search.lucene_index import build_lucene, passage_texts

            with self._progress("Lucene index", passages["passages"], "passages") as advance:
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
            return self._part(BM25, fingerprint, build, resumable=False)

    def _dense(self, passages: Manifest, name: str, open_encoder: OpenEncoder) -> Manifest:
        part, factory = dense_part(name), self._plan.faiss
        encoder, content = self._open(passages, name, open_encoder)
        empty_index(factory, encoder.dimension, passages["passages"])  # a bad factory fails early

        def build(folder: Path) -> Manifest:
            with self._timed(f"encoding {part.partition('/')[2]}"):
                vectors = self._vectors(passages, part, encoder, content)
            shards = open_shards(self._folder / vectors_part(part), passages["passages"])
            store = self._passages(passages)
            with (
                self._timed(f"FAISS {name}"),
                self._progress(f"FAISS {factory}", passages["passages"], "vectors") as advance,
            ):
                built = build_faiss(
                    folder, shards, factory, encoder.dimension, store.table.column("id"), advance
                )
                if factory != FLAT:  # a float16 Flat index is the vectors; others keep them beside
                    link_tree(self._folder / vectors_part(part), folder / VECTORS)
            return {
                "encoder": {**encoder.identity, "location": encoder.location},
                "execution": encoder.execution,
                "factory": factory,
                "vectors_sha256": vectors["vectors_sha256"],
                **built,
            }

        return self._part(part, {**content, "title": self._plan.title, "factory": factory}, build)

    def share(
        self,
        passages: Manifest,
        name: str,
        open_encoder: OpenEncoder,
        share: Share,
    ) -> list[Shard]:
        """The shards of a share, which is all that is made of this part."""
        part = dense_part(name)
        encoder, content = self._open(passages, name, open_encoder)
        try:
            self._vectors(passages, part, encoder, content, share)
        except _ShareDone as done:
            return done.shards
        shards = open_shards(self._folder / vectors_part(part), passages["passages"])  # all were there
        return [shards[number] for number in shards_of_share(len(shards), share)]

    def _open(self, passages: Manifest, name: str, open_encoder: OpenEncoder) -> tuple[Encoder, Manifest]:
        """An encoder, and what the vectors that it makes of these passages depend on."""
        with self._timed(f"opening {name}"), self._progress(f"opening {name}"):
            encoder = open_encoder(name, self._plan.title)  # seconds, where it has to be converted first
        return encoder, {"passages": passages["content_sha256"], "encoder": encoder.identity}

    def _vectors(
        self,
        passages: Manifest,
        part: str,
        encoder: Encoder,
        content: Mapping[str, Any],
        share: Share | None = None,
    ) -> Manifest:
        rows = rows_of_share(passages["passages"], encoder.shard_rows, share or WHOLE)

        def build(folder: Path) -> Manifest:
            self._recover_vectors(part, encoder, content, folder)
            label = f"encoding {part.partition('/')[2]}"
            with self._progress(label, rows, "passages") as advance:

                def on_start(finished: int, total: int, rows: int) -> None:
                    if finished:
                        log_line(f"{part}: {finished} of {total} shards are there, going on at the next")
                        advance(rows)

                shards = encode_passages(
                    encoder,
                    self._passages(passages),
                    folder,
                    share=share or WHOLE,
                    on_start=on_start,
                    on_rows=advance,
                )
            if share:
                raise _ShareDone(shards)
            digest = sha256()
            for shard in shards:
                for block in shard.blocks():
                    digest.update(block.tobytes())
            return {"shards": len(shards), "vectors_sha256": digest.hexdigest()}

        how = {"token_budget": encoder.token_budget, "shard_rows": encoder.shard_rows}
        fingerprint = {**content, "execution": encoder.execution, **how}
        beside = [self._workspace.index / part / VECTORS]
        return self._workspace.part(vectors_part(part), fingerprint, build, elsewhere=beside)

    def _recover_vectors(self, part: str, encoder: Encoder, content: Mapping[str, Any], folder: Path) -> None:
        """Take the same vectors out of a Flat index in use, which holds them bit for bit if it is whole."""
        old = self._workspace.in_use(part)
        if old is None or old.get("factory") != FLAT or old.get("execution") != encoder.execution:
            return
        if all(old["fingerprint"].get(key) == value for key, value in content.items()):
            with suppress(DamagedIndexError):
                verify_part(self._workspace.index / part)
                shards_from_flat(self._workspace.index / part, encoder.shard_rows, folder)

    def _documents(self) -> DocumentStore:
        return DocumentStore(segment_paths(self._folder / DOCUMENTS))

    def _ids(self) -> IdTable:
        return IdTable.open(self._folder / DOCUMENTS)

    def _passages(self, manifest: Manifest) -> PassageStore:
        return open_passages(self._folder, self._ids(), manifest["words"])
