"""The documents of an index after an update: kept documents are linked or copied, added ones are read."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.building.corpora import kept_of, sources_of, spans
from linkseek.indexer.building.corpus import SEGMENT_RECORDS, hashes_of, write_ids
from linkseek.indexer.building.plan import Inputs, documents_inputs
from linkseek.indexer.building.skipped import Skipped
from linkseek.indexer.documents import DOCUMENT_SCHEMA, REDIRECT_SCHEMA
from linkseek.indexer.files.hashes import combined_sha256
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.artifacts import DOCUMENTS, segment_path, segment_paths, value_sha256
from linkseek.indexer.store.ids import hash_ids
from linkseek.indexer.store.manifests import CorpusRecord, DocumentsPart, Entries, SourceRecord, UpdateRecord
from linkseek.indexer.store.tables import Table, copy_segments

Read = Callable[[Reader, Path], Entries]
"""Writes the documents of a corpus into a folder; the entries of their manifest."""

_NEW = "new"
_SCHEMAS = {"": DOCUMENT_SCHEMA, "redirects-": REDIRECT_SCHEMA}
"""The schemas of the document segments, by the prefix of their names."""


@dataclass(frozen=True)
class Changes:
    """The changes to an index: documents and redirects to add, and ids of some to remove.

    An added id that the index contains replaces its document or redirect. source: the number of the corpus
    that the added one replaces, whole. merge: join the files that earlier updates left. on_error: what to do
    with an unknown id to remove.
    """

    added: Reader | None = None
    removed: Sequence[str] = ()
    merge: bool = False
    source: int | None = None
    on_error: str = "stop"

    @property
    def documents(self) -> bool:
        """Whether any document changes."""
        return bool(self.added or self.removed)

    @property
    def request(self) -> str:
        """A hash of the request: the ids, and facts about the corpus that are known before reading it."""
        added = self.added and [self.added.name, str(self.added.path.resolve()), self.added.state()]
        chosen = [self.added.choices.to_json()] if self.added and self.added.choices.to_json() else []
        return value_sha256([self.removed, added, *chosen])

    def inputs(self, old: OpenIndex) -> Mapping[str, Any]:
        """The fingerprint of the documents of the changed index."""
        if not self.documents and not self.merge:
            return old.parts.documents.fingerprint
        updated = old.parts.documents.content_sha256
        how = {"request": self.request, "on_error": self.on_error, "merge": self.merge}
        return {"linkseek": version("linkseek"), "updated": updated, **how}

    def write(self, old: OpenIndex, read: Read, folder: Path) -> Entries:
        """Fill `folder` with the documents and redirects of the final corpus; return the manifest's entries.

        read: writes the documents of a corpus into a folder. Files whose rows all stay are linked. Raises
        `InputError` for unknown ids to remove, unless `on_error` is "skip".
        """
        new, inputs = folder / _NEW, documents_inputs(self.added) if self.added else {}
        added = Entries(documents=0, redirects=0, records=0, content_sha256="", skipped={})
        if self.added:
            new.mkdir(exist_ok=True)
            added = read(self.added, new)
        for leftover in folder.glob("*.arrow"):  # of an interrupted update
            leftover.unlink()
        stored, sources = old.parts.documents, sources_of(old.parts.documents)
        tables = [_Rows(old, new, prefix, sources, self.source) for prefix in _SCHEMAS]
        removed = hash_ids(self.removed)
        unknown = self._unknown(removed, tables, old.path)
        # A document of a corpus after the replaced one wins; else the added one replaces that of its id.
        later = np.concatenate([table.later for table in tables])
        replaced = np.setdiff1d(np.concatenate([table.added for table in tables]), later)
        gone, joined = np.union1d(removed, replaced), SEGMENT_RECORDS if self.merge else 0
        counts = [table.write(folder, gone, later, joined) for table in tables]
        shutil.rmtree(new, ignore_errors=True)
        write_ids(folder)
        skipped = Skipped.from_records(stored.skipped)
        records = stored.records + added["records"]
        if self.source is not None:
            skipped.take_out(Skipped.from_records(sources[self.source].skipped))
            records -= sources[self.source].records
        skipped.join(Skipped.from_json(added["skipped"]))
        for id_ in unknown:
            skipped.add("unknown id to remove", id_)
        contents = [stored.content_sha256, value_sha256(self.removed), added["content_sha256"]]
        return {
            "documents": sum(counts[0]),
            "redirects": sum(counts[1]),
            "records": records,
            "content_sha256": combined_sha256(contents) if self.documents else stored.content_sha256,
            "source_sha256": stored.source_sha256,
            "skipped": skipped.to_json(),
            "update": {
                "request": self.request,
                "file": self.added and self.added.path.name,
                "sha256": added.get("source_sha256"),
                "added": added["documents"],
                "replaced": int(np.isin(tables[0].ids, replaced).sum()),
                "removed": int(np.isin(tables[0].ids, removed).sum()),
            },
            "sources": [source.to_json() for source in self._sources(sources, counts, inputs, added)],
        }

    def _unknown(self, removed: NDArray[np.uint64], tables: Sequence[_Rows], path: Path) -> list[str]:
        """The ids to remove that the index does not contain."""
        known = np.isin(removed, np.concatenate([table.ids for table in tables]))
        unknown = [id_ for id_, is_known in zip(self.removed, known, strict=True) if not is_known]
        if unknown and self.on_error == "stop":
            raise InputError(
                f"{path}: contains no document {unknown[0]!r} (of {len(unknown):,} unknown ids)",
                "Check the ids, or use --on-error skip to skip unknown ids.",
            )
        return unknown

    def _sources(
        self, sources: Sequence[SourceRecord], counts: Sequence[list[int]], inputs: Inputs, added: Entries
    ) -> list[SourceRecord]:
        """The records of all corpora. counts: documents and redirects of each, the added one last.

        inputs: of the added one, from before it was read.
        """
        changed = [
            source.replace(documents=documents, redirects=redirects)
            for source, documents, redirects in zip(sources, *counts, strict=False)
        ]
        if self.added:
            place = len(changed) if self.source is None else self.source
            own = {name: added[name] for name in ("records", "skipped")}
            own |= {"documents": counts[0][-1], "redirects": counts[1][-1]}
            changed[place : place + 1] = [SourceRecord(inputs=inputs, **own)]
        return changed

    def update(self, documents: DocumentsPart, folder: Path) -> UpdateRecord | None:
        """The record of the update in the manifest of the index, given its documents."""
        return documents.update if self.documents else None

    def corpus(self, documents: DocumentsPart, base_url: str) -> CorpusRecord | None:
        """The new record of the index's corpus, if it has changed."""
        return None


