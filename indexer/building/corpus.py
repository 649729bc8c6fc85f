"""From a source file to stored documents: read, parse (in several processes), check, write.

Documents are written in segments. After each one a small file records the number of raw records so far, so
a killed build resumes after the last complete segment, passing over finished records without parsing them,
and ends with the same bytes.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.building.skipped import Skipped
from linkseek.indexer.documents import DOCUMENT_SCHEMA, REDIRECT_SCHEMA, Document, Redirect, document_row
from linkseek.indexer.files.hashes import combined_sha256
from linkseek.indexer.files.sources import Reading
from linkseek.indexer.machine.cluster import worker_pool
from linkseek.indexer.program.errors import DamagedIndexError, InputError, MachineError
from linkseek.indexer.readers.reader import Ignored, Reader, Record, parse_at
from linkseek.indexer.store.artifacts import read_json, segment_path, segment_paths, write_json
from linkseek.indexer.store.ids import IdTable, SeenIds, hash_ids
from linkseek.indexer.store.tables import Row, Table, TableWriter

SEGMENT_RECORDS = 100_000
_CHUNK_RECORDS = 32
_CHUNK_BYTES = 4 << 20
_START = 1.0
"""Seconds that starting the processes takes: a corpus that is parsed sooner does without."""
_MAX_ID = 32_756  # bytes: with "#" and a number still a term of Lucene, which takes 32,766


class _Stored(NamedTuple):
    """A document or a redirect as it will be written; made in the process that parses it.

    digest: a hash of all its fields. size: its approximate length in bytes.
    """

    id: str
    is_document: bool
    row: Row
    digest: bytes
    size: int


OpenRecords = Callable[[Callable[[Reading], None]], Iterator[Record]]
"""As `Reader.records`: the raw records, and the source, which its argument gets."""

_Outcomes = Sequence[_Stored | Ignored] | InputError
_Parsed = tuple[Record, _Outcomes]


def write_documents(
    reader: Reader,
    folder: Path,
    *,
    processes: int = 1,
    records: OpenRecords | None = None,
    segment_records: int = SEGMENT_RECORDS,
    on_start: Callable[[int], None] = lambda records: None,
    on_record: Callable[[int], None] = lambda position: None,
) -> dict[str, Any]:
    """Fill `folder` with document and redirect segments and the id table; return the manifest's entries.

    The reader's choices decide which records are stored, and how bad records are handled. records: opens the
    records, instead of the reader. on_start: gets the number of records that an interrupted run had finished;
    on_record, after each, how much of the source was read. Raises `InputError` naming file and place of a bad
    record or a duplicate id, or if there is no document at all.
    """
    writer = _DocumentWriter(reader, folder)
    on_start(writer.records)
    source: list[Reading] = []
    raw = writer.tolerant((records or reader.records)(source.append))
    unread = itertools.islice(raw, writer.records, None)
    with closing(raw), closing(_parsed(reader, unread, processes if reader.costly else 1)) as outcomes:
        while not writer.ended:
            writer.write_segment(outcomes, segment_records, lambda: on_record(source[0].position))
        if not source and not writer.at_limit:  # an earlier run wrote all: read on for the hash alone
            deque(unread, maxlen=0)
    if writer.documents == 0:
        reasons = ", ".join(f"{n:,} {reason}" for reason, n in writer.skipped.counts.items())
        raise InputError(
            f"{reader.path}: no documents in it" + (f" ({reasons})" if reasons else ""),
            f"It was read as {reader.name}; name another format with --format.",
        )
    write_ids(folder)
    return {
        "documents": writer.documents,
        "redirects": writer.redirects,
        "records": writer.records,
        "content_sha256": combined_sha256(writer.hashes),
        "source_sha256": None if writer.at_limit else source[0].sha256(),
        "skipped": writer.skipped.to_json(),
    }


def write_ids(folder: Path) -> None:
    """Write the id table of the documents in a folder."""
    hashes = hashes_of(Table(segment_paths(folder), DOCUMENT_SCHEMA))
    IdTable.build(hashes).save(folder)


def hashes_of(table: Table) -> NDArray[np.uint64]:
    """The hashes of the ids of documents or redirects, uint64 [rows]."""
    hashes = [hash_ids(ids.to_pylist()) for (ids,) in table.batches(["id"])]
    return np.concatenate([np.empty(0, np.uint64), *hashes])


_PROGRESS = "progress.json"
_STATE = ("segments", "records", "documents", "redirects", "hashes", "ended")
"""The file that records a writer's progress."""
_KEEP_FIRST = "Ids must be unique. Fix the file, or use --on-error skip to keep the first of each."
_SKIP = "Fix the record, or use --on-error skip to skip it."


