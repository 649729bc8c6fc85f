"""Keeping an index in step with a corpus: the corpus is read again, and the index becomes as if built anew.

All pages are parsed again, since a page that comes, goes or moves can change where the links of others lead;
that is linear, and little next to the rest. What has not changed is neither encoded nor indexed again
(`building.growth`). An index of one corpus then has the same documents, byte for byte, and the same
fingerprints as a build. In an index of several corpora, the documents of the others stay, and win where they
came later.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from linkseek.indexer.building.builder import check_apart, corpus_record
from linkseek.indexer.building.corpora import choices_of, mirrored_readings, path_of, rows_of, sources_of
from linkseek.indexer.building.inputs import Inputs, documents_inputs
from linkseek.indexer.building.plan import BuildPlan, Built, OpenEncoder
from linkseek.indexer.building.stages import Stages
from linkseek.indexer.building.updating.changes import Changes, change_documents
from linkseek.indexer.building.updating.comparison import CorpusComparison, ReadDocuments, compare
from linkseek.indexer.building.updating.growth import changed_inputs, full_plan, grow, verify_old
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.documents import DOCUMENT_SCHEMA, REDIRECT_SCHEMA
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.log import log_line
from linkseek.indexer.program.text import printable
from linkseek.indexer.readers.choices import ReadingOptions
from linkseek.indexer.readers.formats import open_reader
from linkseek.indexer.store.artifacts import DOCUMENTS, segment_paths, value_sha256, workspace_path
from linkseek.indexer.store.manifests import Entries, SourceRecord, UpdateRecord
from linkseek.indexer.store.tables import Table


@dataclass(frozen=True)
class Mirror:
    """A folder or file to mirror, and the options that have changed since it was last read.

    max_removed: the largest percentage of documents that may be missing. on_error: None keeps the earlier.
    """

    path: Path
    options: ReadingOptions
    format: str | None = None
    on_error: str | None = None
    max_removed: int = 50


class _Reading:
    """A corpus of an index as it is read now, with the options of before.

    numbers: of its readings: of the build, and of each update that added it again; the last is replaced,
    and what earlier ones have left is removed. alone: it is the only corpus of the index.
    """

    def __init__(self, old: OpenIndex, mirror: Mirror, plan: BuildPlan) -> None:
        """Raises `InputError` for a path that is not there, and the errors of `mirrored_readings`."""
        if not mirror.path.exists():
            problem = f"--mirror {mirror.path}: not there, so nothing was changed"
            raise InputError(problem, "Check the path, and whether its file system is mounted.")
        self._old = old
        self.sources = sources_of(old.parts.documents)
        self.numbers = mirrored_readings(self.sources, mirror.path)
        self.alone = len(self.sources) == 1
        inputs = self.source.inputs
        choices = mirror.options.choices_over(choices_of(self.source))
        self.reader = open_reader(mirror.path, mirror.format or inputs["format"], choices)
        check_apart(mirror.path.resolve(), old.path)
        self.plan = replace(
            full_plan(plan, old),
            corpus=mirror.path,
            limit=inputs["limit"],
            on_error=mirror.on_error or inputs["on_error"],
            min_title=inputs.get("min_title", 0),
        )

    @property
    def source(self) -> SourceRecord:
        """The corpus as it was read last."""
        return self.sources[self.numbers[-1]]

    @property
    def count(self) -> int:
        """Its documents in the index."""
        return sum(self.sources[number].documents for number in self.numbers)

    @property
    def inputs(self) -> Inputs:
        """The fingerprint of its documents."""
        return documents_inputs(self.plan, self.reader)

    @property
    def is_in_step(self) -> bool:
        """Whether no file has changed since the last reading, by their sizes and times."""
        return value_sha256(self.inputs) == value_sha256(self.source.inputs)

    @property
    def changes(self) -> Changes:
        """The update of an index of several corpora."""
        earlier = _documents_of(self._old.path / DOCUMENTS, self.sources, self.numbers[:-1])
        return Changes(self.reader, earlier.names(), inputs=self.inputs, source=self.numbers[-1])

    def fill(self, stages: Stages, folder: Path) -> Entries:
        """Write the documents of the new index."""
        if self.alone:
            return stages.read(self.reader, folder)
        return change_documents(self._old, self.changes, folder, stages.read, self.plan.on_error)

    def compare(self, folder: Path, sources: Sequence[SourceRecord] | None = None) -> CorpusComparison:
        """The changes in a folder's documents. sources: of the new index, if there are several."""
        before = _documents_of(self._old.path / DOCUMENTS, self.sources, self.numbers)
        return compare(before, _documents_of(folder, sources or (), self.numbers))


