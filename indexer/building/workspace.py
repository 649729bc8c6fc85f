"""The folder beside an index in which the next one is built, part by part, and put in its place.

    INDEX.building/     finished parts, and the one that is being built (its building.json says from what)
    INDEX.lock          held while a build runs; the system lets it go however the build ends

A part whose fingerprint is that of the index in use, or of an interrupted build, is taken over instead
of being built again: its files are linked, not copied, since no file of an index is ever altered. The
new index takes the place of the old one with one rename, and whoever has the old one open keeps it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from indexer.base.errors import BusyError, DamagedIndexError, UsageError
from indexer.store.artifacts import (
    BM25,
    BUILDING,
    DENSE,
    DOCUMENTS,
    FORMAT_VERSION,
    LINKS,
    MANIFEST,
    PASSAGES,
    Manifest,
    inventory,
    read_json,
    read_part,
    write_json,
)


class Workspace:
    """The folder beside an index in which the next one is built. Use as a context manager.

    Raises `BusyError` if another build holds it, `UsageError` if the place is taken by something that
    is no index (it would be deleted). Left by an exception, it stays and the next build goes on from it.
    """

    def __init__(self, index: Path, *, fresh: bool = False) -> None:
        """`fresh`: forget an interrupted build, and take nothing over from the index in use."""
        if index.name in ("", ".."):
            raise UsageError(f"--index {index}: not the name of a folder", "For example: --index index/NAME")
        self.index = index
        self.folder = index.with_name(index.name + ".building")
        self._lock_path = index.with_name(index.name + ".lock")
        self._fresh = fresh
        self.taken_over: list[str] = []

    def __enter__(self) -> Workspace:
        self._lock = _lock(self._lock_path)
        try:
            _check_place(self.index)
            if self._fresh:
                _remove(self.folder)
            self.folder.mkdir(exist_ok=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(
        self, kind: object = None, error: BaseException | None = None, traceback: object = None
    ) -> None:
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(self.folder)  # a full disk does not say which
        self._lock_path.unlink(missing_ok=True)
        os.close(self._lock)

    def part(
        self,
        name: str,
        fingerprint: Mapping[str, Any],
        build: Callable[[Path], Manifest],
        *,
        resumable: bool = True,
        elsewhere: Sequence[Path] = (),
    ) -> Manifest:
        """Make one part and return its manifest.

        fingerprint: everything that the part's content depends on. build: fills a folder and returns
        what the manifest should say beside files; if the folder holds files, they are from an
        interrupted run with the same fingerprint. resumable: whether it can use these. elsewhere:
        folders in the index in use where the same part may be found, besides its own.
        """
        folder = self.folder / name
        fingerprint = orjson.loads(orjson.dumps(dict(fingerprint)))
        for finished in (folder, self.index / name, *elsewhere):
            if self._fresh and finished != folder:
                continue
            manifest = _finished(finished, fingerprint)
            if manifest is not None:
                if finished != folder:
                    link_tree(finished, folder)
                self.taken_over.append(name)
                return manifest
        mark = folder / BUILDING
        if not resumable or not _begun(mark, fingerprint):
            _remove(folder)
            folder.mkdir(parents=True)
            write_json(mark, fingerprint)
        manifest = {
            "format_version": FORMAT_VERSION,
            "fingerprint": fingerprint,
            **build(folder),
        }
        for leftover in folder.rglob("*.tmp"):  # of a write that a kill or a full disk cut off
            leftover.unlink()
        manifest["files"] = inventory(folder)
        write_json(folder / MANIFEST, manifest)
        mark.unlink()
        return manifest

    def in_use(self, name: str) -> Manifest | None:
        """The manifest of a part of the index in use; None if there is none, or a fresh build is wanted."""
        try:
            return None if self._fresh else read_part(self.index / name)
        except DamagedIndexError:
            return None

    def take_over_others(self, fits: Callable[[Mapping[str, Any]], bool], but: Sequence[str]) -> list[str]:
        """Take over the other Lucene and dense parts of the index in use whose fingerprint fits."""
        taken = []
        if self._fresh:
            return []
        for folder in [self.index / BM25, *sorted((self.index / DENSE).glob("*"))]:
            name = str(folder.relative_to(self.index))
            if name in but:
                continue
            try:
                manifest = read_part(folder)
            except DamagedIndexError:
                continue
            if fits(manifest["fingerprint"]):
                link_tree(folder, self.folder / name)
                taken.append(name)
        return taken

    def publish(self, manifest: Manifest, parts: list[str]) -> None:
        """Put the finished index in the place of the one in use, with one rename.

        Whatever else is in the workspace (parts of an earlier attempt with other options) is left
        out. The index in use stays readable for whoever has it open.
        """
        wanted = {name.partition("/")[0] for name in parts}
        for path in self.folder.iterdir():
            if path.name not in wanted:
                _remove(path)
        for path in (self.folder / DENSE).glob("*"):
            if f"{DENSE}/{path.name}" not in parts:
                _remove(path)
        write_json(self.folder / MANIFEST, {"format_version": FORMAT_VERSION, "parts": parts, **manifest})
        _exchange(self.folder, self.index)
        _remove(self.folder)


def _finished(folder: Path, fingerprint: Mapping[str, Any]) -> Manifest | None:
    try:
        manifest = read_part(folder)
    except DamagedIndexError:
        return None
    return manifest if manifest.get("fingerprint") == fingerprint else None


def _begun(mark: Path, fingerprint: Mapping[str, Any]) -> bool:
    try:
        return bool(read_json(mark) == fingerprint)
    except DamagedIndexError:
        return False


def _check_place(index: Path) -> None:
    if index.is_dir():
        known = {DOCUMENTS, PASSAGES, LINKS, BM25, DENSE, MANIFEST}
        strange = sorted(path.name for path in index.iterdir() if path.name not in known)
        if not strange:
            return
        problem = f"is no index (it holds {strange[0]})"
    elif index.exists():
        problem = "is a file"
    else:
        return
    raise UsageError(
        f"--index {index}: {problem}, and the new index would take its place", "Choose another --index."
    )


def _lock(path: Path) -> int:
    """Create and lock a file. The lock ends with the process, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Removed between open and lock? Then the file that we hold is not the one at this path.
            if os.fstat(handle).st_ino == path.stat().st_ino:
                return handle
        except BlockingIOError:
            os.close(handle)
            raise BusyError(
                f"{path.with_suffix('')}: another build is writing this index",
                "Wait for it to end, or choose another --index.",
            ) from None
        except FileNotFoundError:
            pass
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link_tree(source: Path, target: Path) -> None:
    """The same files at another place, without copying where the file system can (none is ever altered)."""
    _remove(target)
    temporary = target.with_name(target.name + ".taken")
    _remove(temporary)
    shutil.copytree(source, temporary, copy_function=_link_or_copy)
    temporary.rename(target)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _exchange(new: Path, place: Path) -> None:
    """Put `new` at `place`; what was there is at `new` afterwards, in one step where the system can."""
    if not place.exists():
        new.rename(place)
        return
    if _rename_exchange(new, place):
        return
    old = place.with_name(place.name + ".old")
    _remove(old)
    place.rename(old)
    new.rename(place)
    old.rename(new)


def _rename_exchange(a: Path, b: Path) -> bool:
    """Linux's renameat2 with RENAME_EXCHANGE (2); False where system or file system lacks it."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    at_fdcwd = -100
    if renameat2(at_fdcwd, os.fsencode(a), at_fdcwd, os.fsencode(b), 2) == 0:
        return True
    if ctypes.get_errno() in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(b))
