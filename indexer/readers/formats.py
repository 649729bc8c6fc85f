"""The formats there are: by name, by looking at a corpus, and as a table for the documentation.

Kinds of files that no format reads (`foreign.toml`): which a file is, and what to do with it.
"""

import importlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from pkgutil import walk_packages
from types import ModuleType
from typing import NamedTuple

import linkseek.indexer.readers
from linkseek.indexer.files.encodings import utf8_head
from linkseek.indexer.files.json_stream import first_keys
from linkseek.indexer.files.listing import folder_suffixes, list_folder, suffixes_in_words
from linkseek.indexer.files.sources import read_head
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.plugins import load_plugins
from linkseek.indexer.program.text import escaped, nearest
from linkseek.indexer.readers.choices import DEFAULT, Choices
from linkseek.indexer.readers.reader import Reader

_LONG_LINE = 1 << 24
_MAX_KEYS = 10
_PACKAGES = [linkseek.indexer.readers]


def add_readers(package: ModuleType) -> None:
    """Add the formats in the files of a package; called by a plug-in as it is imported."""
    _PACKAGES.append(package)
    all_readers.cache_clear()


@cache
def all_readers() -> dict[str, type[Reader]]:
    """Every format by name, including plug-ins, in alphabetical order."""
    load_plugins()
    readers: dict[str, type[Reader]] = {}
    for package in _PACKAGES:
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, Reader) and "name" in vars(value):
                    readers[value.name] = value
    return dict(sorted(readers.items()))


def open_reader(path: Path, format_name: str | None = None, choices: Choices = DEFAULT) -> Reader:
    """The reader for a file or a folder: by name, or by looking at it.

    Raises `UsageError` for an unknown name, `InputError` for a corpus that no or several formats claim.
    """
    readers = all_readers()
    if not path.exists():
        raise InputError(f"{path}: no such file", "Check the path.")
    hint = "If it has one of the formats that linkseek build --help lists, name it with --format."
    if format_name is not None:
        if format_name not in readers:
            raise UsageError(f"--format {format_name}: no such format", nearest(format_name, readers))
        if path.is_dir() and not readers[format_name].folders:
            raise InputError(f"{path}: a folder, but {format_name} is read from a file", hint)
        return readers[format_name](path, choices).settled(recognised=False)
    try:
        head = b"" if path.is_dir() else utf8_head(read_head(path))
    except InputError:
        if (kind := kind_of(path.name)) and not kind.common:
            raise InputError(f"{path}: {kind.name}, which no format reads", kind.advice) from None
        raise
    if head and b"\n" not in head:  # a first line whose last fields may be further on
        head = utf8_head(read_head(path, _LONG_LINE))
    claims = [reader for reader in readers.values() if reader.recognises(path, head)]
    if len(claims) == 1:
        return claims[0](path, choices).settled(recognised=True)
    if not head and (path.is_file() or not any(path.iterdir())):
        raise InputError(f"{path}: the {'file' if path.is_file() else 'folder'} is empty", "Check the path.")
    if claims:
        problem = f"looks like {' and '.join(claim.name for claim in claims)}"
    elif path.is_dir():
        others = unread_texts(path, [entry.name for entry in list_folder(path)], lambda name: False)
        problem = f"no format is known for this folder (it holds {suffixes_in_words(folder_suffixes(path))})"
        hint = f"{how_to_convert(kind for _, kind in others)} {hint}".lstrip()
    else:
        kind = kind_of(path.name, head) or _UNKNOWN
        problem, hint = f"{kind.name}, which no format reads", f"{kind.advice} {hint}"
        if kind.common:
            problem = f"unknown format ({kind.name})".removesuffix(" ()")
            fields = escaped(", ".join(sorted(first_keys(head))[:_MAX_KEYS]))
            hint = f"Its objects have the fields {fields}. {hint}" if fields else hint
    raise InputError(f"{path}: {problem}", hint)


def formats_markdown() -> str:
    """The table of formats in docs/how-to/corpora.md, from the readers' own descriptions."""
    rows = [f"| `{r.name}` | {r.description} | {r.passage} |" for r in all_readers().values()]
    return "\n".join(["| format | corpus | a passage is |", "|---|---|---|", *rows]) + "\n"


