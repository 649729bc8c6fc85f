"""Compares a new reading of a corpus with the old: documents added, changed, removed, renamed.

Documents are compared by 64-bit hashes, 32 bytes for each, so a whole Wikipedia fits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.store.ids import IdTable, hash_id, hash_ids
from linkseek.indexer.store.tables import Row, Table


@dataclass(frozen=True)
class CorpusComparison:
    """The ids of documents by their change, in the order of their corpus.

    links: whose links lead elsewhere, as where the target was renamed, and nothing else changed. renamed:
    (old id, new id) of documents with the same text. redirects: how many redirects differ.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    redirects: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """The number of each."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value if isinstance(value, int) else len(value) for name, value in values.items()}

    @property
    def is_empty(self) -> bool:
        """Whether everything is as it was."""
        return not any(count for name, count in self.counts.items() if name != "unchanged")

    def to_json(self) -> dict[str, Any]:
        """Counts, and all names."""
        return {
            "counts": self.counts,
            "added": self.added,
            "changed": self.changed,
            "links": self.links,
            "renamed": [{"from": old, "to": new} for old, new in self.renamed],
            "removed": self.removed,
        }


class ReadDocuments(NamedTuple):
    """Documents and redirects of one corpus: tables, and the rows of each, int64 ascending."""

    documents: Table
    rows: NDArray[np.int64]
    redirects: Table
    redirect_rows: NDArray[np.int64]

    def id(self, row: int) -> str:
        """The id of one of the documents."""
        name: str = self.documents.value("id", int(self.rows[row]))
        return name

    def names(self) -> list[str]:
        """The ids of all documents and redirects."""
        pairs = ((self.documents, self.rows), (self.redirects, self.redirect_rows))
        return [table.value("id", row) for table, rows in pairs for row in rows.tolist()]

    def ids(self, mask: NDArray[np.bool_]) -> tuple[str, ...]:
        """The ids of the documents of a mask, bool [D]."""
        return tuple(map(self.id, np.flatnonzero(mask).tolist()))


class _Hashes(NamedTuple):
    """uint64 [D] each: of ids, of texts, of all but the targets of links, and of these."""

    ids: NDArray[np.uint64]
    texts: NDArray[np.uint64]
    contents: NDArray[np.uint64]
    targets: NDArray[np.uint64]


def compare(old: ReadDocuments, new: ReadDocuments) -> CorpusComparison:
    """Compare new documents with old ones."""
    before, after = _hashes(old), _hashes(new)
    was = IdTable.build(before.ids).rows(after.ids)  # [new], the row of each in the old documents, or -1
    stays = was >= 0
    same, same_targets = stays.copy(), stays.copy()
    same[stays] = before.contents[was[stays]] == after.contents[stays]
    same_targets[stays] = before.targets[was[stays]] == after.targets[stays]
    gone = np.ones(len(before.ids), np.bool_)
    gone[was[stays]] = False
    renamed = _renamed(before.texts, after.texts, np.flatnonzero(gone), np.flatnonzero(~stays))
    gone[list(renamed.values())] = False
    is_added = ~stays
    is_added[list(renamed)] = False
    return CorpusComparison(
        added=new.ids(is_added),
        changed=new.ids(stays & ~same),
        links=new.ids(same & ~same_targets),
        renamed=tuple((old.id(renamed[row]), new.id(row)) for row in sorted(renamed)),
        removed=old.ids(gone),
        unchanged=int((same & same_targets).sum()),
        redirects=len(_redirects(old) ^ _redirects(new)),
    )


def _renamed(
    before: NDArray[np.uint64], after: NDArray[np.uint64], gone: NDArray[np.int64], added: NDArray[np.int64]
) -> dict[int, int]:
    """New rows to old rows of documents with the same text, each used once, in the order of both."""
    places: dict[int, list[int]] = {}
    for row in gone[::-1].tolist():
        places.setdefault(int(before[row]), []).append(row)
    places.pop(_NO_TEXT, None)
    texts = ((row, int(after[row])) for row in added.tolist())
    return {row: places[text].pop() for row, text in texts if places.get(text)}


_NO_TEXT = hash_id("")


def _hashes(documents: ReadDocuments) -> _Hashes:
    rows = list(map(_hashed, documents.documents.chosen(documents.rows)))
    ids, texts, contents, targets = zip(*rows, strict=True) if rows else ((), (), (), ())
    return _Hashes(*(np.array(column, np.uint64) for column in (ids, texts, contents, targets)))


def _hashed(row: Row) -> tuple[int, int, int, int]:
    links = [(link["start"], link["end"]) for link in row["links"]]
    content = [links if name == "links" else value for name, value in row.items()]
    targets = [link["target"] for link in row["links"]]
    ids = hash_ids([row["id"], row["text"].strip(), repr(content), repr(targets)])
    return tuple(ids.tolist())


def _redirects(documents: ReadDocuments) -> set[int]:
    rows = documents.redirects.chosen(documents.redirect_rows)
    return {hash_id(f"{row['id']}\0{row['target']}") for row in rows}