class _DocumentWriter:
    """Writes outcomes in segments, and records its progress after each."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self._reader = reader
        self._folder = folder
        self._limit = reader.choices.limit
        self._stop = reader.choices.on_error == "stop"
        self._seen = SeenIds()
        self.ended = False
        self.segments = self.records = self.documents = self.redirects = 0
        self.hashes: list[str] = []
        self.skipped = Skipped()
        self._damage: InputError | None = None
        self._resume()

    @property
    def at_limit(self) -> bool:
        """Whether no further document will be written."""
        return self._limit is not None and self.documents >= self._limit

    def tolerant(self, records: Iterator[Record]) -> Generator[Record, None, None]:
        """The records; with --on-error skip, damage of the file ends them without an error."""
        try:
            yield from records
        except InputError as error:
            if self._stop:
                raise
            self._damage = error  # read ahead: counted when the records before it are written

    def write_segment(
        self, outcomes: Iterator[_Parsed], max_records: int, on_record: Callable[[], None]
    ) -> None:
        """Write up to `max_records` records; sets `ended` if there are no more."""
        digest = sha256()
        last = self.records + max_records
        redirects_path = segment_path(self._folder, self.segments, "redirects-")
        with (
            TableWriter(segment_path(self._folder, self.segments), DOCUMENT_SCHEMA) as documents,
            TableWriter(redirects_path, REDIRECT_SCHEMA) as redirects,
        ):
            while self.records < last and not self.ended:
                record, parsed = next(outcomes, (None, ()))
                if record is None:
                    self.ended = True
                    if self._damage:
                        self.skipped.add("rest of a damaged file", self._damage.message)
                    break
                self.records += 1
                for stored in self._accepted(record, parsed):
                    digest.update(stored.digest)
                    if stored.is_document:
                        documents.write(stored.row, stored.size)
                        self.documents += 1
                    else:
                        redirects.write(stored.row)
                        self.redirects += 1
                    if self.at_limit:
                        self.ended = True
                        break
                on_record()
        self.segments += 1
        self.hashes.append(digest.hexdigest())
        self._write_progress()

    def _accepted(self, record: Record, parsed: _Outcomes) -> Iterator[_Stored]:
        """The outcomes to store. Raises or counts errors, and counts ignored records."""
        if isinstance(parsed, InputError):
            self._refuse("malformed", parsed)
            return
        for outcome in parsed:
            if isinstance(outcome, Ignored):
                self.skipped.count(outcome, record.place)
            elif not outcome.is_document:
                yield outcome
            elif len(outcome.row["title"].strip()) < self._reader.choices.min_title:
                self.skipped.add("short title", record.place)
            elif not outcome.id or any(c in outcome.id for c in "\n\r\t\0"):
                problem = f"the id {outcome.id[:60]!r} is empty or contains a line break, tab or NUL"
                self._refuse("malformed", self._error(record, problem, _SKIP))
            elif len(outcome.id.encode()) > _MAX_ID:
                problem = f"the id {outcome.id[:60]!r}... is longer than {_MAX_ID:,} bytes"
                self._refuse("malformed", self._error(record, problem, _SKIP))
            elif not self._seen.add(outcome.id):
                problem = f"duplicate id {outcome.id[:255]!r}"
                self._refuse("duplicate id", self._error(record, problem, _KEEP_FIRST))
            else:
                yield outcome

    def _error(self, record: Record, problem: str, hint: str) -> InputError:
        return InputError(f"{self._reader.path}, {record.place}: {problem}", hint)

    def _refuse(self, reason: str, error: InputError) -> None:
        if self._stop:
            raise error
        self.skipped.add(reason, error.message)

    def _write_progress(self) -> None:
        state = {name: getattr(self, name) for name in _STATE}
        skipped = {"skipped": self.skipped.to_json(), "skipped_names": self.skipped.names}
        write_json(self._folder / _PROGRESS, state | skipped)

    def _resume(self) -> None:
        """Resume from an interrupted run, if its files agree with its record of progress."""
        try:
            state = read_json(self._folder / _PROGRESS)
            skipped = Skipped.from_json(state["skipped"])
            for reason, counts in state.get("skipped_names", {}).items():
                skipped.names[reason], skipped.examples[reason] = Counter(counts), []
            values = {name: state[name] for name in _STATE}
            count = state["segments"]
            table = Table(segment_paths(self._folder)[:count], DOCUMENT_SCHEMA)
            redirects = Table(segment_paths(self._folder, "redirects-")[:count], REDIRECT_SCHEMA)
            if (len(table), len(redirects)) != (state["documents"], state["redirects"]):
                return
        except (DamagedIndexError, KeyError, TypeError, AttributeError):
            return
        vars(self).update(values, skipped=skipped)
        for (ids,) in table.batches(["id"]):
            self._seen.add_all(ids.to_pylist())


def _parsed(reader: Reader, records: Iterable[Record], processes: int) -> Generator[_Parsed, None, None]:
    """(record, its outcomes or its error) in order, parsed here or, after a second, in other processes."""
    if processes < 2:
        yield from ((record, _try_parse(reader, record)) for record in records)
        return
    pool = worker_pool(processes)
    try:
        with closing(_read_ahead(_chunks(records))) as chunks:
            until = time.monotonic() + _START
            while time.monotonic() < until and (chunk := next(chunks, [])):
                yield from zip(chunk, _parse_chunk(reader, chunk), strict=True)
            ahead = itertools.islice(chunks, 4 * processes)
            waiting = deque((chunk, pool.submit(_parse_chunk, reader, chunk)) for chunk in ahead)
            while waiting:
                chunk, future = waiting.popleft()
                try:
                    for following in itertools.islice(chunks, 1):
                        waiting.append((following, pool.submit(_parse_chunk, reader, following)))
                    outcomes = future.result()
                except BrokenProcessPool:
                    place = f"{reader.path}: a parsing process died at {chunk[0].place} or soon after"
                    raise MachineError(
                        f"{place} (out of memory?)",
                        "Use fewer --processes; the build resumes after the last complete segment.",
                    ) from None
                yield from zip(chunk, outcomes, strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records in lists, each for one call of a process."""
    chunk, size = list[Record](), 0
    for record in records:
        chunk.append(record)
        size += record.size
        if len(chunk) == _CHUNK_RECORDS or size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _read_ahead(chunks: Iterator[list[Record]]) -> Generator[list[Record], None, None]:
    """The same chunks; the next one is read meanwhile, since decompressing releases Python's lock."""
    with ThreadPoolExecutor(1, "read") as reading:
        following: Future[list[Record]] = reading.submit(next, chunks, [])
        while chunk := following.result():
            following = reading.submit(next, chunks, [])
            yield chunk


def _parse_chunk(reader: Reader, chunk: list[Record]) -> list[_Outcomes]:
    return [_try_parse(reader, record) for record in chunk]


def _try_parse(reader: Reader, record: Record) -> _Outcomes:
    try:
        return [o if isinstance(o, Ignored) else _stored(o) for o in parse_at(reader, record)]
    except InputError as error:
        return error


def _stored(outcome: Document | Redirect) -> _Stored:
    fields = repr(outcome).encode()
    digest = sha256(fields).digest()
    if isinstance(outcome, Redirect):
        return _Stored(outcome.id, False, {"id": outcome.id, "target": outcome.target}, digest, 0)
    return _Stored(outcome.id, True, document_row(outcome), digest, len(fields))
