"""The public files that a packing is made from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from linkseek.indexer.files.sources import open_source, read_lines
from linkseek.indexer.program.errors import InputError

_EPOCH = re.compile(r"_\d+%3a")
"""The part that `apt-get download` adds to the names of some of Debian's packages."""


class Originals:
    """The files of `--from` by the names that a packing uses for them; a name may include folders."""

    def __init__(self, places: Sequence[Path], addresses: Mapping[str, str]) -> None:
        """Raises `InputError` for a file that is in none of the places, with its address."""
        self._paths = {name: _locate(places, name, address) for name, address in addresses.items()}

    def path(self, name: str) -> Path:
        """The path of a file."""
        return self._paths[name]

    def json(self, name: str) -> Any:
        """A JSON file. Raises `InputError` if it is not JSON."""
        _, stream = open_source(self.path(name))
        with stream:
            try:
                return orjson.loads(stream.read())
            except orjson.JSONDecodeError as error:
                raise self.damaged(name, f"not JSON ({error})") from None

    def json_lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The objects of a JSON Lines file. Raises `InputError` for a line that is not an object."""
        for number, line in self._numbered(name):
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise self.damaged(name, f"line {number:,} is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise self.damaged(name, f"line {number:,} is not an object")
            yield row

    def lines(self, name: str, encoding: str = "utf-8") -> Iterator[str]:
        """The lines of a text file that are not blank."""
        for _, line in self._numbered(name):
            yield line.decode(encoding)

    def _numbered(self, name: str) -> Iterator[tuple[int, bytes]]:
        _, stream = open_source(self.path(name))
        with stream:
            yield from read_lines(stream)

    def damaged(self, name: str, fault: str) -> InputError:
        """An error about the contents of a file."""
        return InputError(f"{self.path(name)}: {fault}", "Get the file again.")


def _locate(places: Sequence[Path], name: str, address: str) -> Path:
    own = Path(name).name
    for place in places:
        if place.is_file() and _EPOCH.sub("_", place.name) == own:
            return place
        loaded = [path for path in place.glob("*%3a*") if _EPOCH.sub("_", path.name) == own]
        for path in (place / name, place / own, *loaded):
            if path.is_file():
                return path
    raise InputError(
        f"{name}: not among the files of --from", f"It is from {address}: give the file, or its folder."
    )