def _documents_of(folder: Path, sources: Sequence[SourceRecord], numbers: Sequence[int]) -> ReadDocuments:
    """The documents and redirects of one corpus; all, without a record. numbers: of its readings."""
    documents = Table(segment_paths(folder), DOCUMENT_SCHEMA)
    redirects = Table(segment_paths(folder, "redirects-"), REDIRECT_SCHEMA)
    if not sources:
        return ReadDocuments(documents, np.arange(len(documents)), redirects, np.arange(len(redirects)))
    rows = rows_of([source.documents for source in sources], numbers)
    return ReadDocuments(
        documents, rows, redirects, rows_of([source.redirects for source in sources], numbers)
    )


def preview(index: Path, mirror: Mirror, plan: BuildPlan) -> CorpusComparison | None:
    """The changes of a mirror; None if no file has changed. Nothing but a temporary folder is written.

    Raises the errors of `mirror_index`, but for too many documents that vanish.
    """
    old = _open(index)
    reading = _Reading(old, mirror, plan)
    if reading.is_in_step:
        return None
    with tempfile.TemporaryDirectory(prefix="linkseek-") as name:
        folder = Path(name) / DOCUMENTS
        folder.mkdir()
        entries = reading.fill(Stages(Workspace(folder), reading.plan), folder)
        return reading.compare(folder, [SourceRecord(**entry) for entry in entries.get("sources", ())])


def mirror_index(
    index: Path, mirror: Mirror, plan: BuildPlan, open_encoder: OpenEncoder
) -> tuple[CorpusComparison | None, Built | None]:
    """Read a corpus of an index again, and replace the index by one that follows it; returns the changes.

    Both are None if no file has changed. plan: as of `update_index`. Raises its errors, and `UsageError` for
    a corpus that the index does not know, or of which too much has vanished. After any error the index is as
    it was.
    """
    is_resumed = workspace_path(index.resolve()).exists()
    if not plan.encoders and not is_resumed:
        old = _open(index)
        same_address = plan.base_url in ("", old.manifest.corpus.base_url)
        if same_address and _Reading(old, mirror, plan).is_in_step:
            return None, None
    with Workspace(index.resolve()) as workspace:
        old = _open(workspace.index)
        reading = _Reading(old, mirror, plan)
        if str(mirror.path.resolve()) != path_of(reading.source):
            log_line(f"{mirror.path}: read in the place of {printable(path_of(reading.source))}")
        stages = Stages(workspace, reading.plan)
        verify_old(stages, old)
        inputs = reading.inputs if reading.alone else changed_inputs(old, reading.changes, reading.plan)
        documents = stages.documents(inputs, partial(reading.fill, stages))
        comparison = reading.compare(workspace.folder / DOCUMENTS, documents.sources)
        _check_removed(mirror, reading.count, comparison)
        update = UpdateRecord(
            request=reading.changes.request,
            file=mirror.path.name,
            sha256=documents.source_sha256 if reading.alone else None,
            added=len(comparison.added) + len(comparison.renamed),
            replaced=len(comparison.changed) + len(comparison.links),
            removed=len(comparison.removed) + len(comparison.renamed),
            **({"rebuilt": True} if reading.alone else {}),
        )
        manifest = grow(
            workspace,
            stages,
            reading.plan,
            old,
            documents,
            open_encoder,
            updates=[update],
            corpus=corpus_record(reading.plan, reading.reader, documents) if reading.alone else None,
        )
    return comparison, Built(manifest, stages.times, workspace.reused)


def _open(index: Path) -> OpenIndex:
    old = OpenIndex.open(index)
    old.check_undivided()
    return old


def _check_removed(mirror: Mirror, count: int, comparison: CorpusComparison) -> None:
    removed = len(comparison.removed)
    if 100 * removed > mirror.max_removed * count:
        raise UsageError(
            f"--mirror {mirror.path}: {removed:,} of {count:,} documents are no longer there, "
            f"such as {comparison.removed[0]!r}; nothing was changed",
            f"If that is right, allow it: --max-removed {-(-100 * removed // count)}.",
        )
