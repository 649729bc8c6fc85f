"""The folder next to an index in which the next one is built, part by part, and then replaces it.

    INDEX.linkseek-building/    finished parts, and the unfinished one (its building.json has the fingerprint)
        .linkseek.json          marks the folder as ours

A part with the same fingerprint in the index in use, or in an interrupted build, is reused instead of being
built again: its files are linked, not copied, since no file of an index is ever altered. One rename
replaces the old index by the new one, and processes that have the old one open keep it. A folder with any
file that the manifests of an index do not list is not replaced.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import orjson

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, MismatchError, UsageError
from linkseek.indexer.program.frozen import frozen
from linkseek.indexer.program.paths import path_problem
from linkseek.indexer.store.artifacts import (
    BM25,
    BUILDING,
    DOCUMENTS,
    LINKS,
    MANIFEST,
    PARTITIONS,
    PASSAGES,
    PREFIXES,
    TEMPORARY,
    VECTORS,
    link_or_copy,
    read_json,
    temporary_path,
    workspace_path,
    write_json,
)
from linkseek.indexer.store.manifest_files import (
    inventory,
    is_index,
    part_kind,
    read_index_manifest,
    read_part,
    write_manifest,
)
from linkseek.indexer.store.manifests import FORMAT_VERSION, Entries, IndexManifest, PartManifest
from linkseek.indexer.store.outputs import RECORD, locked

P = TypeVar("P", bound=PartManifest)


class Workspace:
    """The folder next to an index in which the next one is built. Use as a context manager.

    Raises `BusyError` if another build holds it, `UsageError` if a file at the place of the index is not one
    of an index (it would be deleted). After an exception it stays, and the next build resumes from it.
    """

    def __init__(self, index: Path, *, fresh: bool = False, sample: Path | None = None) -> None:
        """fresh: delete an interrupted build, and reuse nothing of the index in use.

        sample: another folder for a build that is not published; nothing is written anywhere else.
        """
        if index.name in ("", ".."):
            raise UsageError(f"--index {index}: not the name of a folder", "For example: --index index/NAME")
        self.index = index
        self.folder = sample or workspace_path(index)
        self._fresh = fresh
        self._finished = () if fresh else (workspace_path(index), index) if sample else (index,)
        self.reused: list[str] = []

    def __enter__(self) -> Workspace:
        with ExitStack() as stack:
            stack.enter_context(locked(self.index))
            check_place(self.index)
            _check_workspace(self.folder)
            if self._fresh:
                _clear(self.folder)
            self.folder.mkdir(exist_ok=True)
            write_json(self.folder / RECORD, {})
            self._lock = stack.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if isinstance(error, OSError) and error.errno and not error.filename:
            error.filename = str(self.folder)  # a full disk does not say which
        self._lock.close()

    def part(
        self,
        kind: type[P],
        name: str,
        fingerprint: Mapping[str, Any],
        build: Callable[[Path], Entries],
        *,
        resumable: bool = True,
        elsewhere: Sequence[str] = (),
    ) -> P:
        """Build one part, or reuse it, and return its manifest.

        kind: the class of its record. fingerprint: everything that the part's content depends on. build:
        fills a folder and returns the part's own entries of the manifest; files that the folder contains are
        from an interrupted run with the same fingerprint. resumable: whether it can use these. elsewhere: see
        `reuse`.
        """
        reused = self.reuse(kind, name, fingerprint, elsewhere)
        if reused is not None:
            return reused
        folder = self.begin(name, fingerprint, resumable=resumable)
        entries = build(folder)
        for leftover in list(folder.rglob(f"*{TEMPORARY}")):  # of interrupted writes
            _remove(leftover)
        manifest = kind(
            format_version=FORMAT_VERSION,
            fingerprint=as_json(fingerprint),
            files=inventory(folder),
            **entries,
        )
        write_manifest(folder, manifest)
        (folder / BUILDING).unlink()
        return manifest

    def reuse(
        self, kind: type[P], name: str, fingerprint: Mapping[str, Any], elsewhere: Sequence[str] = ()
    ) -> P | None:
        """The manifest of a part that is finished here or in the index in use, from where it is linked.

        elsewhere: folders of the index in use where the same part may be as well.
        """
        folder = self.folder / name
        others = [place / folder for folder in (name, *elsewhere) for place in self._finished]
        for place in (folder, *others):
            with suppress(DamagedIndexError):
                manifest = read_part(place, kind)
                if manifest.fingerprint != as_json(fingerprint):
                    continue
                if place != folder:
                    link_tree(place, folder)
                (folder / BUILDING).unlink(missing_ok=True)  # of a run that was killed when it was complete
                self.reused.append(name)
                return manifest
        return None

    def begin(self, name: str, fingerprint: Mapping[str, Any], *, resumable: bool = True) -> Path:
        """The folder of an unfinished part: an interrupted run's folder if it fits, else an empty folder."""
        folder = self.folder / name
        with suppress(DamagedIndexError):
            if resumable and frozen(read_json(folder / BUILDING)) == as_json(fingerprint):
                return folder
        _remove(folder)
        folder.mkdir(parents=True)
        write_json(folder / BUILDING, dict(fingerprint))
        return folder

    def index_in_use(self) -> OpenIndex | None:
        """The index in use, from which a build copies; None if that is damaged or has partitions."""
        with suppress(DamagedIndexError, MismatchError):
            index = None if self._fresh else OpenIndex.open(self.index)
            return None if index is None or index.partitions else index
        return None

    def check_not_updated(self) -> None:
        """Raises `UsageError` if a build would undo updates of the index in use (`building.updating`)."""
        with suppress(DamagedIndexError):
            updates = () if self._fresh else read_index_manifest(self.index).updates
            if updates and not updates[-1].rebuilt:
                raise UsageError(
                    f"{self.index}: was updated after it was built, and a new build would undo that",
                    "Add an encoder by linkseek update --index DIR --encoder NAME; start again by --fresh.",
                )

    def reuse_others(self, fits: Callable[[Mapping[str, Any]], bool], but: Sequence[str]) -> list[str]:
        """Reuse the other Lucene and dense parts of the index in use whose fingerprint fits."""
        reused = []
        vectors = (folder for kind in PREFIXES for folder in sorted((self.index / kind).glob("*")))
        for folder in () if self._fresh else (self.index / BM25, *vectors):
            name = folder.relative_to(self.index).as_posix()
            with suppress(DamagedIndexError):
                if name not in but and fits(read_part(folder, part_kind(name)).fingerprint):
                    link_tree(folder, self.folder / name)
                    reused.append(name)
        return reused

    def publish(self, manifest: IndexManifest) -> None:
        """Replace the index in use by the finished one, with one rename.

        Other parts in the workspace (of an earlier attempt with other options) are deleted. Processes that
        have the old index open can still read it.
        """
        wanted = {RECORD, *(name.partition("/")[0] for name in [*manifest.parts, *manifest.partitions])}
        for path in self.folder.iterdir():
            if path.name not in wanted:
                _remove(path)
        for folder in PREFIXES:
            for path in (self.folder / folder).glob("*"):
                if f"{folder}/{path.name}" not in manifest.parts:
                    _remove(path)
        write_manifest(self.folder, manifest)
        check_place(self.index)  # again, after hours perhaps
        (self.folder / RECORD).unlink()
        _exchange(self.folder, self.index)
        _clear(self.folder)


