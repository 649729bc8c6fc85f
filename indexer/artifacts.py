"""What is stored in an index folder, and how it gets there whole: the only place with on-disk names.

    INDEX/manifest.json        versions, command, corpus, counts
    INDEX/documents/           NNNNN.arrow, redirects-NNNNN.arrow, id_hashes.npy, id_rows.npy
    INDEX/passages/            NNNNN.arrow, offsets.npy
    INDEX/links/               the link graph as CSR arrays (.npy)
    INDEX/bm25/                a Lucene index
    INDEX/dense/NAME/          index, docid (FAISS; Pyserini opens the folder), vectors/

Each of these folders is a "part" with a manifest.json of its own, written last: what it was made
from (its fingerprint), counts, and size and SHA-256 of every file. An index is built in a folder
beside (`INDEX.building`), part by part, and takes its place with one rename. A part whose fingerprint
is that of the index in use, or of an interrupted build, is taken over instead of being built again.

Tables are numbered segments, so that documents can be added later as new segments and deleted as a
list of rows in INDEX/manifest.json without another format.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from indexer.errors import BusyError, DamagedIndexError, UsageError

FORMAT_VERSION = 1

Manifest = dict[str, Any]
OnBytes = Callable[[float], None]

_MANIFEST = "manifest.json"
_FINGERPRINT = "building.json"
_CHUNK = 1 << 22


# --- names ---------------------------------------------------------------------------------------

DOCUMENTS, PASSAGES, LINKS, BM25, DENSE = "documents", "passages", "links", "bm25", "dense"
VECTORS = "vectors"


def segment_paths(folder: Path, prefix: str = "") -> list[Path]:
    """The table files of a part, in order: 00000.arrow, 00001.arrow, ..."""
    return sorted(p for p in folder.glob(f"{prefix}*.arrow") if re.fullmatch(rf"{prefix}\d{{5}}", p.stem))


def segment_path(folder: Path, number: int, prefix: str = "") -> Path:
    """The path of one table file."""
    return folder / f"{prefix}{number:05d}.arrow"


def dense_part(encoder_name: str) -> str:
    """The part that holds an encoder's vectors: `dense/NAME`, NAME without anything but [A-Za-z0-9._-]."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", encoder_name.strip("/").rpartition("/")[2]).strip("._")
    return f"{DENSE}/{name or 'encoder'}"


def vectors_part(part: str) -> str:
    """Where a workspace keeps the shards from which a dense part is made."""
    return f"{VECTORS}/{part.removeprefix(f'{DENSE}/')}"


