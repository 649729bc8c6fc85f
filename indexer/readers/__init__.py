"""Readers turn a source format into documents. Each format is one file of this folder.

A reader works in two steps, so that the second, which costs the most, can run in several processes
and a build that was interrupted can pass over finished records without parsing them:

    records()      path -> raw records, each with its place in the file
    parse(record)  raw record -> documents, redirects, or the reason why it is left out

To add a format, add a file with a subclass of `Reader`: it is found by its being there, offered by
`--format`, and checked by the contract tests.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from indexer.documents import Document, Redirect
from indexer.errors import InputError, UsageError
from indexer.sources import Source, open_source, read_head


@dataclass(frozen=True, slots=True)
class Record:
    """A raw piece of a source file: where it stands ("line 17"), and what `parse` needs."""

    place: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Ignored:
    """A record that is no document, by the rules of its format; `reason` is counted in the summary."""

    reason: str


Outcome = Document | Redirect | Ignored


class Reader(ABC):
    """One source format. An instance holds the path and plain settings only, so it can be pickled."""

    name: ClassVar[str]
    """What `--format` calls it."""
    summary: ClassVar[str]
    """One line for --help."""
    passage_words: ClassVar[int] = 100
    """Default of --passage-words: 0 where the format's documents are passages already."""
    costly: ClassVar[bool] = False
    """Whether parsing a record takes long enough to be worth several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Whether the file looks like this format. `head`: its first 64 kB, decompressed."""

    @abstractmethod
    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """Raw records in file order, streaming. Raises `InputError` where the file is damaged."""

    @abstractmethod
    def parse(self, record: Record) -> Iterable[Outcome]:
        """What a record holds. Raises `InputError` (without place: the caller adds it)."""

    def records(self, on_open: Callable[[Source], None] | None = None) -> Iterator[Record]:
        """Open the file and read its records; `on_open` gets the source, for progress and hash."""
        source, stream = open_source(self.path)
        if on_open:
            on_open(source)
        with stream:
            yield from self.read_records(stream)

    def documents(self) -> Iterator[Outcome]:
        """Every outcome in order, in this process. Raises `InputError` with file and place."""
        for record in self.records():
            yield from parse_at(self, record)


def parse_at(reader: Reader, record: Record) -> Iterable[Outcome]:
    """`reader.parse(record)`, with file and place in the message of an `InputError`."""
    try:
        return list(reader.parse(record))
    except InputError as error:
        raise InputError(f"{reader.path}, {record.place}: {error.message}", error.hint) from None


@cache
def all_readers() -> dict[str, type[Reader]]:
    """Every format by name, in alphabetical order of their files."""
    readers: dict[str, type[Reader]] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for value in vars(importlib.import_module(f"{__name__}.{module}")).values():
            if isinstance(value, type) and issubclass(value, Reader) and "name" in vars(value):
                readers[value.name] = value
    return readers


def open_reader(path: Path, format_name: str | None = None) -> Reader:
    """The reader for a file: by name, or by looking at it.

    Raises `UsageError` for an unknown name, `InputError` for a file that no or several formats claim.
    """
    readers = all_readers()
    if not path.exists():
        raise InputError(f"{path}: no such file", "Check --corpus.")
    if format_name is not None:
        if format_name not in readers:
            raise UsageError(f"--format {format_name}: no such format", f"There are: {', '.join(readers)}.")
        return readers[format_name](path)
    head = read_head(path) if path.is_file() else b""
    claims = [reader for reader in readers.values() if reader.recognises(path, head)]
    if len(claims) == 1:
        return claims[0](path)
    if path.is_file() and not head:
        raise InputError(f"{path}: the file is empty", "Check --corpus.")
    found = f"looks like {' and '.join(c.name for c in claims)}" if claims else "unknown format"
    raise InputError(f"{path}: {found}", f"Name its format with --format: {', '.join(readers)}.")
