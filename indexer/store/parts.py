"""The parts of an index together, and which record each of them has."""

from __future__ import annotations

from typing import TypeVar, cast

from linkseek.indexer.program.frozen import FrozenDict
from linkseek.indexer.store.artifacts import (
    BM25,
    DENSE,
    DOCUMENTS,
    LATE,
    LINKS,
    PASSAGES,
    SPARSE,
    encoder_of,
    prefix_of,
)
from linkseek.indexer.store.manifests import (
    AllDocuments,
    DocumentsPart,
    EncodedPart,
    LatePart,
    LinksPart,
    LucenePart,
    PartManifest,
    PassagesPart,
    SparsePart,
    VectorsPart,
)

E = TypeVar("E", bound="EncodedPart")

_KINDS: dict[str, type[PartManifest]] = {
    DOCUMENTS: DocumentsPart,
    PASSAGES: PassagesPart,
    LINKS: LinksPart,
    BM25: LucenePart,
    DENSE: VectorsPart,
    LATE: LatePart,
    SPARSE: SparsePart,
}


class Parts(FrozenDict[str, PartManifest]):
    """The records of the parts of an index, by name."""

    @property
    def documents(self) -> DocumentsPart:
        """The documents."""
        return cast(DocumentsPart, self[DOCUMENTS])

    @property
    def passages(self) -> PassagesPart:
        """The passages."""
        return cast(PassagesPart, self[PASSAGES])

    @property
    def dense(self) -> dict[str, VectorsPart]:
        """The vectors, by the names of their encoders."""
        return self.encoded(VectorsPart)

    @property
    def late(self) -> dict[str, LatePart]:
        """The token vectors, by the names of their encoders."""
        return self.encoded(LatePart)

    @property
    def sparse(self) -> dict[str, SparsePart]:
        """The term weights, by the names of their encoders."""
        return self.encoded(SparsePart)

    def encoded(self, kind: type[E]) -> dict[str, E]:
        """The parts of a kind, by the names of their encoders."""
        return {encoder_of(name): part for name, part in self.items() if isinstance(part, kind)}

    def made_by(self, encoder: str) -> EncodedPart | None:
        """What an encoder has made, by its location after the prefix of a kind, such as `LATE_PREFIX`."""
        made = ((name, part) for name, part in self.items() if isinstance(part, EncodedPart))
        return next((p for name, p in made if prefix_of(name) + p.encoder["location"] == encoder), None)


def part_kind(name: str, *, divided: bool = False) -> type[PartManifest]:
    """The record of a part by its name. divided: in an index of partitions."""
    if divided and name == DOCUMENTS:
        return AllDocuments
    return _KINDS.get(name.partition("/")[0], PartManifest)
