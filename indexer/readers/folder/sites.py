"""The site of a folder's pages, as they show it: its hosts, and addresses of their own."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

from linkseek.indexer.program.paths import is_inside
from linkseek.indexer.readers.folder.page_targets import Targets, path_in, without_scheme

_SAMPLE = 2_000  # pages
_BYTES = 1 << 18  # of each
_ENOUGH = 5  # addresses of a host that are pages of the folder
_NAMED = 2  # that also name the folder, if it has as many pages to name
_ADDRESS = re.compile(rb"https?://([\w.-]+(?::\d+)?)(/[^\s\"'<>()\[\]{}|`]*)", re.I)


def sample(names: Sequence[str], size: int) -> Sequence[str]:
    """At most `size` of the names, in order; whether a name is among them depends little on the others."""
    return sorted(sorted(names, key=lambda name: (crc32(os.fsencode(name)), name))[:size])


def read_start(folder: Path, names: Sequence[str], size: int = _BYTES) -> Iterator[tuple[str, bytes]]:
    """(name, first bytes) of the files that can be read; nothing outside the folder is opened."""
    for name in names:
        path = folder / name
        try:
            if path.is_file() and is_inside(folder, path):
                with path.open("rb") as file:
                    yield name, file.read(size)
        except OSError:
            continue  # which reading the page will report


def guess_site(folder: Path, pages: Sequence[str], suffixes: Sequence[str], indexes: Sequence[str]) -> str:
    """The roots, between blanks, of which most addresses in the pages are pages of the folder themselves.

    A few such addresses can be chance, unless they name the folder: https://acme.example/docs/guide in docs/.
    A wiki of GitHub or GitLab has its own root on a host of many.
    """
    targets = Targets(pages, (), suffixes, indexes, above=folder.absolute().parts)
    addresses: dict[str, set[str]] = {}
    stated = Counter[str]()
    own = frozenset(pages)
    named_by = min(_NAMED, max(len(pages) - 1, 1))
    for name, content in read_start(folder, sample(pages, _SAMPLE)):
        stated.update(_stated_roots(name, content[:_HEAD], targets))
        for host, path in _ADDRESS.findall(content):
            root, below = _divide((host + path).decode("utf-8", "replace"))
            if below := path_in(below).strip("/").rstrip(".,;:"):
                addresses.setdefault(root, set()).add(below)
    roots = [root for root, count in stated.items() if count >= named_by or 2 * count > stated.total()]
    wikis: list[tuple[int, str]] = []
    for root, paths in addresses.items():
        found = [targets.find(path) for path in paths]
        named = [targets.resolve("", f"/{path}").target for path in paths]
        named = [page for page, other in zip(named, found, strict=True) if not other and page in own]
        hits = len(found) - found.count(None) + len(named)
        most = 2 * hits > len(paths)
        if _OF_WIKI.fullmatch(root):
            wikis.append((hits if most else 0, root))
        elif most and (len({*named}) >= named_by or len({*found} - {None}) >= _ENOUGH):
            roots.append(root)
    all_roots = sorted({*roots, *_own_wiki(folder, pages, wikis)})
    return " ".join(root if root.startswith("/") else f"https://{root}" for root in all_roots)


_HEAD = 1 << 14  # bytes of a page in which it names its address
_OWN_ADDRESS = re.compile(
    rb"""<(?:link\b(?=[^<>]*\brel\s*=\s*["']?canonical\b)|(base)\b)[^<>]*?\bhref\s*=\s*["']?((?:https?:/)?/[^\s"'<>]+)""",
    re.IGNORECASE,
)


def _stated_roots(page: str, head: bytes, targets: Targets) -> set[str]:
    """The roots that the addresses in the head of a page state: what stands before a page's name in them."""
    roots, home = set(), targets.find("")
    for base, written in _OWN_ADDRESS.findall(head):
        address = path_in(without_scheme(written.decode("utf-8", "replace")))
        folder = address.rpartition("/")[0]
        for whole in (f"{folder}/{page.rpartition('/')[2]}", f"{folder}/{page}") if base else (address,):
            starts = [match.end() for match in re.finditer("/", whole)]
            named = {targets.find(whole[at:]): at for at in reversed(starts)}
            start = named.pop(page, 0) or next(
                (at for name, at in named.items() if name not in (None, home)), 0
            )
            if start:
                roots.add(whole[:start].lower())
                break
    return roots


def _own_wiki(folder: Path, pages: Sequence[str], wikis: Sequence[tuple[int, str]]) -> list[str]:
    """The root that is this folder's, of (pages found, root); none in a folder that is no clone of a wiki."""
    name = folder.absolute().name.lower()
    if name.endswith(".wiki"):
        return [root for _, root in wikis if f"/{name.removesuffix('.wiki')}/" in root]
    tops = {page.rpartition(".")[0].lower() for page in pages}
    found, root = max(wikis, default=(0, ""))
    return [root] if found and tops & {"home", "_sidebar", "_footer"} else []


_OF_WIKI = re.compile(r"[^/]++/(?:[^/]++/){2,9}?(?:-/wikis|wiki)/")


def _divide(address: str) -> tuple[str, str]:
    """(root in lower case, path below it): the root is the host, or the root of a repository's wiki."""
    match = _OF_WIKI.match(address) or re.match("[^/]*/", address)
    assert match is not None
    return match[0].lower(), address[match.end() :]


_VERSION = re.compile(
    r"(?:v|version-)?\d+(?:\.\d+)*(?:\.x)?|latest|stable|next|current|main|master|dev|nightly", re.I
)


def versions_in(pages: Sequence[str]) -> list[str]:
    """Folders next to each other that hold versions of the same pages: by their names and by their pages."""
    below: dict[str, dict[str, set[str]]] = {}
    for page in pages:
        parts = page.split("/")
        at = next((n for n, part in enumerate(parts[:-1], start=1) if _VERSION.fullmatch(part)), 0)
        if at:
            around = below.setdefault("/".join(parts[: at - 1]), {})
            around.setdefault("/".join(parts[:at]), set()).add("/".join(parts[at:]))
    return [
        folder
        for around in below.values()
        for folder, own in sorted(around.items())
        if any(2 * len(own & others) > len(own) for other, others in around.items() if other != folder)
    ]
