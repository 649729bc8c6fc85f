"""Keeping an index in step with a corpus: the corpus is read again, and the index becomes the same as a new
build.

All pages are parsed again, since a page that comes, goes or moves can change where the links of others lead;
that is linear, and little next to the rest. What has not changed is neither encoded nor indexed again
(`building.growth`). An index of one corpus then has the same documents, byte for byte, and the same
fingerprints as a build. In an index of several corpora, the documents of the others stay, and win where they
came later. Documents of both readings are compared by 64-bit hashes, 32 bytes for each, so a whole Wikipedia
fits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.building.builder import check_apart, corpus_record
from linkseek.indexer.building.corpora import choices_of, mirrored_readings, path_of, rows_of, sources_of
from linkseek.indexer.building.plan import BuildPlan, Built, OpenEncoder, documents_inputs
from linkseek.indexer.building.stages import Stages
from linkseek.indexer.building.updating.changes import Changes, Read
from linkseek.indexer.building.updating.growth import change_index, open_whole
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.documents import DOCUMENT_SCHEMA, REDIRECT_SCHEMA
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.indexer.program.text import printable
from linkseek.indexer.readers.choices import ReadingOptions
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.artifacts import DOCUMENTS, segment_paths, value_sha256, workspace_path
from linkseek.indexer.store.ids import IdTable, hash_id, hash_ids
from linkseek.indexer.store.manifests import CorpusRecord, DocumentsPart, Entries, SourceRecord, UpdateRecord
from linkseek.indexer.store.tables import Row, Table


@dataclass(frozen=True)
class CorpusComparison:
    """The ids of documents by their change, in the order of their corpus.

    links: whose links lead elsewhere, as where the target was renamed, and nothing else changed. renamed:
    (old id, new id) of documents with the same text. redirects: how many redirects differ.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    redirects: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The number of documents in each list."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value if isinstance(value, int) else len(value) for name, value in values.items()}

    @property
    def is_empty(self) -> bool:
        """Whether nothing has changed."""
        return not any(count for name, count in self.counts.items() if name != "unchanged")

    def to_json(self) -> dict[str, Any]:
        """The counts and all names, for --json."""
        return {
            "counts": self.counts,
            "added": self.added,
            "changed": self.changed,
            "links": self.links,
            "renamed": [{"from": old, "to": new} for old, new in self.renamed],
            "removed": self.removed,
        }


class ReadDocuments(NamedTuple):
    """Documents and redirects of one corpus: tables, and the rows of each, int64 ascending."""

    documents: Table
    rows: NDArray[np.int64]
    redirects: Table
    redirect_rows: NDArray[np.int64]

    def id(self, row: int) -> str:
        """The id of one of the documents."""
        name: str = self.documents.value("id", int(self.rows[row]))
        return name

    def names(self) -> list[str]:
        """The ids of all documents and redirects."""
        pairs = ((self.documents, self.rows), (self.redirects, self.redirect_rows))
        return [table.value("id", row) for table, rows in pairs for row in rows.tolist()]

    def ids(self, mask: NDArray[np.bool_]) -> tuple[str, ...]:
        """The ids of the documents of a mask, bool [D]."""
        return tuple(map(self.id, np.flatnonzero(mask).tolist()))


def compare(old: ReadDocuments, new: ReadDocuments) -> CorpusComparison:
    """Compare new documents with old ones."""
    before, after = _hashes(old), _hashes(new)
    was = IdTable.build(before[_ID]).rows(after[_ID])  # [new], the row of each in the old documents, or -1
    stays = was >= 0
    equal = np.zeros_like(after, np.bool_)
    equal[:, stays] = before[:, was[stays]] == after[:, stays]
    same, same_targets = equal[_CONTENT], equal[_TARGETS]
    gone = np.ones(before.shape[1], np.bool_)
    gone[was[stays]] = False
    renamed = _renamed(before[_TEXT], after[_TEXT], np.flatnonzero(gone), np.flatnonzero(~stays))
    gone[list(renamed.values())] = False
    is_added = ~stays
    is_added[list(renamed)] = False
    return CorpusComparison(
        added=new.ids(is_added),
        changed=new.ids(stays & ~same),
        links=new.ids(same & ~same_targets),
        renamed=tuple((old.id(renamed[row]), new.id(row)) for row in sorted(renamed)),
        removed=old.ids(gone),
        unchanged=int((same & same_targets).sum()),
        redirects=len(_redirects(old) ^ _redirects(new)),
    )


