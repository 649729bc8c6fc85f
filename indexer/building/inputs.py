"""The fingerprints of parts: everything that the content of each depends on, by content.

A finished part with the same fingerprint is reused instead of being built again (`building.workspace`).
"""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.passages import Cutting
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.manifests import DocumentsPart, PassagesPart

Inputs = dict[str, Any]
"""The fingerprint of a part that is to be built."""


def documents_inputs(reader: Reader) -> Inputs:
    """The fingerprint of the documents of a corpus."""
    return {
        "linkseek": version("linkseek"),  # another version may read the same file differently
        "format": reader.name,
        "corpus": str(reader.path.resolve()),
        **reader.state(),
        **reader.choices.to_json(),
    }


def passages_inputs(documents: DocumentsPart, cutting: Cutting) -> Inputs:
    """The fingerprint of passages."""
    return {"documents": documents.content_sha256, **asdict(cutting)}


def cutting_of(passages: PassagesPart) -> Cutting:
    """How passages were cut, by their fingerprint."""
    inputs = passages.fingerprint
    return Cutting(passages.words, int(inputs.get("min_words", 0)), bool(inputs.get("headings")))


def links_inputs(documents: DocumentsPart, passages: PassagesPart) -> Inputs:
    """The fingerprint of the link graph."""
    return {"documents": documents.content_sha256, "passages": passages.content_sha256}


def bm25_inputs(plan: BuildPlan, passages: PassagesPart) -> Inputs:
    """The fingerprint of the Lucene index."""
    return {"passages": passages.content_sha256, "title": plan.title, "language": plan.language}


def dense_inputs(plan: BuildPlan, passages: PassagesPart, encoder: Encoder, factory: str) -> Inputs:
    """The fingerprint of vectors in a FAISS index."""
    return {**encoded_inputs(passages, encoder), "title": plan.title, "factory": factory}


def encoded_inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    """The passages and the model of vectors, however they are computed and stored."""
    return {"passages": passages.content_sha256, "encoder": encoder.identity}


def vectors_inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    """The fingerprint of the shards of vectors."""
    how = {"token_budget": encoder.token_budget, "shard_rows": encoder.shard_rows}
    return {**encoded_inputs(passages, encoder), "execution": encoder.execution, **how}
