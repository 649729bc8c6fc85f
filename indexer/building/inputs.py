"""The fingerprints of parts: everything that the content of each depends on, by content.

A finished part with the same fingerprint is reused instead of being built again (`building.workspace`).
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from linkseek.indexer.building.plan import Plan
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.language.codes import ENGLISH
from linkseek.indexer.passages import Cutting
from linkseek.indexer.readers.reader import Reader
from linkseek.indexer.store.manifests import DocumentsPart, PassagesPart

Inputs = dict[str, Any]
"""The fingerprint of a part that is to be built."""


def documents_inputs(plan: Plan, reader: Reader) -> Inputs:
    """The fingerprint of documents."""
    return {
        "linkseek": version("linkseek"),  # another version may read the same file differently
        "format": reader.name,
        "corpus": str(plan.corpus.resolve()),
        **reader.state(),
        "limit": plan.limit,
        "on_error": plan.on_error,
        **reader.choices.to_json(),
    } | ({"min_title": plan.min_title} if plan.min_title else {})  # 0: as of before there was a minimum


def passages_inputs(documents: DocumentsPart, cutting: Cutting) -> Inputs:
    """The fingerprint of passages."""
    inputs = {"documents": documents.content_sha256, "words": cutting.words}
    if cutting.segmented:
        inputs["segmented"] = True
    if cutting.min_words:  # 0: as of before there was a minimum
        inputs["min_words"] = cutting.min_words
    return inputs | ({"headings": True} if cutting.headings else {})


def cutting_of(passages: PassagesPart) -> Cutting:
    """How passages were cut, by their fingerprint."""
    inputs = passages.fingerprint
    kinds = {name: bool(inputs.get(name)) for name in ("headings", "segmented")}
    return Cutting(passages.words, int(inputs.get("min_words", 0)), **kinds)


def links_inputs(documents: DocumentsPart, passages: PassagesPart) -> Inputs:
    """The fingerprint of the link graph."""
    return {"documents": documents.content_sha256, "passages": passages.content_sha256}


def bm25_inputs(plan: Plan, passages: PassagesPart) -> Inputs:
    """The fingerprint of the Lucene index."""
    inputs = {"passages": passages.content_sha256, "title": plan.title}
    # 2: how languages other than English are analysed; another number for other terms
    return inputs | ({"language": plan.language, "analysis": 2} if plan.language != ENGLISH else {})


def dense_inputs(plan: Plan, passages: PassagesPart, encoder: Encoder, factory: str) -> Inputs:
    """The fingerprint of vectors in a FAISS index."""
    return {**encoded_inputs(passages, encoder), "title": plan.title, "factory": factory}


def encoded_inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    """The passages and the model of vectors, however they are computed and stored."""
    return {"passages": passages.content_sha256, "encoder": encoder.identity}


def vectors_inputs(passages: PassagesPart, encoder: Encoder) -> Inputs:
    """The fingerprint of the shards of vectors."""
    how = {"token_budget": encoder.token_budget, "shard_rows": encoder.shard_rows}
    return {**encoded_inputs(passages, encoder), "execution": encoder.execution, **how}
