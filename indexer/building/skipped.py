"""Records that a build skips, and dropped parts of others: counted by reason, with examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from linkseek.indexer.readers.formats import rank_of
from linkseek.indexer.readers.reader import Ignored
from linkseek.indexer.store.manifests import SkippedRecords

_EXAMPLES = 20


def _weight(item: tuple[str, int]) -> tuple[int, int, str]:
    reason, count = item
    return rank_of(reason), -count, reason


def is_of_files(reason: str) -> bool:
    """Whether files of a folder were skipped for this reason: those of other kinds, or excluded ones."""
    return reason.startswith((".", "with", "excluded", "symbolic"))


@dataclass
class Skipped:
    """The skipped records: their number for each reason, and the first few of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, Counter[str]] = field(default_factory=dict)
    """By reason, how often parts with a name were dropped: the most frequent names are its examples."""

    parts: set[str] = field(default_factory=set)
    """The reasons for which parts of documents were dropped."""

    def add(self, reason: str, example: str = "") -> None:
        """Count a skipped record."""
        self.counts[reason] += 1
        examples = self.examples.setdefault(reason, [])
        if example and len(examples) < _EXAMPLES:
            examples.append(example)

    def count(self, ignored: Ignored, place: str) -> None:
        """Count a record that is ignored, or a dropped part of a record."""
        if ignored.part:
            self.parts.add(ignored.reason)
        if not ignored.name:
            self.add(ignored.reason, place)
            self.counts[ignored.reason] += ignored.count - 1
            return
        self.counts[ignored.reason] += ignored.count
        self.names.setdefault(ignored.reason, Counter())[ignored.name] += ignored.count

    def to_json(self) -> dict[str, Any]:
        """The value for a manifest."""
        return {
            reason: {
                "count": count,
                "examples": [*self._most_frequent(reason), *self.examples.get(reason, [])],
                **({"part": True} if reason in self.parts else {}),
            }
            for reason, count in sorted(self.counts.items(), key=_weight)
        }

    def _most_frequent(self, reason: str) -> list[str]:
        names = sorted(self.names.get(reason, {}).items(), key=lambda item: (-item[1], item[0]))
        return [f"{name} ({count:,})" for name, count in names[:_EXAMPLES]]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Skipped:
        """The inverse of `to_json`."""
        return cls(
            Counter({reason: entry["count"] for reason, entry in value.items()}),
            {reason: list(entry["examples"]) for reason, entry in value.items()},
            parts={reason for reason, entry in value.items() if entry.get("part")},
        )

    @classmethod
    def from_records(cls, records: Mapping[str, SkippedRecords]) -> Skipped:
        """The skipped records of a manifest."""
        return cls.from_json({reason: records[reason].model_dump() for reason in records})

    def join(self, other: Skipped) -> None:
        """Add the skipped records of another build."""
        self.counts += other.counts
        self.parts |= other.parts
        for reason, examples in other.examples.items():
            joined = self.examples.get(reason, []) + examples
            self.examples[reason] = joined[:_EXAMPLES]

    def take_out(self, other: Skipped) -> None:
        """Subtract the skipped records of another build."""
        self.counts -= other.counts
        for reason, examples in other.examples.items():
            kept = [place for place in self.examples.get(reason, []) if place not in examples]
            self.examples[reason] = kept
