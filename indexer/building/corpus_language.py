"""The language of a corpus: as its reader knows it, else detected in a sample of its documents."""

from __future__ import annotations

import numpy as np

from linkseek.indexer.documents import DocumentStore
from linkseek.indexer.language.codes import language_code
from linkseek.indexer.language.detection import METADATA, SAMPLE, language_of
from linkseek.indexer.readers.reader import Reader


def language_of_corpus(reader: Reader, documents: DocumentStore) -> tuple[str, str]:
    """The code of the language of documents, and how it was decided, in words."""
    if language := language_code(reader.language()):
        return language, f"{reader.path.name} says so"
    rows = np.unique(np.linspace(0, len(documents) - 1, SAMPLE).astype(np.int64))
    sample = list(documents.table.chosen(rows))
    said = [dict(row["metadata"]).get(METADATA, "") for row in sample]
    return language_of([row["text"] for row in sample], said)
