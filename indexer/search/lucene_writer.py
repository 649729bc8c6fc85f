"""Lucene: write an index of passages.

The index of English texts is the same as Anserini's `IndexCollection` makes with its defaults (English
analyzer, Porter stems, no positions, nothing stored but the id), so Anserini and Pyserini open it; indexes
of other languages differ in their analysis alone (`analyzers`). Deliberately without
stored text (it slows every search down; passages have a store of their own) and merging into one segment
(it takes a third of the building time and does not speed up searches; one thread makes one segment of a
small corpus).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path

import orjson

from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.passages import PassageStore
from linkseek.indexer.program.errors import InputError, MachineError
from linkseek.indexer.search.analyzers import analysis
from linkseek.indexer.search.jvm import heap_mb, java_class, java_error, java_reason, java_threads

_BATCH_PASSAGES = 1000
_BATCH_CHARACTERS = 2 << 20
_MAX_ID_BYTES = 32766  # org.apache.lucene.index.IndexWriter.MAX_TERM_LENGTH
_JAVA_BLANK = "".join(map(chr, range(33)))  # the characters that String.trim removes


def passage_texts(passages: PassageStore) -> Iterator[tuple[str, str, str]]:
    """(id, title, text) of every passage in order, straight from the store's columns."""
    for columns in passages.table.batches(["id", "title", "text"]):
        yield from zip(*(column.to_pylist() for column in columns), strict=True)


def build_lucene(
    passages: Iterable[tuple[str, str, str]],
    folder: Path,
    *,
    index_title: bool,
    threads: int,
    language: str = ENGLISH,
    on_rows: Callable[[float], None] = lambda rows: None,
    removed: Iterable[str] | None = None,
    merge: bool = False,
) -> int:
    """Write a Lucene index of (id, title, text) and return its number of passages.

    A passage of white space alone is skipped, as by `IndexCollection`. folder: new; after an error or a kill
    it must be deleted. threads: indexing threads, at most one per core; there will be about as many segments.
    language: the language of the texts. on_rows: gets the number of passages finished since the last call, in
    this thread. removed: ids to delete from an index that `folder` contains, before adding to it. merge: into
    one segment. Memory: a batch of 1,000 passages (or 2 MB) for each thread, and Java's. Raises `InputError`
    for an id that Lucene cannot store, `MachineError` where Lucene cannot write.
    """
    pool = java_threads()
    writer = pool.submit(_LuceneWriter, folder, removed is not None, language).result()
    working: deque[Future[int]] = deque()

    def finish_one() -> None:
        done = working[0].result()
        working.popleft()
        on_rows(done)

    try:
        if removed is not None:
            pool.submit(writer.delete, removed).result()
        for batch in _batches(passages, index_title, writer.prepare):  # made while Java indexes earlier ones
            working.append(pool.submit(writer.add, batch))
            if len(working) > threads:
                finish_one()
        while working:
            finish_one()
        return pool.submit(writer.close, merge).result()
    except BaseException:
        wait(working)  # before the writer is abandoned
        pool.submit(writer.abandon).result()
        raise


def building_memory(passages: int) -> int:
    """The memory that Java adds while it indexes, in bytes: measured from 405 to 21 million passages."""
    return min(130 + int(0.63 * passages**0.5), 1_500, 130 + heap_mb()) << 20


def _batches(
    passages: Iterable[tuple[str, str, str]], index_title: bool, prepare: Callable[[str], str]
) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for id_, title, text in passages:
        contents = f"{title} {text}" if index_title and title else text
        if not contents.strip(_JAVA_BLANK):
            continue
        if len(id_) > _MAX_ID_BYTES // 4 and len(id_.encode()) > _MAX_ID_BYTES:
            raise InputError(f"the id {id_[:60]!r}... is longer than {_MAX_ID_BYTES:,} bytes", "Shorten it.")
        batch.append(orjson.dumps({"id": id_, "contents": prepare(contents)}).decode())
        characters += len(contents)
        if len(batch) >= _BATCH_PASSAGES or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


