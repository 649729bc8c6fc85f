"""The base of readers of folders: which files are read, in which order, and what can go wrong.

A folder's files are read one after another, sorted by path. A file that cannot be read
is a damaged record like any other: it stops the build, or is skipped and counted with --on-error skip.

`FolderReader` is for any format that lies in files of a folder (many records in each, or one);
`PageReader` for those in which a file is a document, named by its path.
"""

import re
import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, Self

from linkseek.indexer.documents import Redirect
from linkseek.indexer.files.encodings import as_utf8, utf8_head
from linkseek.indexer.files.listing import ListedFile, list_folder, suffix_of
from linkseek.indexer.files.sources import MAX_RECORD, FolderSource, Reading, read_head
from linkseek.indexer.program.errors import InputError, raise_of_machine
from linkseek.indexer.program.text import escaped
from linkseek.indexer.readers.choices import DEFAULT, Choices
from linkseek.indexer.readers.folder.page_targets import SiteFacts, Targets, parse_site
from linkseek.indexer.readers.folder.sites import guess_site, sample, versions_in
from linkseek.indexer.readers.formats import (
    all_readers,
    foreign_pages,
    how_to_convert,
    is_picture,
    unread_texts,
)
from linkseek.indexer.readers.reader import Ignored, Outcome, Reader, Record, named_errors


