"""The documents of an index after an update: what stays is linked or copied, what is added is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.building.corpus import SEGMENT_RECORDS, Skipped, hashes_of, write_ids
from linkseek.indexer.documents import DOCUMENT_SCHEMA, REDIRECT_SCHEMA
from linkseek.indexer.files.hashes import combined_sha256
from linkseek.indexer.index import Index
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.artifacts import (
    DOCUMENTS,
    link_or_copy,
    segment_path,
    segment_paths,
    value_sha256,
)
from linkseek.indexer.store.ids import hash_ids
from linkseek.indexer.store.manifests import Entries
from linkseek.indexer.store.tables import Table, copy_segments

_NEW = "new"
_SCHEMAS = {"": DOCUMENT_SCHEMA, "redirects-": REDIRECT_SCHEMA}
"""Of the segments of the documents, by the prefix of their names."""


@dataclass(frozen=True)
class Changes:
    """The changes to an index: documents and redirects to add, and ids of some to remove.

    An added id that the index holds replaces its document or redirect. merge: join the files that earlier
    updates left.
    """

    added: Reader | None = None
    removed: Sequence[str] = ()
    merge: bool = False

    @property
    def documents(self) -> bool:
        """Whether any document changes."""
        return bool(self.added or self.removed)

    @property
    def request(self) -> str:
        """A hash of what is asked for: the ids, and the corpus as far as shown without reading it."""
        added = self.added and [self.added.name, str(self.added.path.resolve()), self.added.state()]
        return value_sha256([self.removed, added])


def change_documents(
    old: Index, changes: Changes, folder: Path, read: Callable[[Reader, Path], Entries], on_error: str
) -> Entries:
    """Fill `folder` with the documents and redirects of the final corpus; return the manifest's entries.

    read: writes the documents of a corpus into a folder. Files of which all rows stay are linked. Raises
    `InputError` for unknown ids to remove, unless `on_error` is "skip".
    """
    new = folder / _NEW
    added = Entries(documents=0, records=0, content_sha256="", skipped={})
    if changes.added:
        new.mkdir(exist_ok=True)
        added = read(changes.added, new)
    for leftover in folder.glob("*.arrow"):  # of an interrupted update
        leftover.unlink()
    removed = hash_ids(changes.removed)
    replaced = np.concatenate([hashes_of(_table(new, prefix)) for prefix in _SCHEMAS])
    documents, redirects = (hashes_of(_table(old.path / DOCUMENTS, prefix)) for prefix in _SCHEMAS)
    known = np.isin(removed, documents) | np.isin(removed, redirects)
    unknown = [id_ for id_, is_known in zip(changes.removed, known, strict=True) if not is_known]
    if unknown and on_error == "stop":
        raise InputError(
            f"{old.path}: holds no document {unknown[0]!r} (of {len(unknown):,} unknown ids)",
            "Check the ids, or use --on-error skip to skip unknown ids.",
        )
    gone = np.concatenate([removed, replaced])
    joined = SEGMENT_RECORDS if changes.merge else 0
    for prefix, ids in ("", documents), ("redirects-", redirects):
        paths, target = segment_paths(old.path / DOCUMENTS, prefix), partial(_segment, folder, prefix)
        count = copy_segments(paths, _SCHEMAS[prefix], ~np.isin(ids, gone), target, joined)
        for number, path in enumerate(segment_paths(new, prefix), count):
            link_or_copy(path, target(number))
    shutil.rmtree(new, ignore_errors=True)
    write_ids(folder)
    stored = old.parts.documents
    skipped = Skipped.from_records(stored.skipped)
    skipped.join(Skipped.from_json(added["skipped"]))
    for id_ in unknown:
        skipped.add("unknown id to remove", id_)
    contents = [stored.content_sha256, value_sha256(changes.removed), added["content_sha256"]]
    return {
        "documents": len(_table(folder, "")),
        "redirects": len(_table(folder, "redirects-")),
        "records": stored.records + added["records"],
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
    }


def _segment(folder: Path, prefix: str, number: int) -> Path:
    return segment_path(folder, number, prefix)


def _table(folder: Path, prefix: str) -> Table:
    return Table(segment_paths(folder, prefix), _SCHEMAS[prefix])