class _Rows:
    """The documents, or the redirects, of the old index and of the added corpus.

    ids, added: hashes of the old and the added ids, uint64. later: the ids in corpora after the one that is
    replaced.
    """

    def __init__(
        self, old: OpenIndex, new: Path, prefix: str, sources: Sequence[SourceRecord], place: int | None
    ) -> None:
        self._prefix = prefix
        self._old, self._new = (segment_paths(path, prefix) for path in (old.path / DOCUMENTS, new))
        self.ids, self.added = (hashes_of(Table(paths, _SCHEMAS[prefix])) for paths in (self._old, self._new))
        self._counts = [source.redirects if prefix else source.documents for source in sources]
        size = len(self.ids)
        self._start, self._end = (size, size) if place is None else spans(self._counts)[place]
        self.later = self.ids[self._end :]

    def write(
        self, folder: Path, gone: NDArray[np.uint64], later: NDArray[np.uint64], joined: int
    ) -> list[int]:
        """Write the segments; how many rows each old corpus keeps, and last how many are added.

        gone: the ids of old rows to remove; later: the ids whose added rows are not written.
        """
        row, keep, new = np.arange(len(self.ids)), ~np.isin(self.ids, gone), ~np.isin(self.added, later)
        keep[self._start : self._end] = False
        schema, numbers = _SCHEMAS[self._prefix], itertools.count()

        def target(_: int) -> Path:
            return segment_path(folder, next(numbers), self._prefix)

        copy_segments(self._old, schema, keep & (row < self._start), target, joined)
        copy_segments(self._new, schema, new, target)
        copy_segments(self._old, schema, keep & (row >= self._end), target, joined)
        return [*kept_of(self._counts, keep), int(new.sum())]