def _renamed(
    before: NDArray[np.uint64], after: NDArray[np.uint64], gone: NDArray[np.int64], added: NDArray[np.int64]
) -> dict[int, int]:
    """New rows to old rows of documents with the same text, each used once, in the order of both."""
    places: dict[int, list[int]] = {}
    for row in gone[::-1].tolist():
        places.setdefault(int(before[row]), []).append(row)
    places.pop(_NO_TEXT, None)
    texts = ((row, int(after[row])) for row in added.tolist())
    return {row: places[text].pop() for row, text in texts if places.get(text)}


_NO_TEXT = hash_id("")


_ID, _TEXT, _CONTENT, _TARGETS = range(4)
"""The parts of a document that are hashed: its id, its text, all but the targets of its links, and these
targets.
"""


def _hashes(documents: ReadDocuments) -> NDArray[np.uint64]:
    """The hashes of documents, uint64 [4, D]."""
    rows = list(map(_hashed, documents.documents.chosen(documents.rows)))
    return np.array(rows, np.uint64).reshape(-1, 4).T


def _hashed(row: Row) -> NDArray[np.uint64]:
    links = [(link["start"], link["end"]) for link in row["links"]]
    content = [links if name == "links" else value for name, value in row.items()]
    targets = [link["target"] for link in row["links"]]
    return hash_ids([row["id"], row["text"].strip(), repr(content), repr(targets)])


def _redirects(documents: ReadDocuments) -> set[int]:
    rows = documents.redirects.chosen(documents.redirect_rows)
    return {hash_id(f"{row['id']}\0{row['target']}") for row in rows}


OnCompared = Callable[[CorpusComparison], None]


@dataclass(frozen=True)
class Mirror:
    """A folder or file to mirror, and the options that have changed since it was last read.

    max_removed: the largest percentage of documents that may be missing.
    """

    path: Path
    options: ReadingOptions
    format: str | None = None
    max_removed: int = 50

    def changes_to(self, old: OpenIndex, on_compared: OnCompared = lambda changes: None) -> Mirrored:
        """The changes to an index, of which nothing is read yet; `on_compared` gets them when it is.

        Raises `InputError` for a path that is not there, and the errors of `mirrored_readings`.
        """
        if not self.path.exists():
            problem = f"--mirror {self.path}: does not exist, so nothing was changed"
            raise InputError(problem, "Check the path, and whether its file system is mounted.")
        sources = sources_of(old.parts.documents)
        numbers = mirrored_readings(sources, self.path)
        source = sources[numbers[-1]]
        choices = self.options.choices_over(choices_of(source))
        reader = open_reader(self.path, self.format or source.inputs["format"], choices)
        check_apart(self.path.resolve(), old.path)
        earlier = _documents_of(old.path / DOCUMENTS, sources, numbers[:-1])
        return Mirrored(
            reader,
            earlier.names(),
            source=numbers[-1],
            on_error=choices.on_error,
            old=old,
            sources=sources,
            numbers=numbers,
            max_removed=self.max_removed,
            on_compared=on_compared,
        )