class _LuceneWriter:
    """Anserini's `SimpleIndexer`. Every method runs in the pool."""

    def __init__(self, folder: Path, append: bool, language: str) -> None:
        self._folder = folder
        self.prepare, self._analyzer, _ = analysis(language)
        arguments = ["-input", "", "-collection", "JsonCollection", "-index", str(folder)]
        arguments += ["-append"] * append
        level = java_class("org.apache.logging.log4j.Level").ERROR  # else it prints its settings
        java_class("org.apache.logging.log4j.core.config.Configurator").setRootLevel(level)
        # Its `close` only logs errors, and its buffer is 2 GB: hence we use the Lucene writer in it.
        indexer = java_class("io.anserini.index.SimpleIndexer", private=True)
        try:
            self._indexer = indexer([*arguments, "-threads", "1"])
            if language != ENGLISH:
                self._replace_writer()
            self._writer = self._indexer.writer
        except java_error() as error:
            raise self._error(java_reason(error)) from None
        heap = java_class("java.lang.Runtime").getRuntime().maxMemory() >> 20  # MB
        self._writer.getConfig().setRAMBufferSizeMB(float(min(max(heap // 8, 48), 512)))

    def _replace_writer(self) -> None:
        """Put a writer with the same settings and our analyzer in the place of Anserini's."""
        package = "org.apache.lucene.index"
        directory, old = self._indexer.writer.getDirectory(), self._indexer.writer.getConfig()
        self._indexer.writer.close()
        config = java_class(f"{package}.IndexWriterConfig")(self._analyzer)
        # All forms of a word count in the length of a passage (False), as they do in Lucene's mean length.
        config.setSimilarity(java_class("org.apache.lucene.search.similarities.BM25Similarity")(False))
        config.setOpenMode(java_class(f"{package}.IndexWriterConfig$OpenMode").APPEND)
        config.setUseCompoundFile(old.getUseCompoundFile())
        config.setMergeScheduler(java_class(f"{package}.ConcurrentMergeScheduler")())
        writer = java_class(f"{package}.IndexWriter")(directory, config)
        # Where pyjnius sets a field itself, Java crashes at its next collection of garbage.
        fields = java_class("org.apache.commons.lang3.reflect.FieldUtils")
        fields.writeField(self._indexer, "writer", writer, True)

    def add(self, batch: list[str]) -> int:
        """Index JSON objects and return their number. May run in several threads, a batch each."""
        done = self._indexer.addRawDocuments(batch, pass_by_reference=False)
        if done != len(batch):
            tragedy = self._writer.getTragicException()
            reason = tragedy.toString() if tragedy else f"took {done} of {len(batch)} passages"
            raise self._error(reason)
        return len(batch)

    def delete(self, ids: Iterable[str]) -> None:
        """Delete passages by id."""
        term = java_class("org.apache.lucene.index.Term")
        query = java_class("org.apache.lucene.search.TermQuery")  # pyjnius finds no overload for terms
        try:
            for id_ in ids:
                self._writer.deleteDocuments(query(term("id", id_)))
        except java_error() as error:
            raise self._error(java_reason(error)) from None

    def close(self, merge: bool) -> int:
        """Rewrite segments with deleted passages, or merge all into one; commit, and release the folder.

        Returns the number of passages.
        """
        from jnius import cast

        try:
            # Lucene counts deleted passages in its statistics as long as their segment lasts.
            policy = self._writer.getConfig().getMergePolicy()
            cast("org.apache.lucene.index.TieredMergePolicy", policy).setForceMergeDeletesPctAllowed(0.0)
            self._writer.forceMergeDeletes()
            if merge:
                self._writer.forceMerge(1)
            self._writer.commit()
            count = int(self._writer.getDocStats().numDocs)
            self._writer.close()
            return count
        except java_error() as error:
            raise self._error(java_reason(error)) from None

    def abandon(self) -> None:
        """Release the folder as it is."""
        with suppress(java_error()):  # the error that led here is the one to report
            self._writer.rollback()

    def _error(self, reason: str) -> MachineError:
        full = "No space left" in reason or "quota" in reason
        return MachineError(
            f"{self._folder}: Lucene could not write the index ({reason})",
            "Free some space and build again." if full else "Check the folder and build again.",
        )
