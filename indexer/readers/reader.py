"""What a reader is: it turns a source format into documents. Each format is one file of this folder.

A reader works in two steps, so that the second, which costs the most, can run in several processes
and a resumed build can pass over finished records without parsing them:

    records()      path -> raw records, each with its place in the file
    parse(record)  raw record -> documents, redirects, or the reason why it is skipped
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.files.encodings import as_utf8
from linkseek.indexer.files.sources import Reading, open_source, read_lines
from linkseek.indexer.program.errors import InputError, LinkseekError
from linkseek.indexer.readers.choices import DEFAULT, Choices


@dataclass(frozen=True, slots=True)
class Record:
    """A raw piece of a source: its place ("line 17"), and the input of `parse`.

    The payload is already an outcome, or an `InputError`, where reading alone has shown that.
    """

    place: str
    payload: Any
    size: int = 0
    """About how many bytes a large payload has, so that few are sent to a process at once."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A record that the rules of its format exclude, or parts of a document that are dropped.

    reason: counted in the summary. count: how many. name: of what, such as a template's; counted by name
    instead of being listed by place. part: whether it is a part of a document.
    """

    reason: str
    count: int = 1
    name: str = ""
    part: bool = False


def dropped(counts: Mapping[tuple[str, str], int]) -> list[Ignored]:
    """The dropped parts of a document, from the numbers by (reason, name)."""
    return [
        Ignored(reason, count, name, part=True)
        for (reason, name), count in sorted(counts.items())
        if reason and count
    ]


Outcome = Document | Redirect | Ignored


class Reader(ABC):
    """One source format. An instance holds the path and plain settings only, so it can be pickled."""

    name: ClassVar[str]
    """The value of `--format`."""
    description: ClassVar[str]
    """The corpus in one line of Markdown, for the table of formats in docs/how-to/corpora.md."""
    passage: ClassVar[str] = "100 words"
    """The default passage, for the same table."""
    passage_words: ClassVar[int] = 100
    """Default of --passage-words: 0 where the format's documents are passages already."""
    headings: ClassVar[bool] = False
    """Default of --headings: whether passages begin at sections, with their headings."""
    costly: ClassVar[bool] = False
    """Whether parsing a record takes long enough to pay for several processes."""
    decodes: ClassVar[bool] = False
    """Whether the reader finds out the encoding of a file itself; else it gets UTF-8."""
    folders: ClassVar[bool] = False
    """Whether a corpus of this format may be a folder."""

    def __init__(self, path: Path, choices: Choices = DEFAULT) -> None:
        self.path = path
        self.choices = choices

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Whether the corpus looks like this format.

        `head`: a file's first 64 kB, decompressed; of a folder, nothing.
        """

    @abstractmethod
    def parse(self, record: Record) -> Iterable[Outcome]:
        """The content of a record. Raises `InputError` (without place: the caller adds it)."""

    def settled(self, *, recognised: bool) -> Self:
        """This reader with choices that only the whole corpus shows. recognised: the format was not named.

        Raises `InputError` if a format that was recognised is of the smaller part of the corpus alone.
        """
        return self

    def language(self) -> str:
        """The language that the corpus as a whole names, as it writes it; empty if it names none.

        Single documents name theirs in their metadata, as "language".
        """
        return ""

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """Raw records in file order, streaming; here one a line. Raises `InputError` for a damaged file."""
        for number, line in read_lines(stream):
            yield Record(f"line {number:,}", line)

    def records(self, on_open: Callable[[Reading], None] | None = None) -> Iterator[Record]:
        """Open the file and read its records; `on_open` gets the source, for progress and hash."""
        source, stream = open_source(self.path)
        if on_open:
            on_open(source)
        with stream, named_errors(str(self.path), _CHECK):
            yield from self.read_records(stream if self.decodes else as_utf8(stream))

    def state(self) -> dict[str, Any]:
        """`bytes`, and what else shows, without reading, that the source has changed."""
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
    with named_errors(f"{reader.path}, {record.place}", _SKIP):
        try:
            return list(reader.parse(record))
        except InputError as error:
            raise InputError(f"{reader.path}, {record.place}: {error.message:.1000}", error.hint) from None


_SKIP = "Fix the record, or use --on-error skip to skip it."
_CHECK = "Check the file, or use --on-error skip to keep the intact part."


@contextmanager
def named_errors(place: str, hint: str) -> Iterator[None]:
    """Raise any error of a parser as an `InputError` that names the place.

    Parsers are given foreign bytes, and their documentation lists few of their exceptions. The errors of the
    machine (its files, its memory) and our own pass through.
    """
    try:
        yield
    except (LinkseekError, OSError, MemoryError):
        raise
    except RecursionError:
        raise InputError(f"{place}: nested too deep", hint) from None
    except Exception as error:
        problem = f"cannot be parsed ({type(error).__name__}: {error!s:.200})"
        raise InputError(f"{place}: {problem}", hint) from error


def damaged(problem: str, thing: str = "line") -> InputError:
    """The error for a damaged record, without its place."""
    return InputError(problem, f"Fix the {thing}, or use --on-error skip to skip it.")
