"""The language of a corpus: as its reader knows it, else detected in a sample of its documents."""

from __future__ import annotations

from linkseek.indexer.documents import DocumentStore
from linkseek.indexer.language.codes import language_code
from linkseek.indexer.language.detection import METADATA, SAMPLE, language_of
from linkseek.indexer.readers.reader import Reader


def language_of_corpus(reader: Reader, documents: DocumentStore) -> tuple[str, str]:
    """The code of the language of documents, and how it was decided, in words."""
    if language := language_code(reader.language()):
        return language, f"{reader.path.name} says so"
    sample = documents.table.sample(SAMPLE)
    said = [dict(row["metadata"]).get(METADATA, "") for row in sample]
    return language_of([row["text"] for row in sample], said)