class FolderReader(Reader):
    """A format whose corpus is a folder of files (or one such file, by --format).

    An instance is one reading: the folder is listed once, and again only in other processes.
    """

    folders = True
    suffixes: ClassVar[tuple[str, ...]]
    """The suffixes of the files that are read, in lower case: (".json", ".json.gz")."""
    includes: ClassVar[bool] = False
    """Whether a document may hold text of files that are not read themselves."""

    def __init__(self, path: Path, choices: Choices = DEFAULT) -> None:
        super().__init__(path, choices)
        self.reading = uuid.uuid4().hex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FolderReader) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        """Equal for copies of a reader in another process, whose results are computed once there."""
        return type(self), self.path, self.reading, self.choices

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """A folder in which no other format has more files; or a file that `recognises_file`."""
        if not path.is_dir():
            return cls.recognises_file(head)
        names = [entry.typed for entry in list_folder(path) if not entry.ignored]
        formats = [reader for reader in all_readers().values() if issubclass(reader, FolderReader)]
        own = cls._count(path, names)
        return 0 < own == max(reader._count(path, names) for reader in formats)

    @classmethod
    def _count(cls, path: Path, names: Sequence[str]) -> float:
        """How many files are of this format, if the first of them looks so."""
        own = [name for name in names if cls.reads(name)]
        try:
            return len(own) if own and cls.recognises_file(utf8_head(read_head(path / own[0]))) else 0
        except (InputError, OSError):
            return len(own)  # the reader will name the problem

    @classmethod
    def reads(cls, name: str) -> bool:
        """Whether a file of this name is one of the format's."""
        return name.lower().endswith(cls.suffixes)

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """Whether a file with such a suffix looks like this format. `head` as in `recognises`."""
        return True

    @abstractmethod
    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """The raw records of one file, each with its place in it ("line 17").

        Raises `InputError` where the file is damaged; the folder's other files are read all the same.
        """

    def path_of(self, name: str) -> str:
        """A file's path, for messages."""
        return f"{self.path}/{escaped(name)}" if self.path.is_dir() else str(self.path)

    def alias(self, entry: ListedFile) -> Outcome:
        """The outcome for a symbolic link to another file of the folder."""
        return Ignored("symbolic link to a file that is read already")

    def entries(self) -> tuple[ListedFile, ...]:
        """The folder's files in order."""
        return _entries(self.path, self.reading)

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """The records of a corpus that is one file."""
        return self.read_file(self.path.name, stream)

    def records(self, on_open: Callable[[Reading], None] | None = None) -> Iterator[Record]:
        """Raw records of every file; for a file that cannot be read, a record that holds the error."""
        if not self.path.is_dir():
            yield from super().records(on_open)
            return
        source = FolderSource(self.path, sum(entry.bytes for entry in self._own()))
        if on_open:
            on_open(source)
        for entry in self.entries():
            instead = self._instead(entry)
            if instead is None:
                yield from self._records_of(source, entry.name)
            else:
                yield Record(escaped(entry.name), instead)

    def state(self) -> dict[str, Any]:
        """Size and time of all files that are read or may be included, and the names of the others."""
        if not self.path.is_dir():
            return super().state()
        digest = sha256()
        for entry in self.entries():
            matters = self.reads(entry.typed) or (self.includes and not is_picture(entry.name))
            status = (entry.bytes, entry.modified_ns) if matters else ()
            digest.update(repr((entry.name, entry.ignored, entry.same_as, *status)).encode())
        own = self._own()
        return {
            "bytes": sum(entry.bytes for entry in own),
            "modified_ns": max((entry.modified_ns for entry in own), default=0),
            "files_sha256": digest.hexdigest(),
        }

    def paths(self) -> list[Path]:
        """The files that are read."""
        return [self.path / entry.name for entry in self._own()] if self.path.is_dir() else [self.path]

    def _own(self) -> list[ListedFile]:
        return [entry for entry in self.entries() if self._instead(entry) is None]

    def _is_excluded(self, name: str) -> bool:
        """A pattern without folders is for names in any folder; one of a folder, for all that is in it."""
        path = PurePosixPath(name)
        return any(
            fnmatchcase(str(one), pattern)
            for pattern in (given.removeprefix("./").rstrip("/") for given in self.choices.exclude)
            for one in ((path, *path.parents) if "/" in pattern else path.parts)
        )

    def _instead(self, entry: ListedFile) -> Outcome | InputError | None:
        """The payload of a file's record if the file is not read, else None."""
        if self._is_excluded(entry.name):
            return Ignored("excluded by --exclude")
        if entry.problem:
            return InputError(f"{self.path_of(entry.name)}: {entry.problem}", _UNREADABLE)
        if not self.reads(entry.typed):
            return Ignored(entry.ignored or suffix_of(entry.name))
        if entry.ignored:
            return Ignored(entry.ignored)
        return self.alias(entry) if entry.same_as and self.reads(entry.same_as) else None

    def _records_of(self, source: FolderSource, name: str) -> Iterator[Record]:
        try:
            with source.open(name) as stream, named_errors(self.path_of(name), _UNREADABLE):
                for record in self.read_file(name, stream if self.decodes else as_utf8(stream)):
                    inside = "" if record.place == name else f"{escaped(name)}, "
                    yield Record(inside + record.place, record.payload, record.size)
        except InputError as error:
            yield Record(escaped(name), error)
        except OSError as error:
            if not isinstance(error, PermissionError):
                raise_of_machine(error)
            problem = f"{self.path_of(name)}: {error.strerror or error}"
            yield Record(escaped(name), InputError(problem, _UNREADABLE))


_UNREADABLE = "Check it and its permissions, or use --on-error skip to skip it."


@lru_cache(maxsize=4)
def _entries(folder: Path, reading: str) -> tuple[ListedFile, ...]:
    """The listing of one reading, shared by all callers in this process."""
    return tuple(list_folder(folder))


