"""The corpora that the documents of an index are from: where each is, and how it was read.

A build has one, which the fingerprint of its documents describes. Updates keep a record for each, whose
documents are neighbours, so one of them can be read again (`building.mirror`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.documents import DocumentStore
from linkseek.indexer.language.codes import language_code
from linkseek.indexer.language.detection import METADATA, SAMPLE, language_of
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.text import printable
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.manifests import DocumentsPart, SourceRecord

_PATH = "corpus"


def sources_of(documents: DocumentsPart) -> tuple[SourceRecord, ...]:
    """The records of the documents' corpora, in order."""
    return documents.sources or (
        SourceRecord(
            inputs=documents.fingerprint,
            documents=documents.documents,
            redirects=documents.redirects,
            records=documents.records,
            skipped=documents.skipped,
        ),
    )


def path_of(source: SourceRecord) -> str:
    """Where a corpus was when it was read last."""
    return str(source.inputs[_PATH])


def choices_of(source: SourceRecord) -> Choices:
    """How a corpus was read."""
    return Choices.from_json(source.inputs)


def spans(counts: Sequence[int]) -> list[tuple[int, int]]:
    """(start, end) of neighbours, given how long each is."""
    return list(pairwise(accumulate(counts, initial=0)))


def kept_of(counts: Sequence[int], keep: NDArray[np.bool_]) -> list[int]:
    """How many rows of each of the neighbours are kept, given bool [rows]."""
    return [int(keep[start:end].sum()) for start, end in spans(counts)]


def rows_of(counts: Sequence[int], numbers: Sequence[int]) -> NDArray[np.int64]:
    """The rows of some of the neighbours, given how long each is, int64 ascending."""
    every = spans(counts)
    return np.concatenate([np.arange(0), *(np.arange(*every[number]) for number in numbers)])


def readings_of(sources: Sequence[SourceRecord], path: Path | str) -> list[int]:
    """The numbers of the readings of the corpus at a path, several if it was added again."""
    place = str(path.resolve()) if isinstance(path, Path) else path
    return [number for number, source in enumerate(sources) if path_of(source) == place]


def mirrored_readings(sources: Sequence[SourceRecord], path: Path) -> list[int]:
    """As `readings_of`, of the corpus that is now at a path: the one that was there, or the only one that
    moved.

    Raises `UsageError` if it may be another corpus.
    """
    if numbers := readings_of(sources, path):
        return numbers
    places = list(dict.fromkeys(map(path_of, sources)))
    gone = [place for place in places if not Path(place).exists()]
    moved = gone if len(places) > 1 else places  # a release in a folder of its own, the last one still there
    if len(moved) == 1:
        return readings_of(sources, moved[0])
    known = ", ".join(map(printable, places))
    raise UsageError(
        f"--mirror {path}: no document of the index comes from it, but from {known}",
        "Add it once by linkseek update --add; --mirror then keeps it in step.",
    )


def language_of_corpus(reader: Reader, documents: DocumentStore) -> tuple[str, str]:
    """The code of the language of documents, and how it was decided, in words."""
    if language := language_code(reader.language()):
        return language, f"{reader.path.name} says so"
    sample = documents.table.sample(SAMPLE)
    said = [dict(row["metadata"]).get(METADATA, "") for row in sample]
    return language_of([row["text"] for row in sample], said)
