"""Manifests for tests that need no index on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linkseek.indexer.store.manifest_files import Parts
from linkseek.indexer.store.manifests import FORMAT_VERSION, IndexManifest, PassagesPart, VectorsPart

COUNTED = "documents redirects passages resolved_redirects dangling_redirects links between_documents"
COUNTS = dict.fromkeys([*COUNTED.split(), "dangling", "cut"], 0)
ENCODER = {"name": "fake", "sha256": "ccc", "location": "fake"}
PART: dict[str, Any] = {"format_version": FORMAT_VERSION, "fingerprint": {}, "files": {}}


def index_manifest(parts: Sequence[str] = (), **values: Any) -> IndexManifest:
    """The manifest of an index that holds nothing."""
    return IndexManifest(format_version=FORMAT_VERSION, parts=tuple(parts), **{"counts": COUNTS, **values})


def vectors_part(factory: str, **values: Any) -> VectorsPart:
    """The manifest of vectors that were built with `build_faiss`, whose entries are among the values."""
    defaults = {"encoder": ENCODER, "rows": 0, "dimension": 1, "metric": "inner product"}
    return VectorsPart(**{**PART, **defaults, "factory": factory, **values})


def parts(**vectors: VectorsPart) -> Parts:
    """The manifests of passages, and of vectors by the name of their encoder."""
    passages = PassagesPart(**PART, passages=0, words=100, content_sha256="")
    return Parts({"passages": passages} | {f"dense/{name}": part for name, part in vectors.items()})