class PageReader(FolderReader):
    """A format in which a file is a document; its id is its path in the folder.

    A record's place is the path, its payload the file's bytes. A single file is read by --format only.
    """

    costly = headings = decodes = True
    whole: "PageReader | None" = None
    """The reader of all pages that links may lead to, if this one reads a part of them."""
    indexes: ClassVar[tuple[str, ...]]
    """The pages that a link to a folder may mean, most likely first."""
    max_bytes: ClassVar[int] = MAX_RECORD
    """A larger file is refused: it is not a page, or would take minutes."""
    large: ClassVar[tuple[str, ...]] = ()
    """Suffixes of files that may be as large as any record."""

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """A folder in which no other format has more files."""
        return path.is_dir() and super().recognises(path, head)

    @classmethod
    def facts(cls, path: Path, names: Sequence[str], dialect: str) -> SiteFacts:
        """Facts that the files of a folder state about their addresses; empty by default."""
        return SiteFacts()

    @classmethod
    def stated(cls, path: Path, names: Sequence[str]) -> dict[str, str]:
        """Choices that config files of a folder state, by name; empty where the format has the choice, but no
        file states it."""
        return {}

    def settled(self, *, recognised: bool) -> Self:
        """With `guessed` choices: what config files state, else what was guessed before, else a new guess."""
        if not self.path.is_dir():
            return self
        names = [entry.typed for entry in self.entries() if not self._is_excluded(entry.name)]
        own = [name for name in names if self.reads(name)]
        others = unread_texts(self.path, names, self.reads) if recognised else Counter()
        if others and (others.total() > len(own) or all(map(_ABOUT.search, own))):
            heaviest = others.most_common()
            unread = ", ".join(f"{n:,} {suffix} ({kind.name})" for (suffix, kind), n in heaviest[:5])
            advice = how_to_convert(kind for (_, kind), _ in heaviest)
            raise InputError(
                f"{self.path}: most of its text would not be read: {unread}; "
                f"only {len(own):,} would, as {self.name}",
                f"{advice} To read the {len(own):,} alone: --format {self.name}.",
            )
        if recognised and (kind := foreign_pages(self.path, sample(own, _FEW_PAGES))):
            raise InputError(
                f"{self.path}: {kind.name}", f"{kind.advice} Or read it as it is: --format {self.name}."
            )
        self.choices = self._settled()
        return self

    def _settled(self) -> Choices:
        names, pages = [entry.name for entry in self.entries()], self._pages()
        stated, kept = self.stated(self.path, names), dict(self.choices.guessed)
        values = stated | kept | {name: value for name, value in stated.items() if value}
        if versions := versions_in(pages):
            values["versions"] = ", ".join(versions[:_FEW_PAGES])
        if not self.choices.site and not values.get("site") and "site" not in kept:
            values["site"] = guess_site(self.path, pages, self.suffixes, self.indexes)
        return replace(self.choices, guessed=tuple(sorted(({"site": ""} | values).items())))

    def _pages(self) -> list[str]:
        return [entry.name for entry in self.entries() if self.reads(entry.typed)]

    def targets(self) -> Targets:
        """Resolves links between the pages."""
        return _targets(self.whole or self)

    def alias(self, entry: ListedFile) -> Outcome:
        """Another name of the same page."""
        if any(name != escaped(name) for name in (entry.name, entry.same_as)):
            return Ignored("symbolic link whose name cannot be printed")
        return Redirect(entry.name, entry.same_as)

    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """One record. Raises `InputError` for a name that cannot be an id, or a file that is too large."""
        if name != escaped(name):
            raise InputError(
                f"{self.path_of(name)}: the name holds a line break or another character that "
                "cannot be printed, or is not UTF-8",
                "Rename the file, or use --on-error skip to skip it.",
            )
        limit = MAX_RECORD if name.lower().endswith(self.large) else self.max_bytes
        content = stream.read(limit + 1)
        if len(content) > limit:
            problem = f"{self.path_of(name)}: more than {limit:,} bytes, too large for a page"
            raise InputError(problem, "Split the file, or use --on-error skip to skip it.")
        yield Record(name, content, len(content))


_ABOUT = re.compile(
    r"(?:^|/)(?:readme|licen[cs]e|change(?:log|s)|contributing|code_of_conduct)\b", re.IGNORECASE
)
"""Pages about the files next to them."""
_FEW_PAGES = 5


@lru_cache(maxsize=4)
def _targets(reader: PageReader) -> Targets:
    path, suffixes, indexes = reader.path, reader.suffixes, reader.indexes
    if not path.is_dir():
        return Targets([path.name], (), suffixes, indexes)
    names, pages = [entry.name for entry in reader.entries()], reader._pages()
    guessed = dict((reader.choices if reader.choices.guessed else reader._settled()).guessed)
    facts = reader.facts(path, names, reader.choices.markdown or guessed.get("markdown", ""))
    others = {*names} - {*pages}
    site = parse_site(reader.choices.site or guessed["site"])
    return Targets(pages, others, suffixes, indexes, above=path.absolute().parts, site=site, facts=facts)
