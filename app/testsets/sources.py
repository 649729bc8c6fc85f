"""The contract of a source: one way to get a test set's questions and judgements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from linkseek.indexer.program.settings import Settings
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.runs import Qrels

AGAIN = "Get the file again."


@dataclass(frozen=True, slots=True)
class Places:
    """Where files may be: the user's data folder, and our cache of downloads."""

    data: Path | None
    cache: Path

    def first(self, names: tuple[str, ...]) -> Path | None:
        """The first of these names that is a file of the data folder."""
        paths = [self.data / name for name in names] if self.data else []
        return next((path for path in paths if path.is_file()), None)

    def in_data(self) -> str:
        """The data folder, for messages."""
        return f"in {self.data}" if self.data else "in a data folder (none is given)"


class Gap(NamedTuple):
    """A missing part of a source. download: whether `--download` gets it; size: bytes, None where unknown."""

    missing: str
    hint: str
    download: bool = False
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a source. judgements: rows read; `qrels` has fewer if some were skipped.

    folds: the official ones, by query id.
    """

    queries: list[Query]
    qrels: Qrels | None = None
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    judgements: int | None = None
    folds: dict[str, int] = field(default_factory=dict)
    read_from: str = ""


KINDS: dict[str, type[TestSetSource]] = {}
"""The kinds of sources by name, those of plug-ins too."""


class TestSetSource(Settings, ABC):
    """One way to a test set's files. Each kind has a field `kind`, its name in the TOML files."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Add a kind to `KINDS`."""
        if "kind" in cls.model_fields:
            KINDS[cls.model_fields["kind"].default] = cls

    @property
    @abstractmethod
    def needs(self) -> str:
        """The files or options that a user needs, in a few words (Markdown)."""

    @abstractmethod
    def gap(self, places: Places) -> Gap | None:
        """The first thing that is missing; None if `read` has all it needs."""

    @abstractmethod
    def read(self, places: Places) -> Contents:
        """Read the files. Raises `InputError` that names file and line."""

    def fetch(self, places: Places) -> None:
        """Download the missing files, if `gap` says that this is possible."""
        raise NotImplementedError


def grouped(pairs: list[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Query ids by the name of their group, from pairs (query id, group)."""
    groups: dict[str, list[str]] = {}
    for query, group in pairs:
        groups.setdefault(group, []).append(query)
    return {group: tuple(ids) for group, ids in groups.items()}
