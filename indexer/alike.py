"""Whether indexes can be the partitions of one: the facts that all of them must share.

Compared when partitions are joined and whenever an index of partitions is opened, since each of them is an
ordinary index, which commands can change in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from linkseek.indexer.program.errors import DamagedIndexError, MismatchError
from linkseek.indexer.store.artifacts import (
    BM25,
    DOCUMENTS,
    LINKS,
    PARTITIONS,
    PASSAGES,
    damaged,
    value_sha256,
)
from linkseek.indexer.store.manifest_files import Parts
from linkseek.indexer.store.manifests import EncodedPart, FileEntry, IndexManifest, VectorsPart

_HINT = (
    "Build all partitions with the same options and encoders, and join them again: "
    "linkseek partition --index NEW ..."
)


class DescribedIndex(Protocol):
    """An index as its manifests describe it (`indexer.index.Index`)."""

    path: Path
    manifest: IndexManifest
    parts: Parts


def traits(index: DescribedIndex) -> dict[str, Any]:
    """The properties, by name, that indexes must share for their rankings to be merged.

    How texts were cut and read, what Lucene indexed, and for each encoder its identity (with the hash of its
    weights), its dimension and its metric. The type of FAISS index may differ.
    """
    passages, bm25 = index.parts.passages, index.parts.get(BM25)
    return {
        "text": index.manifest.text.to_json(),
        "the words of a passage": [passages.words, passages.fingerprint.get("min_words", 0)],
        "BM25": None if bm25 is None else {"title": bm25.fingerprint.get("title")},
        "encoders": list(index.parts.dense),
        **{f"encoder {name}": _encoder(part) for name, part in index.parts.dense.items()},
        **{f"token vectors of {name}": _identity(part) for name, part in index.parts.late.items()},
        **{f"term weights of {name}": _identity(part) for name, part in index.parts.sparse.items()},
    }


def _encoder(part: VectorsPart) -> dict[str, Any]:
    return {**_identity(part), "dimension": part.dimension, "metric": part.metric}


def _identity(part: EncodedPart) -> dict[str, Any]:
    return {
        **{key: value for key, value in part.encoder.items() if key != "location"},  # which may be moved
        "identity": part.fingerprint.get("encoder"),
        "title": part.fingerprint.get("title"),
    }


def check_alike(index: Path, partitions: Sequence[DescribedIndex]) -> None:
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


def contents(partitions: Sequence[DescribedIndex], part: str = PASSAGES) -> tuple[str, ...]:
    """The hashes of the passages, or documents, of partitions, by which an index of them notices a change."""
    whole = [partition.parts for partition in partitions]
    return tuple((p.documents if part == DOCUMENTS else p.passages).content_sha256 for p in whole)


def identity(index: DescribedIndex) -> str:
    """One hash of the contents of an index and of its traits: another process has opened the same index."""
    return value_sha256([traits(index), contents([index]), contents([index], DOCUMENTS)])


def check_parts(path: Path, parts: Parts, partitions: Sequence[DescribedIndex]) -> None:
    """Raises `DamagedIndexError` or `MismatchError` unless parts and partitions belong together."""
    inputs = {name: part.fingerprint for name, part in parts.items()}
    documents = inputs[LINKS].get(DOCUMENTS)
    if inputs[PASSAGES].get(PARTITIONS, ()) != contents(partitions) or (
        partitions and documents not in (None, contents(partitions, DOCUMENTS))
    ):
        raise DamagedIndexError(
            f"{path}: one of its partitions was changed",
            "Make it again from the indexes of its folder partitions: linkseek partition --index NEW ...",
        )
    check_alike(path, partitions)
    for name in parts if not partitions else ():
        made_from = inputs[name].get(PASSAGES)
        if made_from is not None and made_from != parts.passages.content_sha256:
            raise damaged(path / name, "not made from the passages of this index", path / name)


def joined_parts(parts: Parts, partitions: Sequence[DescribedIndex]) -> Parts:
    """The parts of an index with those that all of its partitions have; each lists the files of all."""
    joined = dict(parts)
    for name, first in partitions[0].parts.items() if partitions else ():
        if all(name in partition.parts for partition in partitions):
            own = parts[name].given() if name in parts else {}
            files: dict[str, FileEntry] = dict(own.get("files", {}))
            for partition in partitions:
                entries = partition.parts[name].files.items()
                files |= {f"{PARTITIONS}/{partition.path.name}/{file}": entry for file, entry in entries}
            joined[name] = first.replace(**own | {"files": files})
    return Parts(joined)
