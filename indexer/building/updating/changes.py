"""The documents of an index after an update: kept documents are linked or copied, added ones are read."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.building.corpora import kept_of, source_record, sources_of, spans
from linkseek.indexer.building.corpus import SEGMENT_RECORDS, hashes_of, write_ids
from linkseek.indexer.building.inputs import Inputs
from linkseek.indexer.building.skipped import Skipped
from linkseek.indexer.documents import DOCUMENT_SCHEMA, REDIRECT_SCHEMA
from linkseek.indexer.files.hashes import combined_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.artifacts import (
    DOCUMENTS,
    segment_path,
    segment_paths,
    value_sha256,
)
from linkseek.indexer.store.ids import hash_ids
from linkseek.indexer.store.manifests import Entries, SourceRecord
from linkseek.indexer.store.tables import Table, copy_segments

_NEW = "new"
_SCHEMAS = {"": DOCUMENT_SCHEMA, "redirects-": REDIRECT_SCHEMA}
"""Of the segments of the documents, by the prefix of their names."""


@dataclass(frozen=True)
class Changes:
    """The changes to an index: documents and redirects to add, and ids of some to remove.

    An added id that the index holds replaces its document or redirect. inputs: of the added documents, as of
    `inputs.documents_inputs`. source: the number of the corpus that they replace, whole. merge: join the
    files that earlier updates left.
    """

    added: Reader | None = None
    removed: Sequence[str] = ()
    merge: bool = False
    inputs: Inputs = field(default_factory=dict)
    source: int | None = None

    @property
    def documents(self) -> bool:
        """Whether any document changes."""
        return bool(self.added or self.removed)

    @property
    def request(self) -> str:
        """A hash of what is asked for: the ids, and the corpus as far as shown without reading it."""
        added = self.added and [self.added.name, str(self.added.path.resolve()), self.added.state()]
        chosen = [self.added.choices.to_json()] if self.added and self.added.choices.to_json() else []
        return value_sha256([self.removed, added, *chosen])


def change_documents(
    old: OpenIndex, changes: Changes, folder: Path, read: Callable[[Reader, Path], Entries], on_error: str
) -> Entries:
    """Fill `folder` with the documents and redirects of the final corpus; return the manifest's entries.

    read: writes the documents of a corpus into a folder. Files of which all rows stay are linked. Raises
    `InputError` for unknown ids to remove, unless `on_error` is "skip".
    """
    new = folder / _NEW
    added = Entries(documents=0, redirects=0, records=0, content_sha256="", skipped={})
    if changes.added:
        new.mkdir(exist_ok=True)
        added = read(changes.added, new)
    for leftover in folder.glob("*.arrow"):  # of an interrupted update
        leftover.unlink()
    removed = hash_ids(changes.removed)
    stored, sources = old.parts.documents, sources_of(old.parts.documents)
    kinds = [_Kind(old, new, prefix, sources, changes.source) for prefix in _SCHEMAS]
    documents, redirects = (kind.ids for kind in kinds)
    known = np.isin(removed, documents) | np.isin(removed, redirects)
    unknown = [id_ for id_, is_known in zip(changes.removed, known, strict=True) if not is_known]
    if unknown and on_error == "stop":
        raise InputError(
            f"{old.path}: holds no document {unknown[0]!r} (of {len(unknown):,} unknown ids)",
            "Check the ids, or use --on-error skip to skip unknown ids.",
        )
    later = np.concatenate([kind.ids[kind.end :] for kind in kinds])
    replaced = np.concatenate([kind.added for kind in kinds])
    replaced = replaced[~np.isin(replaced, later)]
    gone = np.concatenate([removed, replaced])
    kept = [kind.write(folder, gone, later, SEGMENT_RECORDS if changes.merge else 0) for kind in kinds]
    shutil.rmtree(new, ignore_errors=True)
    write_ids(folder)
    skipped = Skipped.from_records(stored.skipped)
    records = [
        source.replace(documents=count, redirects=others)
        for source, count, others in zip(sources, *(counts for counts, _ in kept), strict=True)
    ]
    read_again = 0
    if changes.added:
        count, others = (number for _, number in kept)
        record = source_record(
            changes.inputs,
            documents=count,
            redirects=others,
            records=added["records"],
            skipped=added["skipped"],
        )
        if changes.source is None:
            records.append(record)
        else:
            before, records[changes.source] = sources[changes.source], record
            skipped.take_out(Skipped.from_records(before.skipped))
            read_again = before.records
    skipped.join(Skipped.from_json(added["skipped"]))
    for id_ in unknown:
        skipped.add("unknown id to remove", id_)
    contents = [stored.content_sha256, value_sha256(changes.removed), added["content_sha256"]]
    return {
        "documents": len(_table(folder, "")),
        "redirects": len(_table(folder, "redirects-")),
        "records": stored.records + added["records"] - read_again,
        "content_sha256": combined_sha256(contents) if changes.documents else stored.content_sha256,
        "source_sha256": stored.source_sha256,
        "skipped": skipped.to_json(),
        "update": {
            "request": changes.request,
            "file": changes.added and changes.added.path.name,
            "sha256": added.get("source_sha256"),
            "added": added["documents"],
            "replaced": int(np.isin(documents, replaced).sum()),
            "removed": int(np.isin(documents, removed).sum()),
        },
        "sources": [record.to_json() for record in records],
    }


class _Kind:
    """The documents, or the redirects, of the old index and of the added corpus.

    ids, added: hashes of the old and the added ids, uint64. [start, end): the old rows that are all replaced
    by the added rows.
    """

    def __init__(
        self, old: OpenIndex, new: Path, prefix: str, sources: Sequence[SourceRecord], place: int | None
    ) -> None:
        self._prefix = prefix
        self._old, self._new = (segment_paths(path, prefix) for path in (old.path / DOCUMENTS, new))
        self.ids, self.added = (hashes_of(Table(paths, _SCHEMAS[prefix])) for paths in (self._old, self._new))
        self._counts = [source.redirects if prefix else source.documents for source in sources]
        self.start = self.end = len(self.ids)
        if place is not None:
            self.start, self.end = spans(self._counts)[place]

    def write(
        self, folder: Path, gone: NDArray[np.uint64], later: NDArray[np.uint64], joined: int
    ) -> tuple[list[int], int]:
        """Write the segments; how many rows each old corpus keeps, and how many are added.

        gone: the ids of old rows to remove; later: the ids in corpora after the replaced one, which win.
        """
        row, keep, new = np.arange(len(self.ids)), ~np.isin(self.ids, gone), ~np.isin(self.added, later)
        keep[self.start : self.end] = False
        schema, numbers = _SCHEMAS[self._prefix], itertools.count()

        def target(_: int) -> Path:
            return segment_path(folder, next(numbers), self._prefix)

        copy_segments(self._old, schema, keep & (row < self.start), target, joined)
        copy_segments(self._new, schema, new, target)
        copy_segments(self._old, schema, keep & (row >= self.end), target, joined)
        return kept_of(self._counts, keep), int(new.sum())


def _table(folder: Path, prefix: str) -> Table:
    return Table(segment_paths(folder, prefix), _SCHEMAS[prefix])
