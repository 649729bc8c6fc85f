"""linkseek partition: several indexes joined as the partitions of one, or one index split into partitions.

    INDEX/partitions/NNNNN/   an ordinary index each, which raw tools open
    INDEX/documents/          id_hashes.npy, id_rows.npy: ids to rows, counted on from partition to partition
    INDEX/passages/           offsets.npy
    INDEX/links/              the link graph of all documents, so that links lead across partitions

Searches ask all partitions and merge (`indexer.index`). The link graph is made from the documents of all
partitions, as in a single index. Splitting an index copies it once for each partition (by links, where the
file system has them) and updates each copy to its own range of documents: no vector is computed again.
"""

from __future__ import annotations

import itertools
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from linkseek.indexer.alike import check_alike, contents
from linkseek.indexer.building.builder import publish
from linkseek.indexer.building.corpus import hashes_of
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.skipped import Skipped
from linkseek.indexer.building.updating.changes import Changes
from linkseek.indexer.building.updating.growth import update_index
from linkseek.indexer.building.workspace import Workspace, link_tree
from linkseek.indexer.documents import DocumentStore, redirect_table
from linkseek.indexer.encoding.encode import Encoder, EncoderFacts
from linkseek.indexer.files.hashes import combined_sha256
from linkseek.indexer.index import OpenIndex, open_passages
from linkseek.indexer.links import build_links
from linkseek.indexer.machine.cluster import connected, worker_count, worker_pool
from linkseek.indexer.program.errors import BusyError, InputError, UsageError
from linkseek.indexer.program.options import Options, Positional, command_line, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.indexer.program.text import printable
from linkseek.indexer.store.artifacts import (
    DOCUMENTS,
    LINKS,
    PARTITIONS,
    PASSAGES,
    index_stamp,
    part_segments,
    partition_path,
    workspace_path,
)
from linkseek.indexer.store.ids import IdTable
from linkseek.indexer.store.manifests import (
    AllDocuments,
    CorpusRecord,
    Entries,
    IndexManifest,
    LinksPart,
    PassagesPart,
    VectorsPart,
)

PROGRAM = "linkseek partition"


class PartitionOptions(Options):
    """Join several indexes as the partitions of one, or split one into partitions.

    A search of the result asks all partitions: rankings of BM25 and of exact vectors are the same as in one
    index of all documents, and links lead across partitions. Each partition remains an ordinary index. On the
    same file system, files are hard-linked instead of copied.
    """

    indexes: Positional[list[Path]] = Field([])
    """the indexes to join, in order; or one to split"""
    index: Path | None = None
    """the folder of the index of partitions"""
    split: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """the number of partitions to split the index into, of about equal numbers of passages"""
    ray: str | None = None
    """split on a Ray cluster, with an actor for each partition: the address of the cluster, or local to start
    one here; the indexes must be on a file system that all machines share
    """


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(PartitionOptions, argv, PROGRAM)
    if options.index is None or not options.indexes or (options.split and len(options.indexes) > 1):
        raise UsageError(
            "--index or the indexes to join are missing, or there is more than one to split",
            f"For example: {PROGRAM} --index index/all index/part1 index/part2, or "
            f"{PROGRAM} --index index/four --split 4 index/wiki",
        )
    command = command_line(PROGRAM, argv)
    if options.split:
        with connected(options.ray):
            made = split_index(options.index, options.indexes[0], options.split, command)
    else:
        made = join_indexes(options.index, options.indexes, command)
    counts = made.manifest.counts
    print(
        f"{printable(str(options.index))}: {len(made.partitions)} partitions with {counts.documents:,} "
        f"documents, {counts.passages:,} passages and {counts.links:,} links"
    )


def join_indexes(index: Path, sources: Sequence[Path], command: str = "") -> OpenIndex:
    """Make `index` of the indexes in `sources`, or of their partitions, in this order.

    Raises `MismatchError` if they were made with different options or encoders, `InputError` for a document
    that two of them contain, `UsageError` if a file of the user is at the place of `index`.
    """
    folders = [folder for source in sources for folder in OpenIndex.open(source).folders]

    def fill(places: Sequence[Path]) -> None:
        for folder, place in zip(folders, places, strict=True):
            _link(folder, place, index_stamp(folder))

    return _make(index, len(folders), fill, command)


def split_index(index: Path, source: Path, count: int, command: str = "") -> OpenIndex:
    """Make `index` of `count` partitions, ranges of `source`'s documents with about equal numbers of
    passages.

    Raises `UsageError` if there are too few documents, and the errors of `update_index`.
    """
    stamp = index_stamp(source)
    whole = OpenIndex.open(source)
    whole.check_undivided()
    redirect_count = len(redirect_table([source]))
    shares = np.linspace(0, 1, count + 1)  # [n+1]
    offsets = np.asarray(whole.passages.offsets)  # [D+1]
    bounds = np.searchsorted(offsets, shares * offsets[-1])  # [n+1], of documents
    bounds[0], bounds[-1] = 0, len(offsets) - 1
    if (np.diff(offsets[bounds]) < 1).any():
        raise UsageError(
            f"--split {count}: {len(whole.documents):,} documents are too few", "Split into fewer partitions."
        )
    redirects = (shares * redirect_count).astype(np.int64)  # [n+1]

    kept = zip(*(itertools.pairwise(ends.tolist()) for ends in (bounds, redirects)), strict=True)
    take = partial(_take, source.resolve(), stamp)

    def fill(places: Sequence[Path]) -> None:
        workers = min(worker_count(1), count)
        if workers == 1:
            deque(map(take, kept, places), maxlen=0)
            return
        with worker_pool(workers, patience=None) as pool:  # a partition takes as long as it takes
            deque(pool.map(take, kept, places), maxlen=0)

    return _make(index, count, fill, command)


