"""Where the links between the pages of a folder lead.

A link names a path, from its page or from the folder's root; the target is the name of the page that
this path means: as it is written, else ignoring case and Unicode form. Sites omit suffixes and the names of
index pages, so "guide/" is also "guide/index.html", and "guide/install" is "guide/install.html". Links
to other sites, out of the folder, to the page itself, and to files that are not pages (pictures, downloads)
are dropped. Other links that lead to nothing stay as dangling links.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|\\\\")


def is_external(href: str) -> bool:
    """Whether an address has a scheme or a host: http:, mailto:, //example.org."""
    return _SCHEME.match(href) is not None


def path_in(href: str) -> str:
    """The path of an address, percent-decoded; query and fragment are dropped."""
    return unquote(re.split("[?#]", href.strip(), maxsplit=1)[0], errors="replace")


def join(page: str, path: str) -> str | None:
    """A path as seen from a page, from the folder's root; None if it leads out of the folder.

    join("a/b.html", "../c/") = "c/"; join("a/b.html", "/d") = "d".
    """
    parts = [] if path.startswith("/") else page.split("/")[:-1]
    written = path.split("/")
    for part in written:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    folder = written[-1] in ("", ".", "..") and parts
    return "/".join(parts) + ("/" if folder else "")


class Targets:
    """The pages of a folder by every name that a link may use."""

    def __init__(
        self, pages: Iterable[str], others: Iterable[str], suffixes: Sequence[str], indexes: Sequence[str]
    ) -> None:
        """pages, others: names of files that are pages, and that are not.

        suffixes: those that links may omit, most likely first. indexes: the pages that a folder's name
        may mean, most likely first.
        """
        self._pages = frozenset(pages)
        self._others = frozenset(others)
        self._suffixes = suffixes
        self._indexes = indexes
        self._folded = _unique((_fold(page), page) for page in self._pages)
        self._stems = _unique((_fold_title(PurePosixPath(page).stem), page) for page in self._pages)

    def resolve(self, page: str, path: str, base: str | None = None) -> str | None:
        """The target of a link from `page`; None for one that is dropped.

        base: the start of relative paths, if not the page.
        """
        joined = join(page if base is None else base, path)
        if joined is None:
            return None
        target = self.find(joined)
        if target is None:
            return None if joined in self._others else joined or None
        return None if target == page else target

    def find(self, path: str) -> str | None:
        """The page that a path from the root means; None if there is none."""
        candidates = list(self._candidates(path))
        for candidate in candidates:
            if candidate in self._pages:
                return candidate
        return next(filter(None, (self._folded.get(_fold(candidate)) for candidate in candidates)), None)

    def find_stem(self, name: str) -> str | None:
        """The only page in any folder whose file has this name without its suffix."""
        return self._stems.get(_fold_title(name))

    def _candidates(self, path: str) -> Iterator[str]:
        bare = path.rstrip("/")
        if not path.endswith("/"):
            yield path
        before = f"{bare}/" if bare else ""
        if path.endswith("/") or not bare:
            yield from (before + index for index in self._indexes)
        stem = bare
        for suffix in (*self._suffixes, ".html", ".htm"):
            if bare.lower().endswith(suffix):
                stem = bare[: -len(suffix)]
                break
        for start in dict.fromkeys((bare, stem)):
            yield from (start + suffix for suffix in self._suffixes if start)
        if not path.endswith("/"):
            yield from (f"{stem}/{index}" for index in self._indexes)
        folder, _, last = stem.rpartition("/")
        if last.lower() == "index":
            yield from (f"{folder}/{index}" if folder else index for index in self._indexes)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _fold_title(name: str) -> str:
    """As wikis name files: blanks may be hyphens or underscores."""
    return re.sub("[ _]+", "-", _fold(name).strip())


def _unique(named: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Names by page; a name of several pages leads nowhere."""
    unique: dict[str, str | None] = {}
    for name, page in named:
        unique[name] = None if name in unique else page
    return unique
