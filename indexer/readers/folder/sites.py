"""The site of a folder's pages, as they show it: its hosts, and addresses of their own."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from zlib import crc32

from linkseek.indexer.program.paths import is_inside
from linkseek.indexer.readers.folder.page_targets import Targets, path_in, without_scheme

_SAMPLE = 2_000  # pages, and addresses of a host
_BYTES = 1 << 18  # of each
_ENOUGH = 5  # pages that addresses below a root name
_NAMED = 2  # of a root with two witnesses, if there are as many pages to name
_DEEPEST = 8  # folders of an address that may be its root
_ADDRESS = re.compile(rb"https?://([\w.-]+(?::\d+)?/[^\s\"'<>()\[\]{}|`]*)", re.I)


def sample(names: Sequence[str], size: int) -> Sequence[str]:
    """At most `size` of the names, in order; whether a name is among them depends little on the others."""
    return sorted(sorted(names, key=lambda name: (crc32(os.fsencode(name)), name))[:size])


def read_start(folder: Path, names: Sequence[str], size: int = _BYTES) -> Iterator[tuple[str, bytes]]:
    """(name, first bytes) of the files that can be read; nothing outside the folder is opened."""
    for name in names:
        path = folder / name
        with suppress(OSError):  # which reading the page will report
            if path.is_file() and is_inside(folder, path):
                with path.open("rb") as file:
                    yield name, file.read(size)


def guess_site(folder: Path, pages: Sequence[str], suffixes: Sequence[str], indexes: Sequence[str]) -> str:
    """The roots, between blanks, below which most addresses in the pages are pages of the folder itself.

    A few such addresses can be chance. They count if two witnesses speak for the root: that it ends with a
    part of the folder's path (https://acme.example/docs/ of docs/; two of pump.wiki/ in .../pump/wiki/), and
    that most addresses of its host are such pages; or that it is a wiki's, as the folder is. An address that
    stands only on the page it names says nothing: it leads to the page's source, or its history.
    """
    targets = Targets(pages, (), suffixes, indexes)
    addresses: dict[str, dict[str, set[str]]] = {}  # by host and path: the pages that name it
    stated = Counter[str]()
    named_by = min(_NAMED, max(len(pages) - 1, 1))
    for name, content in read_start(folder, sample(pages, _SAMPLE)):
        stated.update(_stated_roots(name, content[:_HEAD], targets))
        for written in _ADDRESS.findall(content):
            host, _, path = path_in(written.decode("utf-8", "replace")).rstrip("/.,;:").partition("/")
            if path:
                addresses.setdefault(host.lower(), {}).setdefault(path, set()).add(name)
    wiki = any(re.fullmatch(r"(?:home|_sidebar|_footer)\.\w+", page, re.IGNORECASE) for page in pages)
    roots = {root for root, count in stated.items() if count >= named_by or 2 * count > stated.total()}
    for host, paths in addresses.items():
        below: dict[str, list[str | None]] = {}
        for path in sample([*paths], _SAMPLE):
            for at in [0, *(match.end() for match in re.finditer("/", path))][:_DEEPEST]:
                if paths[path] != {target := targets.find(path[at:])}:
                    below.setdefault(f"{host}/{path[:at].lower()}", []).append(target)
        root, found = max(below.items(), key=lambda one: len(one[1]) - one[1].count(None), default=("", []))
        hits, own = len(found) - found.count(None), {*found} - {None}
        witnesses = _parts_named(folder, root) + (2 * hits > len(paths)) + 2 * (wiki and "/wiki" in root)
        few = len(own) < named_by or (len(own) < _ENOUGH and witnesses < 2)
        if 2 * hits >= len(found) and not few:
            roots.add(root)
    return " ".join(root if root.startswith("/") else f"https://{root}" for root in sorted(roots))


def _parts_named(folder: Path, root: str) -> int:
    """How many parts of a folder's path a root ends with; "pump.wiki" is two."""
    own, below = folder.absolute().as_posix().lower(), root.partition("/")[2].replace("/-/wikis/", "/wiki/")
    parts = [one.replace(".", "/").strip("/").split("/")[::-1] for one in (own, below)]
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*parts, strict=False)))


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


_VERSION = re.compile(
    r"(?:version-|v|([a-z]+[-_]))?\d+(?:[._]\d+)+(?:\.x)?(?:[-_.]?(?:alpha|beta|rc)[\d.]*)?"
    r"|(?:version-|v)?(?:0|[1-9]\d?)(?:\.x)?(?:-\d+\.(?:x|\d+))?"
    r"|latest|stable|next|current|main|master|dev|nightly|edge|lts",
    re.IGNORECASE,
)


def versions_in(pages: Sequence[str]) -> list[str]:
    """Folders next to each other that hold versions of the same pages: by their names, which differ in the
    number alone (not "debugger-5.3" and "eunit-2.8"), and by their pages."""
    below: dict[tuple[str, str | None], dict[str, set[str]]] = {}
    for page in pages:
        for part in re.finditer("([^/]+)/", page):
            if version := _VERSION.fullmatch(part[1]):
                around = below.setdefault((page[: part.start()], version[1]), {})
                around.setdefault(page[: part.end() - 1], set()).add(page[part.end() :])
                break
    return [
        folder
        for around in below.values()
        for folder, own in sorted(around.items())
        if any(2 * len(own & others) > len(own) for other, others in around.items() if other != folder)
    ]
