"""Encoders of passages of every kind, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linkseek.indexer.store.artifacts import DENSE, LATE, LATE_PREFIX, SPARSE_PREFIX, kind_and_name
from linkseek.retriever.models import biencoder
from linkseek.retriever.models.biencoder import BiEncoder
from linkseek.retriever.models.coded import CodedEncoder
from linkseek.retriever.models.late import check_late, open_late
from linkseek.retriever.models.sparse import check_sparse, open_sparse


def open_encoder(name: str, **options: Any) -> BiEncoder | CodedEncoder:
    """An encoder of passages; after `late:` of their tokens, after `sparse:` of terms. options, errors: of
    `open_biencoder`."""
    kind, _ = kind_and_name(name)
    if kind == DENSE:
        return biencoder.open_biencoder(name, **options)
    return open_late(name, **options) if kind == LATE else open_sparse(name, **options)


def located(
    dense: Sequence[str], late: Sequence[str], sparse: Sequence[str], device: str, faiss: str
) -> list[str]:
    """The names of the encoders of a build, each after the prefix of its kind.

    The models are located before the first document is read. Raises as `check_encoders` and `find_model`.
    """
    biencoder.check_encoders(dense, device, faiss)
    for name in late:
        check_late(name)
    for name in sparse:
        check_sparse(name)
    return [*dense, *(LATE_PREFIX + name for name in late), *(SPARSE_PREFIX + name for name in sparse)]
