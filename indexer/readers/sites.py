"""What a folder's pages show about the site that they are: its hosts, and addresses of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from linkseek.indexer.base.paths import is_inside
from linkseek.indexer.readers.targets import Site, Targets, path_in

_SAMPLE = 200  # pages
_BYTES = 1 << 18  # of each
_ENOUGH = 5  # addresses of a host that are pages of the folder
_ADDRESS = re.compile(rb"https?://([\w.-]+(?::\d+)?)(/[^\s\"'<>()\[\]{}|`]*)", re.I)


def sample(names: Sequence[str], size: int) -> Sequence[str]:
    """At most `size` of the names, evenly spaced."""
    return names if len(names) <= size else [names[at * len(names) // size] for at in range(size)]


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


def guess_site(folder: Path, pages: Sequence[str], suffixes: Sequence[str], indexes: Sequence[str]) -> Site:
    """The hosts of which most addresses in the pages are pages of the folder themselves.

    A few such addresses can be chance, unless they name the folder: https://acme.example/docs/guide in docs/.
    """
    targets = Targets(pages, (), suffixes, indexes, above=folder.absolute().parts)
    addresses: dict[str, set[str]] = {}
    for _, content in read_start(folder, sample(pages, _SAMPLE)):
        for host, path in _ADDRESS.findall(content):
            if len(path) > 1:
                addresses.setdefault(host.decode().lower(), set()).add(path.decode("utf-8", "replace"))
    hosts = []
    for host, paths in addresses.items():
        hits: Counter[bool] = Counter()
        for path in paths:
            written = path_in(path).rstrip(".,;:")
            found = targets.find(written.strip("/")) if written.strip("/") else None
            named = found is None and targets.resolve("", written).target
            page = named if named and targets.find(named) == named else None
            hits[True] += page is not None
            hits[False] += found is not None
        if 2 * hits.total() > len(paths) and (hits[True] or hits[False] >= _ENOUGH):
            hosts.append(host)
    return Site(frozenset(hosts))
