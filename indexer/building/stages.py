"""The stages of a build: the inputs of each, the function that it calls, and its progress bar.

A stage is a part of the workspace with a fingerprint of its inputs, by content. The stages after passages
run at the same time; one that fails stops the others when they next advance their progress bars.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from linkseek.indexer.base.cluster import worker_count
from linkseek.indexer.base.defaults import default_processes
from linkseek.indexer.base.devices import memory_bytes
from linkseek.indexer.base.errors import DamagedIndexError, InputError, MachineError
from linkseek.indexer.base.frozen import frozen
from linkseek.indexer.base.log import log_line
from linkseek.indexer.base.progress import progress
from linkseek.indexer.base.text import byte_size
from linkseek.indexer.base.together import Stop, run_together
from linkseek.indexer.building.corpus import write_documents
from linkseek.indexer.building.corpus_language import language_of_corpus
from linkseek.indexer.building.plan import AUTO_LANGUAGE, OpenEncoder, Plan, Vectors
from linkseek.indexer.building.workspace import Workspace, link_tree
from linkseek.indexer.documents import REDIRECT_SCHEMA, DocumentStore
from linkseek.indexer.encoding.encode import (
    ALL,
    Encoder,
    OnRows,
    Share,
    encode_passages,
    rows_of_share,
    shards_of_share,
)
from linkseek.indexer.encoding.shards import Shard, open_shards
from linkseek.indexer.files.sources import Reading
from linkseek.indexer.index import open_passages
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.links import build_links
from linkseek.indexer.passages import Cutting, PassageStore, write_passages
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.search.compact import COMPACT
from linkseek.indexer.search.faiss_index import (
    FLAT,
    build_faiss,
    building_memory,
    disk_bytes,
    empty_index,
    resolved_type,
    shards_from_flat,
)
from linkseek.indexer.store.artifacts import (
    BM25,
    DOCUMENTS,
    LINKS,
    PASSAGES,
    VECTORS,
    dense_part,
    segment_paths,
    vectors_part,
)
from linkseek.indexer.store.ids import IdTable
from linkseek.indexer.store.manifest_files import verify_part
from linkseek.indexer.store.manifests import (
    DocumentsPart,
    Entries,
    LinksPart,
    LucenePart,
    PartManifest,
    PassagesPart,
    ShardsPart,
    VectorsPart,
)
from linkseek.indexer.store.tables import Table

P = TypeVar("P", bound=PartManifest)

Inputs = dict[str, Any]
"""The fingerprint of a part that is to be built."""


class Stages:
    """The stages, in the workspace of one build."""

    def __init__(self, workspace: Workspace, plan: Plan) -> None:
        self._workspace = workspace
        self._folder = workspace.folder
        self._plan = plan
        self._stop = Stop()
        self._began = time.perf_counter()
        self.times: dict[str, tuple[float, float]] = {}

    def decide(self, passages: PassagesPart) -> Plan:
        """The plan, now that the number of passages is known."""
        self._plan = self._plan.decided(passages.passages)
        return self._plan

    def decide_language(self, reader: Reader) -> Plan:
        """The plan with the language of the documents, which is logged unless the plan names it."""
        if self._plan.language == AUTO_LANGUAGE:
            language, why = language_of_corpus(reader, self._documents())
            log_line(f"language: {language} ({why})")
            self._plan = replace(self._plan, language=language)
        return self._plan

    def after_passages(
        self, documents: DocumentsPart, passages: PassagesPart, open_encoder: OpenEncoder
    ) -> LinksPart:
        """Everything that is built from passages, at the same time; the manifest of the links."""

        def encode() -> None:
            for vectors in self._plan.vectors:
                self._dense(passages, vectors, open_encoder)

        tasks: list[Callable[[], Any]] = [lambda: self._links(documents, passages)]
        if self._plan.bm25:
            tasks.append(lambda: self._bm25(passages))
        if self._plan.vectors:
            tasks.append(encode)
        links: LinksPart = run_together(tasks, self._stop)[0]
        return links

    def _part(self, kind: type[P], name: str, *details: Any, **options: Any) -> P:
        """`Workspace.part`, unless another stage has failed; logs when the part was reused."""
        self._stop.check()
        manifest = self._workspace.part(kind, name, *details, **options)
        if name in self._workspace.reused:
            log_line(f"{name}: unchanged, reused")
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
        """A progress bar; advancing it ends the stage when another one has failed."""
        with progress(label, total, unit) as advance:

            def step(count: float) -> None:
                self._stop.check()
                advance(count)

            yield step

    def documents(self, reader: Reader) -> DocumentsPart:
        """Documents, redirects and their ids, from the corpus."""
        fingerprint = documents_inputs(self._plan, reader)
        with self._timed(DOCUMENTS):
            return self._part(
                DocumentsPart, DOCUMENTS, fingerprint, lambda folder: self._read(reader, folder)
            )

    def _read(self, reader: Reader, folder: Path) -> Entries:
        """Write all documents of a corpus into a folder; the entries of their manifest."""

        def on_start(records: int) -> None:
            if records:
                log_line(f"documents: resuming after {records:,} finished records")

        sources: list[Reading] = []
        shown = 0
        with progress(f"reading {reader.path.name}", reader.state()["bytes"], "bytes") as advance:

            def on_record() -> None:
                nonlocal shown
                if sources and sources[0].position != shown:
                    advance(sources[0].position - shown)
                    shown = sources[0].position

            return write_documents(
                reader,
                folder,
                limit=self._plan.limit,
                min_title=self._plan.min_title,
                on_error=self._plan.on_error,
                processes=worker_count(self._plan.processes or default_processes()),
                on_source=sources.append,
                on_start=on_start,
                on_record=on_record,
            )

    def passages(self, documents: DocumentsPart, cutting: Cutting) -> PassagesPart:
        """The documents cut into passages. Raises `InputError` if there are none."""

        def build(folder: Path) -> Entries:
            store = self._documents()
            with progress("splitting into passages", len(store), "documents") as advance:
                written = write_passages(folder, store, cutting, advance)
            if written["passages"] == 0:
                raise InputError(
                    f"{self._plan.corpus}: none of its {len(store):,} documents has any text",
                    "There is nothing to search.",
                )
            return written

        with self._timed(PASSAGES):
            return self._part(PassagesPart, PASSAGES, passages_inputs(documents, cutting), build)

    def _links(self, documents: DocumentsPart, passages: PassagesPart) -> LinksPart:
        def build(folder: Path) -> Entries:
            redirects = Table(segment_paths(self._folder / DOCUMENTS, "redirects-"), REDIRECT_SCHEMA)
            store, ids = self._documents(), IdTable.open(self._folder / DOCUMENTS)
            with self._progress("resolving links", len(store), "documents") as advance:
                counts = build_links(folder, store, redirects, ids, self._passages(passages), advance)
            return {"counts": counts}

        with self._timed(LINKS):
            return self._part(LinksPart, LINKS, links_inputs(documents, passages), build)

    def _bm25(self, passages: PassagesPart) -> LucenePart:
        def build(folder: Path) -> Entries:
            with self._progress("Lucene index", passages.passages, "passages") as advance:
                return {"passages": self._lucene(folder, self._passages(passages), advance)}

        with self._timed(BM25):
            return self._part(LucenePart, BM25, self._bm25_inputs(passages), build, resumable=False)

    def _bm25_inputs(self, passages: PassagesPart) -> Inputs:
        return bm25_inputs(self._plan, passages)

    def _lucene(self, folder: Path, passages: PassageStore, on_rows: OnRows) -> int:
        """Fill a new folder with a Lucene index; the number of its passages."""
        from linkseek.indexer.search.lucene_writer import build_lucene, passage_texts

        return build_lucene(
            passage_texts(passages),
            folder,
            index_title=self._plan.title,
            threads=self._plan.processes or default_processes(),
            language=self._plan.language,
            on_rows=on_rows,
        )

    def _dense(self, passages: PassagesPart, vectors: Vectors, open_encoder: OpenEncoder) -> VectorsPart:
        (part, name, factory), rows = vectors, passages.passages
        encoder = self._open(name, open_encoder)
        factory, why = resolved_type(factory, rows, encoder.dimension)
        log_line(f"{part}: --faiss {factory}, {why}")
        empty_index(factory, encoder.dimension, rows)  # a bad factory fails early

        def build(folder: Path) -> Entries:
            self._check_disk(part, factory, rows, encoder.dimension)
            _check_memory(factory, rows, encoder.dimension)
            with self._timed(f"encoding {part.partition('/')[2]}"):
                encoded = self._vectors(passages, part, encoder)
            shards = open_shards(self._folder / vectors_part(part), rows)
            ids = self._passages(passages).table.column("id")
            with self._timed(f"FAISS {name}"), self._progress(f"FAISS {factory}", rows, "vectors") as advance:
                built = build_faiss(folder, shards, factory, encoder.dimension, ids, advance)
                if factory != FLAT:  # a float16 Flat index is the vectors; others need them as well
                    link_tree(self._folder / vectors_part(part), folder / VECTORS)
            return {
                "encoder": {**encoder.identity, "location": encoder.location},
                "execution": encoder.execution,
                "factory": factory,
                "vectors_sha256": encoded.vectors_sha256,
                **built,
            }

        return self._part(VectorsPart, part, dense_inputs(self._plan, passages, encoder, factory), build)

    def _check_disk(self, part: str, factory: str, rows: int, dimension: int) -> None:
        """Raises `MachineError` before hours of encoding if the vectors cannot fit on the disk."""
        shards = self._folder / vectors_part(part)
        finished = sum(file.stat().st_size for file in shards.glob("*.npy"))
        free = shutil.disk_usage(self._folder).free
        needed = disk_bytes(factory, rows, dimension) - finished
        if needed > free:
            smaller = disk_bytes(COMPACT, rows, dimension) - finished
            hint = (
                f"--faiss compact needs {byte_size(smaller)}." if smaller < needed and smaller <= free else ""
            )
            raise MachineError(
                f"{self._folder}: {rows:,} vectors with --faiss {factory} need {byte_size(needed)}, "
                f"{byte_size(free)} are free on this disk",
                f"Free some space and run the same command: it resumes. {hint}".strip(),
            )

    def share(
        self, passages: PassagesPart, name: str, open_encoder: OpenEncoder, share: Share
    ) -> list[Shard]:
        """Encode one share of the shards, and nothing else of this part."""
        part = dense_part(name)
        encoder = self._open(name, open_encoder)
        vectors, fingerprint = vectors_part(part), vectors_inputs(passages, encoder)
        if self._workspace.reuse(ShardsPart, vectors, fingerprint, [self._workspace.index / part / VECTORS]):
            shards = open_shards(self._folder / vectors, passages.passages)
            return [shards[number] for number in shards_of_share(len(shards), share)]
        folder = self._workspace.begin(vectors, fingerprint)
        return self._encode(passages, part, encoder, folder, share)

    def _open(self, name: str, open_encoder: OpenEncoder) -> Encoder:
        with self._timed(f"opening {name}"), self._progress(f"opening {name}"):
            return open_encoder(name, self._plan.title)  # seconds, where it has to be converted first

    def _vectors(self, passages: PassagesPart, part: str, encoder: Encoder) -> ShardsPart:
        def build(folder: Path) -> Entries:
            shards = self._encode(passages, part, encoder, folder)
            digest = sha256()
            for shard in shards:
                for block in shard.blocks():
                    digest.update(block.tobytes())
            return {"shards": len(shards), "vectors_sha256": digest.hexdigest()}

        fingerprint = vectors_inputs(passages, encoder)
        elsewhere = [self._workspace.index / part / VECTORS]
        return self._part(ShardsPart, vectors_part(part), fingerprint, build, elsewhere=elsewhere)

    def _encode(
        self, passages: PassagesPart, part: str, encoder: Encoder, folder: Path, share: Share = ALL
    ) -> list[Shard]:
        """Write the shards of a share that `folder` lacks."""
        self._recover_vectors(passages, part, encoder, folder)
        rows = rows_of_share(passages.passages, encoder.shard_rows, share)
        with self._progress(f"encoding {part.partition('/')[2]}", rows, "passages") as advance:
            store, on_start = self._passages(passages), log_resumed(part, advance)
            return encode_passages(encoder, store, folder, share=share, on_start=on_start, on_rows=advance)

    def _recover_vectors(self, passages: PassagesPart, part: str, encoder: Encoder, folder: Path) -> None:
        """Take the same vectors out of an intact Flat index in use, which holds them bit for bit."""
        old = self._workspace.in_use(VectorsPart, part)
        if old is None or old.factory != FLAT or old.execution != frozen(encoder.execution):
            return
        if all(
            old.fingerprint.get(key) == value for key, value in frozen(_inputs(passages, encoder)).items()
        ):
            with suppress(DamagedIndexError):
                verify_part(self._workspace.index / part)
                shards_from_flat(self._workspace.index / part, encoder.shard_rows, folder)

    def _documents(self) -> DocumentStore:
        return DocumentStore(segment_paths(self._folder / DOCUMENTS))

    def _passages(self, manifest: PassagesPart) -> PassageStore:
        return open_passages(self._folder, IdTable.open(self._folder / DOCUMENTS), manifest.words)


def _check_memory(factory: str, rows: int, dimension: int) -> None:
    """Raises `MachineError` before hours of encoding if the FAISS index cannot be built in memory."""
    memory, needed = memory_bytes(), building_memory(factory, rows, dimension)
    if needed > memory:
        smaller = building_memory(COMPACT, rows, dimension)
        problem = f"{rows:,} vectors with --faiss {factory} need {byte_size(needed)} of memory"
        raise MachineError(
            f"{problem}, this machine has {byte_size(memory)}",
            f"--faiss compact needs {byte_size(smaller)}." if smaller <= memory else "Use a larger machine.",
        )


def log_resumed(part: str, advance: OnRows) -> Callable[[int, int, int], None]:
    """`on_start` of `encode_passages`: logs how many shards an earlier run had finished."""

    def on_start(finished: int, total: int, rows: int) -> None:
        if finished:
            log_line(f"{part}: {finished} of {total} shards are finished, resuming at the next")
            advance(rows)

    return on_start


def documents_inputs(plan: Plan, reader: Reader) -> Inputs:
    """The fingerprint of documents."""
    return {
        "linkseek": version("linkseek"),  # another version may read the same file differently
        "format": reader.name,
        "corpus": str(plan.corpus.resolve()),
        **reader.state(),
        "limit": plan.limit,
        "on_error": plan.on_error,
    } | ({"min_title": plan.min_title} if plan.min_title else {})  # 0: as of before there was a minimum


def passages_inputs(documents: DocumentsPart, cutting: Cutting) -> Inputs:
    """The fingerprint of passages."""
    inputs = {"documents": documents.content_sha256, "words": cutting.words}
    if cutting.segmented:
        inputs["segmented"] = True
    if cutting.min_words:  # 0: as of before there was a minimum
        inputs["min_words"] = cutting.min_words
    return inputs | ({"headings": True} if cutting.headings else {})


def cutting_of(passages: PassagesPart) -> Cutting:
    """How passages were cut, by their fingerprint."""
    inputs = passages.fingerprint
    kinds = {name: bool(inputs.get(name)) for name in ("headings", "segmented")}
    return Cutting(passages.words, int(inputs.get("min_words", 0)), **kinds)


def links_inputs(documents: DocumentsPart, passages: PassagesPart) -> Inputs:
    """The fingerprint of the link graph."""
    return {"documents": documents.content_sha256, "passages": passages.content_sha256}


def bm25_inputs(plan: Plan, passages: PassagesPart) -> Inputs:
    """The fingerprint of the Lucene index."""
    inputs = {"passages": passages.content_sha256, "title": plan.title}
    return inputs | ({"language": plan.language} if plan.language != ENGLISH else {})


def dense_inputs(plan: Plan, passages: PassagesPart, encoder: Encoder, factory: str) -> Inputs:
    """The fingerprint of vectors in a FAISS index."""
    return {**_inputs(passages, encoder), "title": plan.title, "factory": factory}


def _inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    return {"passages": passages.content_sha256, "encoder": encoder.identity}


def vectors_inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    """The fingerprint of the shards of vectors."""
    how = {"token_budget": encoder.token_budget, "shard_rows": encoder.shard_rows}
    return {**_inputs(passages, encoder), "execution": encoder.execution, **how}
