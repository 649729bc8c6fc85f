"""The folder next to an index in which the next one is built, part by part, and then replaces it.

    INDEX.building/     finished parts, and the unfinished one (its building.json has the fingerprint)
    INDEX.lock          held while a build runs; the system releases it however the build ends

A part with the same fingerprint in the index in use, or in an interrupted build, is reused instead of being
built again: its files are linked, not copied, since no file of an index is ever altered. One rename
replaces the old index by the new one, and processes that have the old one open keep it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    TEMPORARY,
    Manifest,
    inventory,
    link_or_copy,
    lock_path,
    read_json,
    read_part,
    temporary_path,
    workspace_path,
    write_json,
)


class Workspace:
    """The folder next to an index in which the next one is built. Use as a context manager.

    Raises `BusyError` if another build holds it, `UsageError` if there is something else than an index at
    its place (it would be deleted). After an exception it stays, and the next build resumes from it.
    """

    def __init__(self, index: Path, *, fresh: bool = False) -> None:
        """`fresh`: delete an interrupted build, and reuse nothing of the index in use."""
        if index.name in ("", ".."):
            raise UsageError(f"--index {index}: not the name of a folder", "For example: --index index/NAME")
        self.index = index
        self.folder = workspace_path(index)
        self._lock_path = lock_path(index)
        self._fresh = fresh
        self.reused: list[str] = []

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

    def __exit__(self, kind: object = None, error: BaseException | None = None, *_: object) -> None:
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
        """Build one part, or reuse it, and return its manifest.

        fingerprint: everything that the part's content depends on. build: fills a folder and returns
        the part's own entries of the manifest; files that the folder holds are from an interrupted run
        with the same fingerprint. resumable: whether it can use these. elsewhere: see `reuse`.
        """
        reused = self.reuse(name, fingerprint, elsewhere)
        if reused is not None:
            return reused
        folder = self.begin(name, fingerprint, resumable=resumable)
        manifest = {"format_version": FORMAT_VERSION, "fingerprint": _as_json(fingerprint), **build(folder)}
        for leftover in list(folder.rglob(f"*{TEMPORARY}")):  # of interrupted writes
            _remove(leftover)
        manifest["files"] = inventory(folder)
        write_json(folder / MANIFEST, manifest)
        (folder / BUILDING).unlink()
        return manifest

    def reuse(
        self, name: str, fingerprint: Mapping[str, Any], elsewhere: Sequence[Path] = ()
    ) -> Manifest | None:
        """The manifest of a part that is finished here or in the index in use, from where it is linked.

        elsewhere: folders of the index in use where the same part may be as well.
        """
        folder, expected = self.folder / name, _as_json(fingerprint)
        for finished in (folder, self.index / name, *elsewhere):
            if self._fresh and finished != folder:
                continue
            try:
                manifest = read_part(finished)
            except DamagedIndexError:
                continue
            if manifest["fingerprint"] == expected:
                if finished != folder:
                    link_tree(finished, folder)
                self.reused.append(name)
                return manifest
        return None

    def begin(self, name: str, fingerprint: Mapping[str, Any], *, resumable: bool = True) -> Path:
        """The folder of an unfinished part: that of an interrupted run, if it fits, else an empty one."""
        folder = self.folder / name
        with suppress(DamagedIndexError):
            if resumable and read_json(folder / BUILDING) == _as_json(fingerprint):
                return folder
        _remove(folder)
        folder.mkdir(parents=True)
        write_json(folder / BUILDING, dict(fingerprint))
        return folder

    def in_use(self, name: str) -> Manifest | None:
        """The manifest of a part of the index in use; None if there is none, or for a fresh build."""
        try:
            return None if self._fresh else read_part(self.index / name)
        except DamagedIndexError:
            return None

    def reuse_others(self, fits: Callable[[Mapping[str, Any]], bool], but: Sequence[str]) -> list[str]:
        """Reuse the other Lucene and dense parts of the index in use whose fingerprint fits."""
        reused = []
        for folder in [self.index / BM25, *sorted((self.index / DENSE).glob("*"))]:
            name = str(folder.relative_to(self.index))
            manifest = None if name in but else self.in_use(name)
            if manifest and fits(manifest["fingerprint"]):
                link_tree(folder, self.folder / name)
                reused.append(name)
        return reused

    def publish(self, manifest: Manifest, parts: list[str]) -> None:
        """Replace the index in use by the finished one, with one rename.

        Other parts in the workspace (of an earlier attempt with other options) are deleted. Processes that
        have the old index open can still read it.
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


def _as_json(fingerprint: Mapping[str, Any]) -> Any:
    return orjson.loads(orjson.dumps(dict(fingerprint)))


def _check_place(index: Path) -> None:
    known = {DOCUMENTS, PASSAGES, LINKS, BM25, DENSE, MANIFEST}
    strange = {path.name for path in index.iterdir()} - known if index.is_dir() else set()
    if not strange and (index.is_dir() or not index.exists()):
        return
    problem = f"is not an index (it holds {min(strange)})" if strange else "is a file"
    raise UsageError(
        f"--index {index}: {problem}, and the new index would replace it", "Choose another --index."
    )


def _lock(path: Path) -> int:
    """Create and lock a file. The lock ends with the process, however that ends."""
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
    """The same files in another folder, as hard links where the file system has them."""
    _remove(target)
    temporary = temporary_path(target)
    _remove(temporary)
    shutil.copytree(source, temporary, copy_function=link_or_copy)
    temporary.rename(target)


def _exchange(new: Path, place: Path) -> None:
    """Exchange `new` and what is at `place`, atomically where the system can."""
    if not place.exists():
        new.rename(place)
        return
    if _rename_exchange(new, place):
        return
    old = temporary_path(place)
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
