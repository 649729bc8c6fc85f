"""The stages of a build: the inputs of each, the function that it calls, and its progress bar.

A stage is a part of the workspace with a fingerprint of its inputs, by content. The stages after passages
run at the same time; one that fails stops the others when they next advance their progress bars.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from linkseek.indexer.building.corpora import language_of_corpus
from linkseek.indexer.building.corpus import OpenRecords, write_documents
from linkseek.indexer.building.costs import NOTHING, Cost, Estimate, Used
from linkseek.indexer.building.filling import PartSource
from linkseek.indexer.building.plan import (
    AUTO_LANGUAGE,
    BuildPlan,
    OpenEncoder,
    Vectors,
    links_inputs,
    passages_inputs,
    shards_inputs,
)
from linkseek.indexer.building.workspace import Workspace, link_tree
from linkseek.indexer.documents import DocumentStore, redirect_table
from linkseek.indexer.encoding.encode import Encoder, OnRows
from linkseek.indexer.encoding.impacts import IMPACTS, ImpactTexts
from linkseek.indexer.encoding.shards import Shard, open_shards, token_count
from linkseek.indexer.index import open_passages
from linkseek.indexer.links import build_links
from linkseek.indexer.machine.cluster import worker_count
from linkseek.indexer.machine.devices import usable_cores
from linkseek.indexer.machine.together import Stop, run_together
from linkseek.indexer.passages import Cutting, PassageStore, write_passages
from linkseek.indexer.program.errors import InputError, log_line
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.text import byte_size
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.search.compact import COMPACT
from linkseek.indexer.search.faiss_index import (
    FLAT,
    build_faiss,
    building_memory,
    disk_bytes,
    empty_index,
    resolved_type,
)
from linkseek.indexer.store.artifacts import (
    BM25,
    DOCUMENTS,
    LINKS,
    LUCENE,
    PASSAGES,
    VECTORS,
    encoder_of,
    segment_paths,
    shards_part,
)
from linkseek.indexer.store.ids import IdTable
from linkseek.indexer.store.manifest_files import part_kind, read_part
from linkseek.indexer.store.manifests import (
    DocumentsPart,
    Entries,
    LatePart,
    LinksPart,
    LucenePart,
    PartManifest,
    PassagesPart,
    ShardsPart,
    SparsePart,
    VectorsPart,
)

P = TypeVar("P", bound=PartManifest)

_READ = 200
"""Passages whose words show whether an encoder can read them."""


class Stages:
    """The stages, in the workspace of one build."""

    def __init__(self, workspace: Workspace, plan: BuildPlan) -> None:
        self._workspace = workspace
        self._folder = workspace.folder
        self._plan = plan
        self._stop = Stop()
        self._began = time.perf_counter()
        self.times: dict[str, tuple[float, float]] = {}

    def decide(self, passages: PassagesPart) -> BuildPlan:
        """The plan, now that the number of passages is known."""
        self._plan = self._plan.decided(passages.passages)
        return self._plan

    def decide_language(self, reader: Reader) -> BuildPlan:
        """The plan with the language of the documents, which is logged unless the plan names it."""
        if self._plan.language == AUTO_LANGUAGE:
            language, why = language_of_corpus(reader, self._documents())
            log_line(f"language: {language} ({why})")
            self._plan = replace(self._plan, language=language)
        return self._plan

    def after_passages(
        self, documents: DocumentsPart, passages: PassagesPart, open_encoder: OpenEncoder, source: PartSource
    ) -> LinksPart:
        """Everything that is built from passages, at the same time; the manifest of the links.

        source: fills the index of words and encodes.
        """

        def encode() -> None:
            for vectors in self._plan.vectors:
                self._vectors(passages, vectors, open_encoder, source)

        tasks: list[Callable[[], Any]] = [lambda: self.links(documents, passages)]
        if self._plan.bm25:
            tasks.append(lambda: self._bm25(passages, source))
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
    def timed(self, name: str) -> Iterator[None]:
        """Record when a stage runs."""
        started = time.perf_counter() - self._began
        yield
        self.times[name] = (started, time.perf_counter() - self._began)

    @contextmanager
    def _progress(self, label: str, total: float | None = None, unit: str = "") -> Iterator[OnRows]:
        """A `Bar`."""
        with progress(label, total, unit) as advance:

            def step(count: float) -> None:
                self._stop.check()
                advance(count)

            yield step

    def documents(self, fingerprint: Mapping[str, Any], fill: Callable[[Path], Entries]) -> DocumentsPart:
        """Documents, redirects and their ids. fill: such as `read` with a reader."""
        with self.timed(DOCUMENTS):
            return self._part(DocumentsPart, DOCUMENTS, fingerprint, fill)

    def read(self, reader: Reader, folder: Path, records: OpenRecords | None = None) -> Entries:
        """Write the documents of a corpus into a folder; the entries of their manifest.

        records: opens some of its records instead of all.
        """

        def on_start(records: int) -> None:
            if records:
                log_line(f"documents: resuming after {records:,} finished records")

        shown = 0
        with progress(f"reading {reader.path.name}", reader.state()["bytes"], "bytes") as advance:

            def on_record(position: int) -> None:
                nonlocal shown
                if position != shown:
                    advance(position - shown)
                    shown = position

            processes = worker_count(self._plan.processes or usable_cores())
            return write_documents(
                reader, folder, processes=processes, records=records, on_start=on_start, on_record=on_record
            )

    def passages(self, documents: DocumentsPart, cutting: Cutting) -> PassagesPart:
        """The documents cut into passages. Raises `InputError` if no document has text."""

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

        with self.timed(PASSAGES):
            return self._part(PassagesPart, PASSAGES, passages_inputs(documents, cutting), build)

    def links(self, documents: DocumentsPart, passages: PassagesPart) -> LinksPart:
        """The links of the passages."""

        def build(folder: Path) -> Entries:
            store, redirects = self._documents(), redirect_table([self._folder])
            ids = IdTable.open(self._folder / DOCUMENTS)
            with self._progress("resolving links", len(store), "documents") as advance:
                return build_links(folder, store, redirects, ids, self.store(passages), advance)

        with self.timed(LINKS):
            return self._part(LinksPart, LINKS, links_inputs(documents, passages), build)

    def _bm25(self, passages: PassagesPart, source: PartSource) -> LucenePart:
        def build(folder: Path) -> Entries:
            with self._progress("Lucene index", passages.passages, "passages") as advance:
                return {"passages": source.lucene(folder, advance)}

        fingerprint = self._plan.bm25_inputs(passages) | ({"merged": True} if source.merge else {})
        with self.timed(BM25):
            return self._part(LucenePart, BM25, fingerprint, build, resumable=False)

    def _vectors(
        self, passages: PassagesPart, vectors: Vectors, open_encoder: OpenEncoder, source: PartSource
    ) -> PartManifest:
        """The vectors of passages in a FAISS index, the codes of their tokens, or term weights."""
        (part, name, factory), rows, kind = vectors, passages.passages, part_kind(vectors.part)
        dense = kind is VectorsPart
        unchanged = source.unchanged(part, passages)
        if unchanged and (reused := self._workspace.reuse(kind, part, unchanged)):
            return reused
        with self.timed(f"opening {name}"), self._progress(f"opening {name}"):
            encoder = open_encoder(name, self._plan.title)  # seconds, where it has to be converted first
        if dense:
            factory, why = resolved_type(factory, rows, encoder.dimension)
            log_line(f"{part}: --faiss {factory}, {why}")
            empty_index(factory, encoder.dimension, rows)  # a bad factory fails early

        def build(folder: Path) -> Entries:
            if dense:
                self._check_room(part, factory, rows, encoder.dimension)
            reading = encoder.reading([row["text"] for row in self.store(passages).table.sample(_READ)])
            with self.timed(f"encoding {encoder_of(part)}"):
                encoded = self._shards(passages, part, encoder, source)
            finishes: dict[type[PartManifest], Callable[[str, list[Shard], Path], Entries]] = {
                VectorsPart: partial(self._faiss, passages, encoder, factory),
                LatePart: self._codes,
                SparsePart: partial(self._impacts, passages, factory),
            }
            return {
                "encoder": {**encoder.identity, "location": encoder.location},
                "execution": encoder.execution,
                "reading": reading,
                "vectors_sha256": encoded.vectors_sha256,
                **finishes[kind](part, open_shards(self._folder / shards_part(part), rows), folder),
            }

        return self._part(kind, part, self._plan.vectors_inputs(passages, encoder, factory), build)

    def _faiss(
        self,
        passages: PassagesPart,
        encoder: Encoder,
        factory: str,
        part: str,
        shards: list[Shard],
        folder: Path,
    ) -> Entries:
        """Build a FAISS index of vectors."""
        name, ids = encoder_of(part), self.store(passages).table.column("id")
        rows = passages.passages
        with self.timed(f"FAISS {name}"), self._progress(f"FAISS {factory}", rows, "vectors") as advance:
            built = build_faiss(folder, shards, factory, encoder.dimension, ids, advance)
            if factory != FLAT:  # a float16 Flat index is the vectors; others need them as well
                link_tree(self._folder / shards_part(part), folder / VECTORS)
        return {"factory": factory, **built}

    def _codes(self, part: str, shards: list[Shard], folder: Path) -> Entries:
        """Link the codes of tokens into the part."""
        link_tree(self._folder / shards_part(part), folder / VECTORS)
        tokens, width = sum(map(token_count, shards)), shards[0].dimension
        rows = sum(shard.rows for shard in shards)
        log_line(f"{part}: {tokens:,} codes, {byte_size(tokens * width)}")
        return {"rows": rows, "tokens": tokens, "width": width}

    def _impacts(
        self, passages: PassagesPart, most: str, part: str, shards: list[Shard], folder: Path
    ) -> Entries:
        """A Lucene index of the term weights, the largest `most` of each passage."""
        from linkseek.indexer.search.lucene_writer import build_lucene

        terms, ids = ImpactTexts(shards, int(most)), self.store(passages).table.column("id")
        made = self._codes(part, shards, folder)
        with self.timed(f"Lucene {part}"), self._progress(f"Lucene {part}", passages.passages) as advance:
            build_lucene(
                ((id_, "", text) for id_, text in zip(ids, terms, strict=True)),
                folder / LUCENE,
                index_title=False,
                threads=self._plan.processes or usable_cores(),
                language=IMPACTS,
                on_rows=advance,
            )
        if int(most):
            log_line(f"{part}: the {most} largest terms of a passage have {terms.kept:.1%} of the weight")
        return {**made, "most": int(most), "kept": round(terms.kept, 4)}

    def _check_room(self, part: str, factory: str, rows: int, dimension: int) -> None:
        """Raises `MachineError` before hours of encoding if disk or memory is too small for the vectors."""
        finished = sum(file.stat().st_size for file in (self._folder / shards_part(part)).glob("*.npy"))

        def of(type_: str) -> Estimate:
            disk, memory = (needed(type_, rows, dimension) for needed in (disk_bytes, building_memory))
            return Estimate(type_, rows, NOTHING, [Cost(part, "dense", Used(memory=memory), disk - finished)])

        replace(of(factory), alternatives=[of(COMPACT)]).check(self._folder)

    def _shards(self, passages: PassagesPart, part: str, encoder: Encoder, source: PartSource) -> ShardsPart:
        def build(folder: Path) -> Entries:
            shards = source.encode(part, encoder, folder, self._progress)
            digest = sha256()
            for shard in shards:
                for block in shard.blocks():
                    digest.update(block.tobytes())
            return {"shards": len(shards), "vectors_sha256": digest.hexdigest()}

        fingerprint, name = shards_inputs(passages, encoder), shards_part(part)
        return self._part(ShardsPart, name, fingerprint, build, elsewhere=[f"{part}/{VECTORS}"])

    def default_encoder(self, parts: Sequence[str]) -> str | None:
        """The name of the first encoder of these parts that reads the passages; without one, the first."""
        dense = [part for part in parts if part_kind(part) is VectorsPart]
        read = (
            p for p in dense if read_part(self._folder / p, VectorsPart).reading.reads(self._plan.language)
        )
        default = next(read, next(iter(dense), None))
        return default and encoder_of(default)

    def _documents(self) -> DocumentStore:
        return DocumentStore(segment_paths(self._folder / DOCUMENTS))

    def store(self, manifest: PassagesPart) -> PassageStore:
        """The passages of the new index."""
        return open_passages(self._folder, IdTable.open(self._folder / DOCUMENTS), manifest.words)
