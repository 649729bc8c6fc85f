"""Growing an index: a build of the final corpus that encodes nothing twice.

The final corpus is the index's documents without the removed and replaced ones, in their order, followed by
the added ones. All parts are made from it in the workspace of a build, so an update is as safe as a build,
and rankings are the same as after a build of that corpus:

    documents        files of which all rows stay are linked; the added documents are new files
    passages, links  made anew from the documents: linear, and little next to encoding
    bm25             Lucene deletes and adds in a linked copy, and writes segments with deleted passages anew,
                     since its statistics would count those
    dense/NAME       vectors of passages with a text that was there are copied, others encoded; the FAISS
                     index is filled anew
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.building.builder import publish
from linkseek.indexer.building.filling import Bar, Encoding, Fresh, PartSource
from linkseek.indexer.building.plan import BuildPlan, Built, Inputs, OpenEncoder, Vectors, cutting_of
from linkseek.indexer.building.stages import Stages
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.encoding.encode import ALL, Encoder, OnRows, Share, encode_passages
from linkseek.indexer.encoding.shards import Shard, ShardRows, open_shards, write_shard
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.defaults import default_processes
from linkseek.indexer.program.errors import DamagedIndexError, MismatchError
from linkseek.indexer.program.log import log_line
from linkseek.indexer.program.progress import progress
from linkseek.indexer.search.faiss_index import FLAT
from linkseek.indexer.search.lucene_writer import build_lucene
from linkseek.indexer.store.artifacts import (
    BM25,
    DENSE,
    DOCUMENTS,
    LINKS,
    PASSAGES,
    VECTORS,
    dense_part,
    link_or_copy,
    value_sha256,
)
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.indexer.store.manifests import (
    PassagesPart,
    VectorsPart,
)


def update_index(index: Path, changes: Changes, plan: BuildPlan, open_encoder: OpenEncoder) -> Built:
    """Change the documents of an index, and replace it by the result, which all of its parts follow.

    plan: of its fields only encoders (to be added), faiss (of these), base_url (if there is one), processes
    and command count.
    Raises `DamagedIndexError` if there is no index, `InputError` for a damaged record or an unknown id (with
    on_error "skip" both are skipped), `MismatchError` if a model has changed since it encoded the index,
    `BusyError` if another build works on the index. After any error the index is as it was.
    """

    def changes_to(old: OpenIndex) -> Changes:
        if not old.updates or old.updates[-1].request != changes.request:
            return changes
        log_line(f"{index}: this was its last update already")  # which was killed at its very end
        return Changes()

    return change_index(index, changes_to, plan, open_encoder)


def change_index(
    index: Path, changes_to: Callable[[OpenIndex], Changes], plan: BuildPlan, open_encoder: OpenEncoder
) -> Built:
    """As `update_index`, with the changes to the index in use."""
    open_whole(index)  # before a workspace is made next to nothing
    with Workspace(index.resolve()) as workspace:
        old = open_whole(workspace.index)
        changes = changes_to(old)
        plan = _full_plan(plan, old)
        stages = Stages(workspace, plan)
        with stages.timed("verifying"), progress(f"verifying {index}", old.bytes, "bytes") as advance:
            old.verify(advance)  # because most of it will be copied
        documents = stages.documents(changes.inputs(old), partial(changes.write, old, stages.read))
        update = changes.update(documents, workspace.folder / DOCUMENTS)
        passages = stages.passages(documents, cutting_of(old.parts.passages))
        if not changes.documents and passages.content_sha256 != old.parts.passages.content_sha256:
            raise DamagedIndexError(
                f"{old.path / PASSAGES}: not the passages of its documents: a manifest was altered",
                "Build the index again.",
            )
        source = _Grown(plan, Fresh(workspace, plan), old, stages.store(passages), merge=changes.merge)
        links = stages.after_passages(documents, passages, open_encoder, source)
        dense = [vectors.part for vectors in plan.vectors]
        default = old.manifest.default_encoder
        corpus = changes.corpus(documents, plan.base_url) or old.manifest.corpus
        manifest = publish(
            workspace,
            plan,
            documents,
            passages,
            links,
            parts=[DOCUMENTS, PASSAGES, LINKS, *[BM25] * plan.bm25, *dense],
            corpus=corpus if corpus.base_url == plan.base_url else corpus.replace(base_url=plan.base_url),
            text=old.manifest.text,
            default_encoder=stages.default_encoder([*([dense_part(default)] if default else []), *dense]),
            updates=(*old.updates, *([update] if update else [])),
        )
    return Built(manifest, stages.times, workspace.reused)


def open_whole(index: Path) -> OpenIndex:
    """Open an index that has no partitions. Raises `UsageError` if it has."""
    old = OpenIndex.open(index)
    old.check_undivided()
    return old


def _full_plan(plan: BuildPlan, old: OpenIndex) -> BuildPlan:
    """The plan with everything that an index decides for its updates."""
    ours = [
        Vectors(f"{DENSE}/{name}", part.encoder["location"], part.factory)
        for name, part in old.parts.dense.items()
    ]
    names = [vectors.part for vectors in ours]
    return BuildPlan(
        corpus=old.path,
        title=old.manifest.text.title,
        language=old.language,
        base_url=plan.base_url or old.manifest.corpus.base_url,
        bm25=old.has_lucene,
        encoders=[name for name in plan.encoders if dense_part(name) not in names],
        faiss=plan.faiss,
        processes=plan.processes,
        command=plan.command,
        reused=ours,
    )


class _Grown:
    """Words and vectors of the index in use for the passages that stay."""

    def __init__(
        self, plan: BuildPlan, fresh: PartSource, old: OpenIndex, passages: PassageStore, *, merge: bool
    ) -> None:
        """fresh: of vectors that the old index has not. passages: the new ones. merge: Lucene's segments."""
        self._plan = plan
        self._fresh = fresh
        self._old = old
        self._same, self._alike = same_passages(old.passages, passages)
        self._merge = merge

    def bm25_inputs(self, passages: PassagesPart) -> Inputs:
        """As of `PartSource`."""
        return self._fresh.bm25_inputs(passages) | ({"merged": True} if self._merge else {})

    def unchanged(self, part: str, passages: PassagesPart) -> Mapping[str, Any] | None:
        """The vectors of the same passages."""
        old = self._old.parts.get(part)
        same = passages.content_sha256 == self._old.parts.passages.content_sha256
        return old.fingerprint if old and same else None

    def lucene(self, folder: Path, passages: PassageStore, on_rows: OnRows) -> int:
        """Delete and add passages in a copy."""
        old = self._old
        for name in old.parts[BM25].files:
            if name != "write.lock":  # each index has its own
                link_or_copy(old.path / BM25 / name, folder / name)
        stays = np.zeros(len(old.passages), np.bool_)
        stays[self._same[self._same >= 0]] = True
        added = (passages[row] for row in np.flatnonzero(self._same < 0).tolist())
        on_rows(int(stays.sum()))
        return build_lucene(
            ((passage.id, passage.title, passage.text) for passage in added),
            folder,
            index_title=self._plan.title,
            threads=self._plan.processes or default_processes(),
            language=self._plan.language,
            on_rows=on_rows,
            removed=old.passages.ids(np.flatnonzero(~stays)),
            merge=self._merge,
        )

    def encode(self, work: Encoding, bar: Bar, share: Share = ALL) -> list[Shard]:
        """Encode passages that are new, and copy the vectors of the others."""
        part, encoder, folder = work.part, work.encoder, work.folder
        if part not in self._old.parts:
            return self._fresh.encode(work, bar, share)
        self._check_encoder(part, encoder)
        new, dimension = self._alike < 0, encoder.dimension
        rows = np.flatnonzero(new)
        added = folder / sha256(rows.tobytes()).hexdigest()[:16]  # shards of other rows are not resumed
        added.mkdir(exist_ok=True)
        with bar(work.label, len(rows), "passages") as advance:
            encoded = []
            if len(rows):
                on_start = work.on_start(advance)
                encoded = encode_passages(
                    encoder, work.store, added, only=rows, on_start=on_start, on_rows=advance
                )
        stored, fresh = self._stored(part), ShardRows(encoded, dimension)
        place = np.cumsum(new) - 1  # [P], the place of a new passage among these
        shards = []
        for number, start in enumerate(range(0, len(new), encoder.shard_rows)):
            block = slice(start, start + encoder.shard_rows)
            vectors = np.empty((len(new[block]), dimension), np.float16)
            vectors[new[block]] = fresh.take(place[block][new[block]])
            vectors[~new[block]] = stored(self._alike[block][~new[block]])
            shards.append(write_shard(folder, number, start, vectors))
        for leftover in folder.glob("*/"):
            shutil.rmtree(leftover)
        return shards

    def _check_encoder(self, part: str, encoder: Encoder) -> None:
        recorded = self._vectors_of(part).encoder
        now = {name: recorded.get(name) for name in encoder.identity}
        if value_sha256(now) != value_sha256(encoder.identity):
            raise MismatchError(
                f"{encoder.location}: another model than the one that made the vectors of {part}",
                "Put that model back, or build the index again with --fresh.",
            )

    def _vectors_of(self, part: str) -> VectorsPart:
        return self._old.parts.dense[part.removeprefix(f"{DENSE}/")]

    def _stored(self, part: str) -> Callable[[NDArray[np.int64]], NDArray[np.float16]]:
        """A function from rows of the index in use to their vectors."""
        old, manifest = self._old, self._vectors_of(part)
        if manifest.factory == FLAT:
            vectors = old.own_dense(part.removeprefix(f"{DENSE}/")).flat_vectors()
            return lambda rows: vectors[rows]
        shards = open_shards(old.path / part / VECTORS, len(old.passages))
        return ShardRows(shards, manifest.dimension).take


def same_passages(old: PassageStore, new: PassageStore) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows in `old` of the passages of `new`, int64 [P] twice: with the same id, title and text, or -1;
    with the same title and text, as of a page that was renamed, or -1."""
    before = np.concatenate([np.empty(0, np.uint64), *(hashes for _, hashes in _contents(old))])
    contents = IdTable.build(before)
    same, alike = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for ids, hashes in _contents(new):
        row = old.rows_of(ids)
        is_same = (row >= 0) & (before[row] == hashes)
        same.append(np.where(is_same, row, -1))
        alike.append(np.where(is_same, row, contents.rows(hashes)))
    return np.concatenate(same), np.concatenate(alike)


def _contents(passages: PassageStore) -> Iterator[tuple[list[str], NDArray[np.uint64]]]:
    """The ids of passages, and the hashes of their titles and texts, batch by batch."""
    for columns in passages.table.batches(["id", "title", "text"]):
        ids, titles, texts = (column.to_pylist() for column in columns)
        yield ids, hash_ids(f"{title}\0{text}" for title, text in zip(titles, texts, strict=True))