_PICTURES = """png jpg jpeg gif svg webp ico bmp avif tif tiff mp3 mp4 webm mov wav ogg woff woff2 ttf otf eot
css scss js mjs ts map""".split()
_COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst)\Z")
_FEW = 4  # files of common kinds, as every project has
_EVERYWHERE = ("index", "readme")


class FileKind(NamedTuple):
    """A kind of files, as a table of `foreign.toml` describes it."""

    name: str
    advice: str
    suffixes: str = ""
    signs: str = ""
    keys: str = ""
    common: bool = False
    pages: bool = False


_UNKNOWN = FileKind("", 'Write JSON lines of id, title, text: {"id": "1", "text": "..."}.', common=True)


@cache
def kinds() -> tuple[FileKind, ...]:
    """All kinds in their order."""
    table = tomllib.loads(Path(__file__).with_name("foreign.toml").read_text("utf-8"))
    return tuple(FileKind(name, **values) for name, values in table.items())


def kind_of(name: str, head: bytes = b"") -> FileKind | None:
    """The kind of a file by its first bytes, else by its suffix."""
    keys = first_keys(head)
    for kind in kinds():
        if kind.signs and re.search(kind.signs.encode("latin-1"), head, re.MULTILINE):
            return kind
        if kind.keys and keys.issuperset(kind.keys.split()):
            return kind
    suffix = PurePosixPath(_COMPRESSED.sub("", name.lower())).suffix[1:]
    return next((kind for kind in kinds() if suffix and suffix in kind.suffixes.split()), None)


def unread_texts(
    folder: Path, names: Sequence[str], reads: Callable[[str], bool]
) -> Counter[tuple[str, FileKind]]:
    """How many files of a folder hold text of other kinds, by suffix.

    Not those next to whose name a page is: Sphinx's _sources/guide.rst.txt, of guide.html. By-products of
    many tools (package.json, CMakeLists.txt) count once, and not at all if there are few.
    """
    own = {_stem(name) for name in names if reads(name)}.difference(_EVERYWHERE)
    counts, common = Counter[tuple[str, FileKind]](), dict[str, tuple[str, FileKind]]()
    by_suffix: dict[str, FileKind | None] = {}
    for name in names:
        suffix = PurePosixPath(_COMPRESSED.sub("", name.lower())).suffix
        if reads(name) or _stem(name) in own:
            continue
        if suffix not in by_suffix:
            by_suffix[suffix] = kind_of(name, _head(folder / name) if kind_of(name) else b"")
        if (kind := by_suffix[suffix]) and kind.common:
            common[PurePosixPath(name).name] = suffix, kind
        elif kind:
            counts[suffix, kind] += 1
    return counts + Counter(common.values() if len(common) > _FEW else ())


def foreign_pages(folder: Path, names: Sequence[str]) -> FileKind | None:
    """The kind of pages that only look like pages of a format, if half of a folder's pages are of it."""
    heads = [(name, _head(folder / name)) for name in names]
    found = Counter(kind for name, head in heads if (kind := kind_of(name, head)) and kind.pages)
    return next((kind for kind, count in found.items() if 2 * count >= len(names)), None)


def _head(path: Path) -> bytes:
    try:
        return utf8_head(read_head(path)) if path.is_file() else b""
    except (InputError, OSError):
        return b""  # an archive, or damaged


def how_to_convert(found: Iterable[FileKind | None]) -> str:
    """What to do with files: a sentence for all kinds that it holds for, in their order."""
    sentences = _by_advice(filter(None, dict.fromkeys(found))).items()
    return " ".join(f"{', '.join(names)}: {advice}" for advice, names in sentences)


def _by_advice(found: Iterable[FileKind]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for kind in found:
        names.setdefault(kind.advice, []).append(kind.name)
    return names


def _stem(name: str) -> str:
    return PurePosixPath(name).name.partition(".")[0].lower()


def rank_of(reason: str) -> int:
    """Where the count of a reason stands in a list: files of text first, pictures and the like last."""
    return 1 if reason[0] != "." else 0 if kind_of(f"x{reason}") else 2 if is_picture(reason) else 1


def is_picture(name: str) -> bool:
    """Whether a file holds no text, by its suffix: a picture, a font, a program of a page."""
    return name.rpartition(".")[2].lower() in _PICTURES


def kinds_markdown() -> str:
    """The table in docs/how-to/corpora.md."""
    rows = (f"{', '.join(names)} | {advice}" for advice, names in _by_advice(kinds()).items())
    return "\n".join(["files | what to do", "---|---", *rows])
