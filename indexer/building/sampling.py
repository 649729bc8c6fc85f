"""Projecting a build: its real stages over a sample of the corpus, in a temporary folder, measured.

The sample is the corpus's first part, as much as is parsed in a few seconds; a smaller corpus is read whole.
Counts are scaled by bytes of the source: a dump of Wikipedia begins with long articles, which have more
passages, but more bytes as well. Passages to encode are spread over the sample. Time and disk are scaled from
two sizes, so that fixed costs are counted once; memory is measured, and its growth computed as each stage
documents it. Time is processor time, so that it does not depend on other programs, or wall time where a stage
keeps several cores busy. Parts that a build would reuse cost nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from linkseek.indexer.building.builder import open_corpus
from linkseek.indexer.building.costs import BEFORE, NOTHING, Cost, Estimate, FirstRecords, Meter, Used, line
from linkseek.indexer.building.filling import PartSource
from linkseek.indexer.building.plan import (
    BuildPlan,
    OpenEncoder,
    Vectors,
    documents_inputs,
    passages_inputs,
    shards_inputs,
)
from linkseek.indexer.building.stages import Stages
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.encoding.batches import CHUNK_ROWS
from linkseek.indexer.encoding.encode import encode_passages
from linkseek.indexer.encoding.shards import Shard, write_shard
from linkseek.indexer.machine.watch import Watch
from linkseek.indexer.passages import Cutting
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.search.compact import COMPACT, SAMPLE, train_codes
from linkseek.indexer.search.faiss_index import (
    AUTO,
    FLAT,
    build_faiss,
    building_memory,
    empty_index,
    enough_rows,
    resolved_type,
)
from linkseek.indexer.store.artifacts import BM25, DOCUMENTS, LINKS, PASSAGES, VECTORS, shards_part
from linkseek.indexer.store.manifest_files import part_kind
from linkseek.indexer.store.manifests import (
    CodesPart,
    DocumentsPart,
    LucenePart,
    PassagesPart,
    ShardsPart,
    VectorsPart,
)

_ENCODING_SECONDS = 2.0  # a larger pass follows a shorter one
_LUCENE_ROWS = 12_000  # Java compiles during the first thousands
_FAISS_ROWS = 2_048
_INTERVAL = 0.05  # seconds between two samples of the memory
_ID_BYTES = 64  # of a document in the tables of ids, while they are built
_LINK_BYTES = 20
_TOKENS_BYTES = 170 * 4  # of a passage of 100 words
_SHAPES_BYTES, _SHAPES_ROWS = 260 << 20, 5_000
"""OpenVINO keeps memory for each shape of a batch: these bytes after this many more passages (measured)."""


def estimate_build(index: Path, plan: BuildPlan, open_encoder: OpenEncoder) -> Estimate:
    """Project a build for its FAISS type, with alternatives; arguments and errors as in `build_index`."""
    reader, cutting, index = open_corpus(index, plan)
    with (
        tempfile.TemporaryDirectory(prefix=f".{index.name}.plan-", dir=place(index)) as folder,
        Watch(os.getpid(), _INTERVAL) as watch,
    ):
        workspace = Workspace(index, fresh=plan.fresh, sample=Path(folder))
        sampling = _Sampling(workspace, plan, watch)
        sampling.read(reader, cutting)
        if plan.bm25:
            sampling.bm25()
        for vectors in sampling.plan.vectors:
            sampling.encode(vectors, open_encoder)
        return sampling.estimate()


def place(index: Path) -> Path:
    """The folder that exists around an index, perhaps not yet made: on the disk where it will be."""
    return next(folder for folder in index.resolve().parents if folder.is_dir())


class _Sampling:
    """The stages over the sample, and their costs for the whole."""

    def __init__(self, workspace: Workspace, plan: BuildPlan, watch: Watch) -> None:
        self._workspace = workspace
        self._stages = Stages(workspace, plan)
        self.plan = plan
        self._meter = Meter(watch)
        self._base = self._meter.so_far()
        self._costs: list[Cost] = []
        self._width = 0
        self._rows = 0

    def read(self, reader: Reader, cutting: Cutting) -> None:
        """Documents, passages and links: all if they are finished, else a sample."""
        reuse = self._workspace.reuse
        finished = reuse(DocumentsPart, DOCUMENTS, documents_inputs(reader))
        has_passages = finished and reuse(PassagesPart, PASSAGES, passages_inputs(finished, cutting))
        used = self._meter.started()
        sample = FirstRecords(reader, used)
        fill = partial(self._stages.read, reader, records=sample.records)
        documents = finished
        if not (documents and has_passages):
            documents = self._workspace.part(DocumentsPart, DOCUMENTS, {"sample": True}, fill)
        reading, count = used(), documents.documents
        whole = finished.documents if finished else min(count / sample.share, reader.choices.limit or np.inf)
        scale = max(whole / count, 1.0)
        plan = self._stages.decide_language(reader)
        splitting, passages = self._meter.measured(partial(self._stages.passages, documents, cutting))
        self._passages, self._store = passages, self._stages.store(passages)
        self._rows = round(passages.passages * scale)
        self.plan = plan.decided(self._rows)
        names = (count + documents.redirects) * _ID_BYTES
        self._add(DOCUMENTS, BEFORE, sample.scaled(reading, scale), documents.bytes, scale, names)
        self._add(PASSAGES, BEFORE, splitting.grown(1, scale), passages.bytes, scale, 8 * count)
        self._base = replace(self._base, memory=self._meter.so_far().memory)
        linking, links = self._meter.measured(partial(self._stages.links, documents, passages))
        # Links to documents outside the sample are counted: most of their targets are in the corpus.
        disk = links.bytes + (links.counts.dangling * _LINK_BYTES if scale > 1 else 0)
        self._add(LINKS, LINKS, linking.grown(1, scale), disk, scale, names + 8 * len(self._store))

    def bm25(self) -> None:
        """Measure the Lucene index."""
        from linkseek.indexer.search.lucene_writer import building_memory

        if self._workspace.reuse(LucenePart, BM25, self.plan.bm25_inputs(self._passages)):
            self._add(BM25, BM25)
            return
        source, count = PartSource(self.plan, self._store), min(len(self._store), _LUCENE_ROWS)
        used, disk, _ = self._projected(
            max(count // 4, 1), count, lambda rows, folder: source.lucene(folder, limit=rows)
        )
        self._add(BM25, BM25, replace(used, memory=max(building_memory(self._rows), used.memory)), disk)

    def encode(self, vectors: Vectors, open_encoder: OpenEncoder) -> None:
        """Open an encoder, and encode passages for a few seconds."""
        part, name, _ = vectors
        all_used = self._meter.started()
        opening, encoder = self._meter.measured(lambda: open_encoder(name, self.plan.title))
        shards, rows, width = list[Shard](), self._rows, encoder.dimension
        passes: list[tuple[int, Used]] = []
        helped = CHUNK_ROWS if encoder.parallel.tokenizers else 0  # beyond this number, by further processes
        few, count = 0, min(max(64, helped + 1), rows)
        while few < count and (not passes or passes[-1][1].seconds < _ENCODING_SECONDS):
            folder = self._new()
            chosen = np.linspace(0, len(self._store) - 1, count).astype(np.int64)
            used, shards = self._meter.measured(
                partial(encode_passages, encoder, self._store, folder, only=chosen), folder, folder
            )
            passes.append((count, used))
            few, count = count, min(4 * count, rows)
        (few, first), (many, last) = [passes[0], *passes][-2:]
        growth = max(min(rows, 2 * encoder.shard_rows) - many, 0)  # one shard is written during the next
        memory = all_used().memory + growth * (8 * width + 2 * _TOKENS_BYTES)
        if str(encoder.execution.get("backend")).startswith("openvino"):
            memory += int(_SHAPES_BYTES * min((rows - many) / _SHAPES_ROWS, 1.0))
        coded = issubclass(part_kind(part), CodesPart)
        stored = sum(shard.path.stat().st_size for shard in shards) // many if coded else width * 2
        encoding, disk = opening.then(last.grown(many, rows, few, first)), rows * stored
        inputs = shards_inputs(self._passages, encoder)
        if self._workspace.reuse(ShardsPart, shards_part(part), inputs, [f"{part}/{VECTORS}"]):
            encoding, disk = opening, 0
        self._add(f"encoding {name}", "dense", replace(encoding, memory=memory), disk)
        if coded:
            return
        self._width = max(self._width, width)
        for factory in self._types():
            inputs = self.plan.vectors_inputs(self._passages, encoder, factory)
            reused = self._workspace.reuse(VectorsPart, part, inputs)
            used, disk = (NOTHING, 0) if reused else self._faiss(factory, width, shards, opening.memory)
            self._add(f"FAISS {name}", "dense", used, disk, faiss=factory)

    def _types(self) -> list[str]:
        """The types of FAISS index that are compared: the plan's, or those that `auto` chooses from."""
        types = [self.plan.faiss, FLAT, COMPACT] if self._rows >= enough_rows(COMPACT) else [self.plan.faiss]
        return list(dict.fromkeys(FLAT if type_ == AUTO else type_ for type_ in types))

    def _faiss(self, factory: str, width: int, shards: list[Shard], memory: int) -> tuple[Used, int]:
        """Cost and disk of a FAISS index, from two of vectors of the sample. memory: of the encoder."""
        rows = self._rows
        empty_index(factory, width, rows)  # a bad factory fails early
        many = min(max(_FAISS_ROWS, 2 * enough_rows(factory)), rows)
        few = max(many // 2, min(enough_rows(factory), rows))
        texts = self._store.table.column("id", 0, min(len(self._store), 1000))
        id_bytes = np.mean([len(id_) + 1 for id_ in texts])

        made = {n: [write_shard(self._new(), 0, 0, _resampled(shards, n))] for n in (few, many)}
        used, size, last = self._projected(
            few, many, lambda count, folder: build_faiss(folder, made[count], factory, width, ())
        )
        seconds = used.seconds
        if factory == COMPACT:
            training, _ = self._meter.measured(lambda: train_codes(made[many], width))
            coding = max(last.seconds - training.seconds, 0) * rows / many
            seconds = training.seconds * min(rows, SAMPLE) / many + coding
        cpu = seconds * max(last.cpu / max(last.seconds, 1e-6), 1.0)
        memory += building_memory(factory, rows, width, size)
        return Used(seconds, cpu, memory), size + int(rows * id_bytes)

    def _projected(self, few: int, many: int, build: Callable[[int, Path], object]) -> tuple[Used, int, Used]:
        """Time and disk for all rows, extrapolated linearly from a few and from many; the time of many.

        The first run, of a few, takes longer than the second: Java compiles its code, libraries are loaded.
        """
        all_used, measured = self._meter.started(), []
        for count in (few, few, many):
            folder = self._new()
            used, _ = self._meter.measured(partial(build, count, folder), folder)
            measured.append((used, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())))
        (cold, _), (warm, small), (last, large) = measured
        extra = Used(max(cold.seconds - warm.seconds, 0), max(cold.cpu - warm.cpu, 0))
        used = replace(extra.then(last.grown(many, self._rows, few, warm)), memory=all_used().memory)
        return used, int(line(few, many, self._rows, small, large)), last

    def estimate(self) -> Estimate:
        """The whole, for the plan's type of FAISS index and the others."""
        chosen, _ = resolved_type(self.plan.faiss, self._rows, self._width)
        has_vectors = any(cost.faiss for cost in self._costs)
        types = [chosen, *(each for each in self._types() if each != chosen)] if has_vectors else [None]
        first, *others = (
            Estimate(type_, self._rows, self._base, [c for c in self._costs if c.faiss in (None, type_)])
            for type_ in types
        )
        return replace(first, alternatives=others)

    def _add(
        self,
        name: str,
        chain: str,
        used: Used = NOTHING,
        disk: float = 0,
        scale: float = 1.0,
        growth: float = 0,
        faiss: str | None = None,
    ) -> None:
        """Add a stage, at no cost if it is a part that is reused.

        disk, growth: of the sample, whose files and memory grow by the scale.
        """
        used = replace(used, memory=used.memory + int((scale - 1) * growth))
        used, disk = (NOTHING, 0) if name in self._workspace.reused else (used, disk * scale)
        self._costs.append(Cost(name, chain, used, int(disk), faiss))

    def _new(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._workspace.folder))


def _resampled(shards: list[Shard], count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """`count` vectors of the sample, repeated with some noise where there are fewer, float32 [count, d]."""
    vectors = np.concatenate([shard.open() for shard in shards]).astype(np.float32)  # [n, d]
    generator = np.random.default_rng(0)
    noise = generator.normal(scale=0.1 * vectors.std(), size=(count, vectors.shape[1]))
    repeated = np.resize(vectors, (count, vectors.shape[1]))
    noise[: len(vectors)] = 0
    return (repeated + noise).astype(np.float32)
