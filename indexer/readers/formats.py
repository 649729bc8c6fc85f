"""The formats there are: by name, by looking at a corpus, and as a table for the documentation."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import linkseek.indexer.readers
from linkseek.indexer.files.encodings import utf8_head
from linkseek.indexer.files.json_stream import BLANK, first_keys
from linkseek.indexer.files.listing import folder_suffixes, list_folder, suffixes_in_words
from linkseek.indexer.files.sources import read_head
from linkseek.indexer.program.errors import InputError, UsageError
from linkseek.indexer.program.plugins import load_plugins
from linkseek.indexer.program.text import escaped, nearest
from linkseek.indexer.readers.choices import DEFAULT, Choices
from linkseek.indexer.readers.conversions import how_to_convert, kind_of, unread_texts
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
    modules = [
        info.name
        for package in _PACKAGES
        for info in walk_packages(package.__path__, f"{package.__name__}.")
        if not info.ispkg
    ]
    for module in modules:
        for value in vars(importlib.import_module(module)).values():
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
    names = [name for name, reader in readers.items() if reader.folders or not path.is_dir()]
    hint = "If it has one of the formats that linkseek build --help lists, name it with --format."
    if format_name is not None:
        if format_name not in readers:
            raise UsageError(f"--format {format_name}: no such format", nearest(format_name, readers))
        if format_name not in names:
            raise InputError(f"{path}: a folder, but {format_name} is read from a file", hint)
        return readers[format_name](path, choices).settled(recognised=False)
    try:
        head = b"" if path.is_dir() else utf8_head(read_head(path))
    except InputError:
        if (kind := kind_of(path.name)) and not kind.common:
            raise InputError(f"{path}: {kind}, which no format reads", kind.advice) from None
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
        hint = f"{how_to_convert(others)} {hint}".lstrip()
    else:
        kind = kind_of(path.name, head)
        problem = "unknown format" if kind is None or kind.common else f"{kind}, which no format reads"
        if kind and kind.common:
            problem = f"{problem} ({kind})"
        fields = b", ".join(sorted(first_keys(head.lstrip(BLANK + b"[")))[:_MAX_KEYS])
        named = escaped(fields.decode("utf-8", "replace").replace('"', ""))
        advice = kind.advice if kind else 'Write JSON lines of id, title, text: {"id": "1", "text": "..."}.'
        hint = f"Its objects have the fields {named}. {advice} {hint}" if named else f"{advice} {hint}"
    raise InputError(f"{path}: {problem}", hint)


def formats_markdown() -> str:
    """The table of formats in docs/how-to/corpora.md, from the readers' own descriptions."""
    rows = [f"| `{r.name}` | {r.description} | {r.passage} |" for r in all_readers().values()]
    return "\n".join(["| format | corpus | a passage is |", "|---|---|---|", *rows]) + "\n"