def as_json(fingerprint: Mapping[str, Any]) -> Any:
    """A fingerprint as it is read from a file."""
    return frozen(orjson.loads(orjson.dumps(dict(fingerprint))))


def check_place(index: Path) -> None:
    """Raises `UsageError` if an index cannot be put there without the loss of a file of the user."""
    hint = "Choose another --index."
    if index.exists() and not index.is_dir():
        raise UsageError(f"--index {index}: is a file, which the new index would replace", hint)
    if _is_mount_point(index):
        raise UsageError(
            f"--index {index}: is a mount point, and a new index replaces the folder",
            f"Name a folder in it: --index {index / 'wiki'}",
        )
    strange = strange_file(index)
    if strange is not None:
        place = strange.relative_to(index)
        raise UsageError(
            f"--index {index}: is not an index (it contains {place}), but would be replaced", hint
        )


def _check_workspace(folder: Path) -> None:
    """Raises `UsageError` if a folder with the name of a workspace contains files of the user.

    A workspace without the record was copied, or is the last index, half deleted.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder}: not the folder of a build", "Move it away.")
    names = {path.name.removesuffix(TEMPORARY) for path in folder.glob("*")} - {RECORD, MANIFEST}
    ours = names <= {DOCUMENTS, PASSAGES, LINKS, BM25, *PREFIXES, VECTORS, PARTITIONS}
    known = (folder / RECORD, *folder.rglob(MANIFEST), *folder.rglob(BUILDING))
    if not ours or (names and not any(path.is_file() for path in known)):
        raise UsageError(
            f"{folder}: contains files that no build made", "Move them away, or choose another --index."
        )


def _clear(folder: Path) -> None:
    """Delete a workspace, its record last."""
    if folder.exists():
        write_json(folder / RECORD, {})
        for path in folder.iterdir():
            if path.name != RECORD:
                _remove(path)
        _remove(folder)


def strange_file(index: Path) -> Path | None:
    """The first file in a folder that no manifest of an index lists; None if all are listed.

    A known part whose manifest is damaged counts as listed if the index names it.
    """
    ours: set[Path] = set()
    for path in index.rglob(MANIFEST):
        files = _files_of(path.parent)
        if files is not None and path.parent != index:
            ours |= {path, *(path.parent / name for name in files)}
    ours |= {path for path in index.glob(f"{PARTITIONS}/*/{MANIFEST}") if is_index(path.parent)}
    parts: tuple[str, ...] = ()
    with suppress(DamagedIndexError):
        parts = read_index_manifest(index).parts
    if parts or ours:
        ours.add(index / MANIFEST)
    known = {DOCUMENTS, PASSAGES, LINKS, BM25, *PREFIXES}
    damaged = {index / p for p in parts if p.partition("/")[0] in known and _files_of(index / p) is None}
    present = (path for path in sorted(index.rglob("*")) if path.is_symlink() or not path.is_dir())
    return next((path for path in present if path not in ours and damaged.isdisjoint(path.parents)), None)


def _files_of(part: Path) -> list[str] | None:
    """The files that the manifest of a Linkseek part lists, of any version; None for any other folder."""
    with suppress(DamagedIndexError):
        manifest = read_json(part / MANIFEST)
        if (
            isinstance(manifest, dict)
            and "format_version" in manifest
            and isinstance(manifest.get("files"), dict)
            and not any(map(path_problem, manifest["files"]))
        ):
            return list(manifest["files"])
    return None


def _is_mount_point(path: Path) -> bool:
    """Whether a file system is mounted there, also by a bind mount, which has no other device number."""
    mounts = set()
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
            octal = re.compile(rb"\\([0-7]{3})")
            mounts.add(octal.sub(lambda match: bytes([int(match[1], 8)]), line.split()[4]))
    return os.path.ismount(path) or os.fsencode(path) in mounts


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
    """Exchange `new` and `place`, atomically where the system can."""
    if not place.exists():
        new.rename(place)
        return
    if _rename_exchange(new, place):
        return
    old = temporary_path(place)
    check_place(old)
    _remove(old)
    place.rename(old)
    new.rename(place)
    old.rename(new)


def _rename_exchange(a: Path, b: Path) -> bool:
    """Linux's renameat2 with RENAME_EXCHANGE (2); False where system or file system lacks it."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, TypeError):  # TypeError: Windows
        return False
    at_fdcwd = -100
    if renameat2(at_fdcwd, os.fsencode(a), at_fdcwd, os.fsencode(b), 2) == 0:
        return True
    if ctypes.get_errno() in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(b))