@dataclass(frozen=True, kw_only=True)
class Mirrored(Changes):
    """A corpus of an index as it is read now.

    numbers: of its readings among the sources of the index: of the build, and of each update that added it
    again; the last is replaced, and the rest of earlier ones is removed.
    """

    old: OpenIndex
    sources: Sequence[SourceRecord]
    numbers: Sequence[int]
    max_removed: int
    on_compared: OnCompared

    @property
    def alone(self) -> bool:
        """Whether it is the only corpus of the index, which becomes the same as a new build."""
        return len(self.sources) == 1

    @property
    def before(self) -> SourceRecord:
        """The corpus as it was read last."""
        return self.sources[self.numbers[-1]]

    @property
    def reader(self) -> Reader:
        """The reader of the corpus."""
        assert self.added
        return self.added

    @property
    def is_in_step(self) -> bool:
        """Whether no file has changed since the last reading, by their sizes and times."""
        return value_sha256(documents_inputs(self.reader)) == value_sha256(self.before.inputs)

    def inputs(self, old: OpenIndex) -> Mapping[str, Any]:
        """As of `Changes`."""
        return documents_inputs(self.reader) if self.alone else super().inputs(old)

    def write(self, old: OpenIndex, read: Read, folder: Path) -> Entries:
        """As of `Changes`."""
        return read(self.reader, folder) if self.alone else super().write(old, read, folder)

    def corpus(self, documents: DocumentsPart, base_url: str) -> CorpusRecord | None:
        """As of `Changes`."""
        return corpus_record(self.reader, documents, base_url) if self.alone else None

    def compare(self, documents: DocumentsPart, folder: Path) -> CorpusComparison:
        """The changes in the documents of the new index."""
        before = _documents_of(self.old.path / DOCUMENTS, self.sources, self.numbers)
        return compare(before, _documents_of(folder, sources_of(documents), self.numbers))

    def update(self, documents: DocumentsPart, folder: Path) -> UpdateRecord:
        """As of `Changes`. Raises `UsageError` if too many documents are missing."""
        comparison = self.compare(documents, folder)
        removed = len(comparison.removed)
        count = sum(self.sources[number].documents for number in self.numbers)
        if 100 * removed > self.max_removed * count:
            raise UsageError(
                f"--mirror {self.reader.path}: {removed:,} of {count:,} documents are no longer there, "
                f"such as {comparison.removed[0]!r}; nothing was changed",
                f"To allow it: --max-removed {-(-100 * removed // count)}.",
            )
        self.on_compared(comparison)
        return UpdateRecord(
            request=self.request,
            file=self.reader.path.name,
            sha256=documents.source_sha256 if self.alone else None,
            added=len(comparison.added) + len(comparison.renamed),
            replaced=len(comparison.changed) + len(comparison.links),
            removed=removed + len(comparison.renamed),
            **({"rebuilt": True} if self.alone else {}),
        )


def _documents_of(folder: Path, sources: Sequence[SourceRecord], numbers: Sequence[int]) -> ReadDocuments:
    """The documents and redirects of one corpus. numbers: of its readings."""
    return ReadDocuments(
        Table(segment_paths(folder), DOCUMENT_SCHEMA),
        rows_of([source.documents for source in sources], numbers),
        Table(segment_paths(folder, "redirects-"), REDIRECT_SCHEMA),
        rows_of([source.redirects for source in sources], numbers),
    )


def preview(index: Path, mirror: Mirror, plan: BuildPlan) -> CorpusComparison | None:
    """The changes of a mirror; None if no file has changed. Nothing but a temporary folder is written.

    Raises the errors of `mirror_index`, but for too many documents that vanish.
    """
    old = open_whole(index)
    changes = mirror.changes_to(old)
    if changes.is_in_step:
        return None
    with tempfile.TemporaryDirectory(prefix="linkseek-") as name:
        stages = Stages(Workspace(index.resolve(), sample=Path(name)), plan)
        documents = stages.documents(changes.inputs(old), partial(changes.write, old, stages.read))
        return changes.compare(documents, Path(name) / DOCUMENTS)


def mirror_index(
    index: Path, mirror: Mirror, plan: BuildPlan, open_encoder: OpenEncoder
) -> tuple[CorpusComparison | None, Built | None]:
    """Read a corpus of an index again, and replace the index by one that follows it; returns the changes.

    Both are None if no file has changed. plan: as of `update_index`. Raises its errors, and `UsageError` for
    a corpus that the index does not know, or one that has lost too many documents. After any error the index
    is as it was.
    """
    if not plan.encoders and not workspace_path(index.resolve()).exists():
        old = open_whole(index)
        same_address = plan.base_url in ("", old.manifest.corpus.base_url)
        if same_address and mirror.changes_to(old).is_in_step:
            return None, None
    compared: list[CorpusComparison] = []

    def changes_to(old: OpenIndex) -> Changes:
        changes = mirror.changes_to(old, compared.append)
        if str(mirror.path.resolve()) != path_of(changes.before):
            log_line(f"{mirror.path}: read in the place of {printable(path_of(changes.before))}")
        return changes

    built = change_index(index, changes_to, plan, open_encoder)
    return compared[0], built