# --- files ---------------------------------------------------------------------------------------


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after a power failure."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write JSON that people can read, atomically."""
    write_atomically(path, orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


def read_json(path: Path) -> Any:
    """Read JSON. Raises `DamagedIndexError` if the file is missing or no JSON."""
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise DamagedIndexError(f"{path}: missing", _BUILD) from None
    except (orjson.JSONDecodeError, IsADirectoryError, NotADirectoryError) as error:
        raise DamagedIndexError(f"{path}: not JSON ({error})", _BUILD) from None


_BUILD = "Build the index again: python indexer/build.py --index DIR (what is whole is kept)."
_REMOVE = "Remove the folder of that file and build the index again: the other parts are kept."


def open_array(path: Path) -> NDArray[Any]:
    """Memory-map a .npy file. Raises `DamagedIndexError` if it is missing or none."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DamagedIndexError(f"{path}: not a whole .npy file ({error})", _REMOVE) from None
    return array


def file_sha256(path: Path, on_bytes: OnBytes | None = None) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            if on_bytes:
                on_bytes(len(chunk))
    return digest.hexdigest()


def combined_sha256(hashes: list[str]) -> str:
    """One hash for a sequence of hashes."""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def value_sha256(value: Any) -> str:
    """The hash of a JSON value, independent of the order of keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _inventory(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != _FINGERPRINT)
    return {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in files
        if path != folder / _MANIFEST
    }


# --- parts ---------------------------------------------------------------------------------------


def read_part(folder: Path) -> Manifest:
    """The manifest of a part, after checking version and sizes of its files (not their hashes).

    Raises `DamagedIndexError` naming the file that is missing or of another size.
    """
    manifest: Manifest = read_json(folder / _MANIFEST)
    check_version(folder, manifest)
    for name, entry in _files(folder, manifest).items():
        try:
            found = (folder / name).stat()
        except (OSError, ValueError):  # ValueError: no file can have this name
            raise DamagedIndexError(f"{folder / name}: missing", _BUILD) from None
        if found.st_size != entry["bytes"] or not stat.S_ISREG(found.st_mode):
            raise DamagedIndexError(
                f"{folder / name}: {found.st_size:,} bytes, expected {entry['bytes']:,}", _BUILD
            )
    if not isinstance(manifest.get("fingerprint"), dict):
        raise DamagedIndexError(f'{folder / _MANIFEST}: "fingerprint" is missing or damaged', _BUILD)
    return manifest


def check_version(folder: Path, manifest: Any) -> None:
    """Raises `DamagedIndexError` for a manifest of another format version."""
    version = manifest.get("format_version") if isinstance(manifest, dict) else None
    if version != FORMAT_VERSION:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        raise DamagedIndexError(
            f"{folder}: index format {version}, expected {FORMAT_VERSION}",
            "It was made by a newer Linkseek: update this one." if newer else _BUILD,
        )


def _files(folder: Path, manifest: Manifest) -> dict[str, dict[str, Any]]:
    files: Any = manifest.get("files")
    whole = isinstance(files, dict) and all(map(_is_inside, files)) and all(map(_is_entry, files.values()))
    if not whole:
        raise DamagedIndexError(f'{folder / _MANIFEST}: "files" is missing or damaged', _BUILD)
    return files  # type: ignore[no-any-return]


def _is_inside(name: str) -> bool:
    return ".." not in Path(name).parts and not Path(name).is_absolute()


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("bytes"), int) and "sha256" in entry


def verify_part(folder: Path, on_bytes: OnBytes | None = None) -> None:
    """Compare the hash of every file. Raises `DamagedIndexError` naming the first that differs."""
    for name, entry in _files(folder, read_part(folder)).items():
        if file_sha256(folder / name, on_bytes) != entry["sha256"]:
            raise DamagedIndexError(
                f"{folder / name}: altered (its hash differs)",
                f"Remove the folder {folder} and build the index again: the other parts are kept.",
            )


# --- building ------------------------------------------------------------------------------------


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

    def __exit__(self, *_: object) -> None:
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
        mark = folder / _FINGERPRINT
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
        manifest["files"] = _inventory(folder)
        write_json(folder / _MANIFEST, manifest)
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
        write_json(self.folder / _MANIFEST, {"format_version": FORMAT_VERSION, "parts": parts, **manifest})
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


def read_index_manifest(index: Path) -> Manifest:
    """The manifest of an index. Raises `DamagedIndexError` if there is none or it does not fit."""
    if not index.is_dir():
        raise DamagedIndexError(
            f"{index}: no index here", f"Build one: python indexer/build.py --index {index}"
        )
    manifest: Manifest = read_json(index / _MANIFEST)
    check_version(index, manifest)
    parts = manifest.get("parts")
    if not isinstance(parts, list) or not all(_is_part_name(part) for part in parts):
        raise DamagedIndexError(f'{index / _MANIFEST}: "parts" is missing or damaged', _BUILD)
    return manifest


def index_stamp(index: Path) -> tuple[int, int, int]:
    """Changes when another index takes the place of this one; zeros where there is none."""
    try:
        stat = (index / _MANIFEST).stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _is_part_name(name: Any) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(rf"(?:{DENSE}/)?[A-Za-z0-9_-][A-Za-z0-9._-]*", name))


def _check_place(index: Path) -> None:
    if index.is_dir():
        known = {DOCUMENTS, PASSAGES, LINKS, BM25, DENSE, _MANIFEST}
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
