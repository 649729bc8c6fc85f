"""linkseek cache: models that were converted for this processor, how large they are, and which can go.

A conversion belongs to one version of OpenVINO and of our converter, and no other version reads it.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.program.text import byte_size, counted, printable
from linkseek.retriever.models.locations import cache_folder

PROGRAM = "linkseek cache"

_CONVERSION = re.compile(r"[0-9a-f]+-\w+-(?P<version>(?:\d+-)?openvino-[\w.+-]+|\d+-static)")
_COPY = re.compile(r"safetensors-[0-9a-f]{16}")
_SCRATCH = re.compile(r"tmp[a-z0-9_]{8}")
_REMOVED = re.compile(r"removed-[0-9a-f]{8}")
_DAY = 86_400  # seconds


class CacheOptions(Options):
    """List the converted models of this account, or remove some. They are made again when they are needed."""

    clean: bool = False
    """remove conversions for other versions, and what interrupted conversions have left"""
    unused: Annotated[int, Field(ge=0, le=36_500)] | None = None
    """with --clean: also remove conversions not opened for N days, and copies of weights older than N days"""
    all: bool = False
    """with --clean: remove everything"""


@dataclass(frozen=True)
class CachedModel:
    """A folder of the cache. kind: "in use", "of another version" or "left over". days: since it was used."""

    path: Path
    bytes: int
    kind: str
    days: int

    def is_removed(self, options: CacheOptions) -> bool:
        """Whether --clean removes it."""
        is_unused = options.unused is not None and self.days >= options.unused
        return options.all or is_unused or self.kind != "in use"


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(CacheOptions, argv, PROGRAM)
    for option, given in {"all": options.all, "unused": options.unused is not None}.items():
        if given and not options.clean:
            raise UsageError(f"--{option} is for --clean", "Add --clean to remove something.")
    entries = list(read_cache(cache_folder()))
    removed = [entry for entry in entries if entry.is_removed(options)] if options.clean else []
    for entry in removed:
        _remove(entry.path)
    for entry in removed if options.clean else entries:
        words = f"{entry.kind:<18}  {_used(entry.days):<17}  {printable(entry.path.name)}"
        print(f"{byte_size(entry.bytes):>10}  {words}")
    listed = removed if options.clean else entries
    what = "removed from" if options.clean else "in"
    total = byte_size(sum(entry.bytes for entry in listed))
    print(f"{counted(len(listed), 'model')}, {total}, {what} {printable(str(cache_folder()))}")


def read_cache(folder: Path) -> Iterator[CachedModel]:
    """Our own entries of the cache folder, known by name; nothing else is listed or removed."""
    from linkseek.retriever.models.backends.openvino_engine import conversion_version
    from linkseek.retriever.models.backends.static_engine import VERSION

    used = {conversion_version(), VERSION}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_dir():
            continue
        conversion = _CONVERSION.fullmatch(path.name)
        if conversion:
            kind = "in use" if conversion["version"] in used else "of another version"
        elif _COPY.fullmatch(path.name):
            kind = "in use"
        elif _is_left_over(path):
            kind = "left over"
        else:
            continue
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        yield CachedModel(path, size, kind, max(int((time.time() - path.stat().st_mtime) / _DAY), 0))


def _used(days: int) -> str:
    return f"{counted(days, 'day')} ago" if days else "today"


def _remove(folder: Path) -> None:
    """Remove a folder, first from where it is read: a half-removed copy would be taken for a complete one."""
    gone = folder.with_name(f"removed-{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):  # another process removes it as well
        folder.rename(gone)
        shutil.rmtree(gone)


def _is_left_over(folder: Path) -> bool:
    is_old = folder.stat().st_mtime < time.time() - _DAY  # no conversion takes a day
    return bool(_REMOVED.fullmatch(folder.name) or (_SCRATCH.fullmatch(folder.name) and is_old))
