"""Whether indexes can be the partitions of one: the facts that all of them must share.

Compared when partitions are joined and whenever an index of partitions is opened, since each of them is an
ordinary index, which commands can change in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from linkseek.indexer.program.errors import MismatchError
from linkseek.indexer.store.artifacts import BM25, DOCUMENTS, PASSAGES, value_sha256
from linkseek.indexer.store.manifests import EncodedPart, IndexManifest, Parts

_HINT = (
    "Build all partitions with the same options and encoders, and join them again: "
    "linkseek partition --index NEW ..."
)


class Described(Protocol):
    """An index as its manifests describe it (`indexer.index.Index`)."""

    manifest: IndexManifest
    parts: Parts

    @property
    def encoders(self) -> list[str]:
        """The names of its encoders."""
        ...


def traits(index: Described) -> dict[str, Any]:
    """The properties, by name, that indexes must share for their rankings to be merged.

    How texts were cut and read, what Lucene indexed, and for each encoder its identity (with the hash of its
    weights), its dimension and its metric. The type of FAISS index may differ.
    """
    passages, bm25 = index.parts.passages, index.parts.get(BM25)
    return {
        "text": index.manifest.text.to_json(),
        "the words of a passage": [passages.words, passages.fingerprint.get("min_words", 0)],
        "BM25": None if bm25 is None else {"title": bm25.fingerprint.get("title")},
        "encoders": index.encoders,
        **{f"encoder {name}": _encoder(index, name) for name in index.encoders},
        **{f"vectors of tokens of {name}": _identity(part) for name, part in index.parts.late.items()},
        **{f"weights of terms of {name}": _identity(part) for name, part in index.parts.sparse.items()},
    }


def _encoder(index: Described, name: str) -> dict[str, Any]:
    part = index.parts.dense[name]
    return {**_identity(part), "dimension": part.dimension, "metric": part.metric}


def _identity(part: EncodedPart) -> dict[str, Any]:
    return {
        **{key: value for key, value in part.encoder.items() if key != "location"},  # which may be moved
        "identity": part.fingerprint.get("encoder"),
        "title": part.fingerprint.get("title"),
    }


def check_alike(index: Path, partitions: Sequence[Described]) -> None:
    """Raises `MismatchError` naming the index unless all its partitions have the same `traits`."""
    first: dict[str, Any] = {}
    for number, partition in enumerate(partitions, start=1):
        own = traits(partition)
        first = first or own
        for name in own | first:
            if own.get(name) != first.get(name):
                raise MismatchError(
                    f"{index}: partition {number} differs from the first in {name}: "
                    f"{_difference(own.get(name), first.get(name))}",
                    _HINT,
                )


def _difference(mine: Any, other: Any) -> str:
    """Two values in words: of two dictionaries, the first entry in which they differ."""
    if isinstance(mine, dict) and isinstance(other, dict):
        name = next(name for name in {**mine, **other} if mine.get(name) != other.get(name))
        return f"{name}: {_difference(mine.get(name), other.get(name))}"
    return f"{mine}, there {other}"


def contents(partitions: Sequence[Described], part: str = PASSAGES) -> tuple[str, ...]:
    """The hashes of the passages, or documents, of partitions, by which an index of them notices a change."""
    whole = [partition.parts for partition in partitions]
    return tuple((p.documents if part == DOCUMENTS else p.passages).content_sha256 for p in whole)


def identity(index: Described) -> str:
    """One hash of the contents of an index and of its traits: another process has opened the same index."""
    return value_sha256([traits(index), contents([index]), contents([index], DOCUMENTS)])