def _take(source: Path, stamp: tuple[int, int, int], kept: Sequence[tuple[int, int]], place: Path) -> None:
    """Make a partition of the index of this stamp; leftovers of an earlier attempt are removed.

    kept: [start, stop) of the rows of its documents, and of its redirects.
    """
    for leftover in (place, workspace_path(place)):
        shutil.rmtree(leftover, ignore_errors=True)
    _link(source, place, stamp)
    whole = OpenIndex.open(place)
    tables = (whole.documents.table, redirect_table([place]))
    removed = [
        id_
        for table, (start, stop) in zip(tables, kept, strict=True)
        for row, id_ in enumerate(table.column("id"))
        if not start <= row < stop
    ]
    if removed:
        update_index(place, Changes(removed=removed), BuildPlan(place), partial(_recorded, whole))


def _link(source: Path, place: Path, stamp: tuple[int, int, int]) -> None:
    """Link the index of this stamp to a place. Raises `BusyError` if another index has replaced it."""
    link_tree(source, place)
    if index_stamp(source) != stamp:
        raise BusyError(f"{source}: a new index has since replaced it", "Run the same command again.")


def _recorded(whole: OpenIndex, location: str, title: bool) -> Encoder:
    """The encoder of an index's vectors as their manifest describes it: none of them is missing."""
    part = whole.parts.made_by(location)
    assert part
    encoder, dimension = part.encoder, part.dimension if isinstance(part, VectorsPart) else 0
    made_by = (part.fingerprint["encoder"], encoder["location"], part.execution)
    return EncoderFacts(*made_by, dimension, token_budget=0, shard_rows=1 << 16)


def _make(index: Path, count: int, fill: Callable[[Sequence[Path]], None], command: str) -> OpenIndex:
    """Make an index of `count` partitions, which `fill` puts in their places."""
    with Workspace(index.resolve(), fresh=True) as workspace:
        names = list(map(partition_path, range(count)))
        places = [workspace.folder / name for name in names]
        places[0].parent.mkdir()
        fill(places)
        partitions = [OpenIndex.open(place) for place in places]
        check_alike(index, partitions)
        publish(
            workspace,
            command,
            _global_parts(workspace, partitions),
            parts=[DOCUMENTS, PASSAGES, LINKS],
            corpus=_corpus(partitions),
            text=partitions[0].manifest.text,
            default_encoder=partitions[0].manifest.default_encoder,
            partitions=tuple(names),
        )
    return OpenIndex.open(index)


def _global_parts(
    workspace: Workspace, partitions: Sequence[OpenIndex]
) -> tuple[AllDocuments, PassagesPart, LinksPart]:
    """The manifests of documents, passages and links of the index over all partitions."""
    folders = [partition.path for partition in partitions]
    documents = DocumentStore(part_segments(folders, DOCUMENTS))
    redirects = redirect_table(folders)
    fingerprint = {PARTITIONS: contents(partitions), DOCUMENTS: contents(partitions, DOCUMENTS)}
    words = partitions[0].parts.passages.words

    def write_ids(folder: Path) -> Entries:
        hashes = hashes_of(documents.table)
        ids = IdTable.build(hashes)
        if len(ids.hashes) < len(hashes):
            twice = np.setdiff1d(np.arange(len(hashes)), ids.rows(ids.hashes))[0]
            problem = f"the document {documents.table.value('id', int(twice))!r} is in two partitions"
            raise InputError(problem, "Remove it from one: linkseek update --index DIR --remove ID")
        ids.save(folder)
        return {"documents": len(documents), "redirects": len(redirects), "skipped": _skipped(partitions)}

    def write_offsets(folder: Path) -> Entries:
        sizes = [np.diff(partition.passages.offsets) for partition in partitions]
        offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))  # [D+1]
        np.save(folder / "offsets.npy", offsets)
        content = combined_sha256(list(fingerprint[PARTITIONS]))
        return {"passages": int(offsets[-1]), "words": words, "content_sha256": content}

    def write_links(folder: Path) -> Entries:
        ids = IdTable.open(workspace.folder / DOCUMENTS)
        passages = open_passages(workspace.folder, ids, words, folders)
        with progress("resolving links", len(documents), "documents") as advance:
            return build_links(folder, documents, redirects, ids, passages, advance)

    return (
        workspace.part(AllDocuments, DOCUMENTS, fingerprint, write_ids),
        workspace.part(PassagesPart, PASSAGES, fingerprint, write_offsets),
        workspace.part(LinksPart, LINKS, fingerprint, write_links),
    )


def _of_corpora(partitions: Sequence[OpenIndex]) -> list[IndexManifest]:
    """A manifest for each corpus: the partitions of a split index all have the same.

    A corpus without a hash, because only its first documents were read, is identified by its whole record.
    """
    corpora = {
        corpus.sha256 or corpus.model_dump_json(): manifest
        for manifest, corpus in ((p.manifest, p.manifest.corpus) for p in partitions)
    }
    return list(corpora.values())


def _corpus(partitions: Sequence[OpenIndex]) -> CorpusRecord:
    corpora = [manifest.corpus for manifest in _of_corpora(partitions)]
    if len(corpora) == 1:
        return corpora[0]
    return CorpusRecord(
        file=", ".join(corpus.file for corpus in corpora),
        format=", ".join(sorted({corpus.format for corpus in corpora})),
        bytes=sum(corpus.bytes for corpus in corpora),
        sha256=combined_sha256([str(corpus.sha256) for corpus in corpora]),
    )


def _skipped(partitions: Sequence[OpenIndex]) -> Entries:
    total = Skipped()
    for manifest in _of_corpora(partitions):
        total.join(Skipped.from_records(manifest.skipped))
    return total.to_json()
