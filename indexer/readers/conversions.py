"""Kinds of files that no format reads (`foreign.toml`): which a file is, and what to do with it."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from linkseek.indexer.files.encodings import utf8_head
from linkseek.indexer.files.json_stream import BLANK, first_keys
from linkseek.indexer.files.sources import read_head
from linkseek.indexer.program.errors import InputError

_PICTURES = """png jpg jpeg gif svg webp ico bmp avif tif tiff mp3 mp4 webm mov wav ogg woff woff2 ttf otf eot
css scss js mjs ts map""".split()
_COMPRESSED = re.compile(r"\.(?:gz|bz2|xz|zst)\Z")
_FEW = 4  # files of common kinds, as every project has
_EVERYWHERE = ("index", "readme")


class Kind(NamedTuple):
    """A kind of files, as a table of `foreign.toml` describes it."""

    name: str
    advice: str
    suffixes: str = ""
    signs: str = ""
    keys: str = ""
    common: bool = False
    pages: bool = False

    def __str__(self) -> str:
        return self.name


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds in their order."""
    table = tomllib.loads(Path(__file__).with_name("foreign.toml").read_text("utf-8"))
    return tuple(Kind(name, **values) for name, values in table.items())


def kind_of(name: str, head: bytes = b"") -> Kind | None:
    """The kind of a file by its first bytes, else by its suffix."""
    keys = first_keys(head.lstrip(BLANK + b"["))
    for kind in kinds():
        if kind.signs and re.search(kind.signs.encode("latin-1"), head, re.MULTILINE):
            return kind
        if kind.keys and keys.issuperset(f'"{key}"'.encode() for key in kind.keys.split()):
            return kind
    suffix = PurePosixPath(_COMPRESSED.sub("", name.lower())).suffix[1:]
    return next((kind for kind in kinds() if suffix and suffix in kind.suffixes.split()), None)


def unread_texts(
    folder: Path, names: Iterable[str], reads: Callable[[str], bool]
) -> Counter[tuple[str, Kind]]:
    """How many files of a folder hold text of other kinds, by suffix.

    Not those next to whose name a page is: Sphinx's _sources/guide.rst.txt, of guide.html. By-products of
    many tools (package.json, CMakeLists.txt) count once, and not at all if there are few.
    """
    names = list(names)
    own = {_stem(name) for name in names if reads(name)}.difference(_EVERYWHERE)
    counts, common = Counter[tuple[str, Kind]](), dict[str, tuple[str, Kind]]()
    by_suffix: dict[str, Kind | None] = {}
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


def foreign_pages(folder: Path, names: Sequence[str]) -> Kind | None:
    """The kind of pages that only look like pages of a format, if most pages of a folder are of it."""
    heads = [(name, _head(folder / name)) for name in names]
    found = Counter(kind for name, head in heads if (kind := kind_of(name, head)) and kind.pages)
    return next((kind for kind, count in found.items() if 2 * count > len(names)), None)


def _head(path: Path) -> bytes:
    try:
        return utf8_head(read_head(path)) if path.is_file() else b""
    except (InputError, OSError):
        return b""  # an archive, or damaged


def in_words(counts: Counter[tuple[str, Kind]]) -> str:
    """The kinds of unread files, for a message: "12 .adoc (AsciiDoc), 3 .rst (reStructuredText)"."""
    return ", ".join(f"{count:,} {suffix} ({kind})" for (suffix, kind), count in counts.most_common(5))


def how_to_convert(counts: Counter[tuple[str, Kind]]) -> str:
    """A sentence for each kind, the most frequent first."""
    return " ".join(dict.fromkeys(f"{kind}: {kind.advice}" for (_, kind), _ in counts.most_common()))


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
    by_advice: dict[str, list[str]] = {}
    for kind in kinds():
        by_advice.setdefault(kind.advice, []).append(kind.name)
    rows = (f"{', '.join(names)} | {advice}" for advice, names in by_advice.items())
    return "\n".join(["files | what to do", "---|---", *rows])
