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

from indexer.base.errors import InputError, UsageError
from indexer.documents import Document, Redirect
from indexer.files.listing import describe_folder
from indexer.files.sources import Reading, open_source, read_head


@dataclass(frozen=True, slots=True)
class Record:
    """A raw piece of a source: where it stands ("line 17"), and what `parse` needs.

    The payload is already an outcome, or an `InputError`, where reading alone has shown that.
    """

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
    folders: ClassVar[bool] = False
    """Whether a corpus of this format may be a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Whether the corpus looks like this format.

        `head`: a file's first 64 kB, decompressed; of a folder, nothing.
        """

    @abstractmethod
    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """Raw records in file order, streaming. Raises `InputError` where the file is damaged."""

    @abstractmethod
    def parse(self, record: Record) -> Iterable[Outcome]:
        """What a record holds. Raises `InputError` (without place: the caller adds it)."""

    def records(self, on_open: Callable[[Reading], None] | None = None) -> Iterator[Record]:
        """Open the file and read its records; `on_open` gets the source, for progress and hash."""
        source, stream = open_source(self.path)
        if on_open:
            on_open(source)
        with stream:
            yield from self.read_records(stream)

    def state(self) -> dict[str, Any]:
        """`bytes`, and what else tells, without reading, that the source has changed."""
        status = self.path.stat()
        return {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}

    def documents(self) -> Iterator[Outcome]:
        """Every outcome in order, in this process. Raises `InputError` with file and place."""
        for record in self.records():
            yield from parse_at(self, record)


def parse_at(reader: Reader, record: Record) -> Iterable[Outcome]:
    """`reader.parse(record)`, with file and place in the message of an `InputError`."""
    if isinstance(record.payload, InputError):
        raise record.payload
    if isinstance(record.payload, Outcome):
        return [record.payload]
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
    """The reader for a file or a folder: by name, or by looking at it.

    Raises `UsageError` for an unknown name, `InputError` for a corpus that no or several formats claim.
    """
    readers = all_readers()
    if not path.exists():
        raise InputError(f"{path}: no such file", "Check --corpus.")
    if format_name is not None:
        if format_name not in readers:
            raise UsageError(f"--format {format_name}: no such format", f"There are: {', '.join(readers)}.")
        reader = readers[format_name]
        if path.is_dir() and not reader.folders:
            raise InputError(
                f"{path}: a folder, but {format_name} is read from a file", _name(for_folder=True)
            )
        return reader(path)
    head = b"" if path.is_dir() else read_head(path)
    claims = [reader for reader in readers.values() if reader.recognises(path, head)]
    if len(claims) == 1:
        return claims[0](path)
    if path.is_file() and not head:
        raise InputError(f"{path}: the file is empty", "Check --corpus.")
    if claims:
        found = f"looks like {' and '.join(claim.name for claim in claims)}"
    elif path.is_dir():
        found = f"no format is known for this folder (it holds {describe_folder(path)})"
    else:
        found = "unknown format"
    raise InputError(f"{path}: {found}", _name(for_folder=path.is_dir()))


def _name(*, for_folder: bool) -> str:
    names = [name for name, reader in all_readers().items() if reader.folders or not for_folder]
    return f"Name {'a format of folders' if for_folder else 'its format'} with --format: {', '.join(names)}."
