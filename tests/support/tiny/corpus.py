"""Small corpora for tests: as a file, and as stores without a build around them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from linkseek.indexer.documents import DOCUMENT_SCHEMA, Document, DocumentStore, document_row
from linkseek.indexer.passages import PASSAGE_SCHEMA, Cutting, PassageStore, passage_row, split_document
from linkseek.indexer.store.ids import IdTable, hash_ids
from linkseek.indexer.store.tables import TableWriter


def linked_rows(count: int = 40, seed: int = 0) -> list[dict[str, Any]]:
    """Documents as JSONL rows, of 0 to 60 words each; each with text has two links, some to nothing."""
    draw = random.Random(seed)
    words = [f"word{n}" for n in range(200)] + ["Über", "naïve", "東京", "𝄞"]
    rows = []
    for n in range(count):
        text = " ".join(draw.choices(words, k=0 if n % 13 == 5 else draw.randint(1, 60)))
        spans = [(0, len(text.split()[0])), (text.rfind(" ") + 1, len(text))] if text else []
        links = [
            {"start": start, "end": end, "target": f"d{draw.randrange(count + 5)}"} for start, end in spans
        ]
        rows.append({"id": f"d{n}", "title": f"Title {n}", "text": text, "links": links, "url": f"u:{n}"})
    return rows


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Rows as a JSONL file; returns its path."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def store_documents(folder: Path, documents: Iterable[Document]) -> tuple[DocumentStore, IdTable]:
    """Documents in one table file, and the table of their ids."""
    documents = list(documents)
    with TableWriter(folder / "documents.arrow", DOCUMENT_SCHEMA) as writer:
        for document in documents:
            writer.write(document_row(document))
    hashes = hash_ids(document.id for document in documents)
    ids = IdTable.build(hashes)
    return DocumentStore([folder / "documents.arrow"]), ids


def store_passages(folder: Path, documents: Iterable[Document], ids: IdTable, words: int) -> PassageStore:
    """The passages of documents in one table file."""
    offsets = [0]
    with TableWriter(folder / "passages.arrow", PASSAGE_SCHEMA) as writer:
        for document in documents:
            for passage in split_document(document, Cutting(words)):
                writer.write(passage_row(passage))
            offsets.append(writer.rows)
    return PassageStore([folder / "passages.arrow"], np.array(offsets, np.int64), ids, words)


def links(document: Document) -> list[tuple[str, str]]:
    """The (anchor, target) of each link."""
    return [(document.text[link.start : link.end], link.target) for link in document.links]
