"""The files of an index folder: the only place with on-disk names.

    INDEX/manifest.json        versions, command, corpus, counts
    INDEX/documents/           NNNNN.arrow, redirects-NNNNN.arrow, id_hashes.npy, id_rows.npy
    INDEX/passages/            NNNNN.arrow, offsets.npy
    INDEX/links/               the link graph as CSR arrays (.npy)
    INDEX/bm25/                a Lucene index
    INDEX/dense/NAME/          index, docid (FAISS; Pyserini opens the folder), vectors/
    INDEX/partitions/NNNNN/    of an index of partitions: an index each; the parts above hold what is global
    INDEX.linkseek-building    the workspace of a build (`indexer.building.workspace`)
    FILE.linkseek-tmp          a file or folder that is being written, to be renamed to FILE

Each folder of an index is a "part" with a manifest.json of its own, written last: the inputs that it was
made from (its fingerprint), counts, and size and SHA-256 of every file.

Tables are numbered segments: an update adds some, and rewrites those with documents that it removes
(`indexer.building.growth`).
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import math
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from linkseek.indexer.base.errors import DamagedIndexError, raise_of_machine
from linkseek.indexer.base.paths import MAX_NAME, name_problem, path_problem
from linkseek.indexer.files.hashes import OnBytes, file_sha256

FORMAT_VERSION = 1

Manifest = dict[str, Any]

MANIFEST = "manifest.json"
BUILDING = "building.json"
_OWN_HASH = "manifest_sha256"
_SMALL = 1 << 20
_BUILD = "Build the index again: linkseek build --index DIR (intact parts are reused)."

DOCUMENTS, PASSAGES, LINKS, BM25, DENSE = "documents", "passages", "links", "bm25", "dense"
VECTORS, PARTITIONS = "vectors", "partitions"
_OURS = ".linkseek-"
TEMPORARY = f"{_OURS}tmp"


def beside(path: Path, kind: str) -> Path:
    """A name next to a file or folder that only Linkseek gives, such as wiki.linkseek-building."""
    return path.with_name(path.name + _OURS + kind)


def workspace_path(index: Path) -> Path:
    """The folder in which the next version of an index is built."""
    return beside(index, "building")


def temporary_path(path: Path) -> Path:
    """The name of a file or folder until it is complete."""
    return beside(path, "tmp")


def is_half_written(path: Path) -> bool:
    """Whether only Linkseek gives such a name, to a file that is not complete or to a lock."""
    return path.name.endswith((TEMPORARY, f"{_OURS}lock"))


def segment_paths(folder: Path, prefix: str = "") -> list[Path]:
    """The table files of a part, in order: 00000.arrow, 00001.arrow, ..."""
    return sorted(p for p in folder.glob(f"{prefix}*.arrow") if re.fullmatch(rf"{prefix}\d{{5}}", p.stem))


def partition_path(number: int) -> str:
    """The folder of a partition in its index."""
    return f"{PARTITIONS}/{number:05d}"


def part_segments(indexes: Sequence[Path], part: str, prefix: str = "") -> list[Path]:
    """The table files of a part of several indexes, one after another."""
    return [path for index in indexes for path in segment_paths(index / part, prefix)]


def segment_path(folder: Path, number: int, prefix: str = "") -> Path:
    """The path of one table file."""
    return folder / f"{prefix}{number:05d}.arrow"


def dense_part(encoder_name: str) -> str:
    """The part with an encoder's vectors: `dense/NAME`, in NAME only [A-Za-z0-9._-]."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", encoder_name.strip("/").rpartition("/")[2])[:MAX_NAME].strip("._")
    return f"{DENSE}/{'encoder' if name_problem(name) else name}"


def vectors_part(part: str) -> str:
    """The part of a workspace with the shards for a dense part."""
    return f"{VECTORS}/{part.removeprefix(f'{DENSE}/')}"


_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing to an open file, which name no file."""


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write completely or not at all, even if the power fails."""
    temporary = temporary_path(path)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno in _NO_SPACE and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file completely or not at all, even if the power fails."""
    with atomic_file(path) as file:
        file.write(data)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """The same file at another place, as a hard link where the file system has them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def write_json(path: Path, value: Any) -> None:
    """Write JSON that people can read, atomically."""
    write_atomically(path, orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of an index or of a part, with a hash of itself, atomically."""
    write_json(folder / MANIFEST, {**manifest, _OWN_HASH: value_sha256(manifest)})


def _read_manifest(folder: Path, hint: str) -> Manifest:
    """A manifest, without its hash. Raises `DamagedIndexError` with this hint if it was altered.

    Earlier versions wrote none.
    """
    manifest: Manifest = read_json(folder / MANIFEST)
    check_version(folder, manifest)
    last = next(reversed(manifest))
    rest = {key: value for key, value in manifest.items() if key != last}
    # Of an altered manifest either the hash does not fit, or its name.
    if (last == _OWN_HASH) != (manifest[last] == value_sha256(rest)):
        raise DamagedIndexError(f"{folder / MANIFEST}: altered (its hash differs)", hint)
    return rest if last == _OWN_HASH else manifest


def read_json(path: Path) -> Any:
    """Read JSON. Raises `DamagedIndexError` if the file is missing or not JSON."""
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise DamagedIndexError(f"{path}: missing", _BUILD) from None
    except (orjson.JSONDecodeError, IsADirectoryError, NotADirectoryError) as error:
        raise DamagedIndexError(f"{path}: not JSON ({error})", _BUILD) from None


_ARRAY_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"{'descr': '(?P<type>[<|][fiu][1-8])', 'fortran_order': False, 'shape': \((?P<shape>[0-9, ]*)\), } *\n",
    re.DOTALL,
)


def open_array(path: Path) -> NDArray[Any]:
    """Memory-map a .npy file of numbers. Raises `DamagedIndexError` if it is missing or damaged.

    `numpy.load` has Python's compiler parse the header, which up to Python 3.11.7, the oldest release that we
    support, fails now and then in several threads (https://github.com/python/cpython/issues/106905).
    """
    try:
        with path.open("rb") as file:
            head = _ARRAY_HEAD.match(file.read(256))
        if head is None or head.end() != 10 + int.from_bytes(head["length"], "little"):
            raise ValueError("its header is not numpy's")
        shape = tuple(int(length) for length in head["shape"].split(b",") if length.strip())
        dtype = np.dtype(head["type"].decode())
        expected = head.end() + dtype.itemsize * math.prod(shape)
        if path.stat().st_size != expected:
            raise ValueError(f"{path.stat().st_size:,} bytes, expected {expected:,}")
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.memmap(path, dtype, "r", head.end(), shape)
    except (OSError, ValueError, TypeError) as error:
        raise_of_machine(error)
        raise DamagedIndexError(
            f"{path}: not an intact .npy file ({error})", rebuild_hint(path.parent)
        ) from None


_BLOCK = 1 << 20


def check_array(path: Path, array: NDArray[Any], low: int, high: int, *, ascending: bool = False) -> None:
    """Raises `DamagedIndexError` unless all values are in [low, high), and in order if they are to be.

    Reads the array once, a block at a time: about 3 ms for a million values.
    """
    for start in range(0, len(array), _BLOCK):
        block = array[max(start - 1, 0) : start + _BLOCK]
        in_range = int(block.min()) >= low and int(block.max()) < high
        if not in_range or (ascending and bool((block[1:] < block[:-1]).any())):
            problem = f"altered (expected {'ascending ' * ascending}values from {low:,} to {high - 1:,})"
            raise DamagedIndexError(f"{path}: {problem}", rebuild_hint(path.parent))


def check_offsets(path: Path, offsets: NDArray[np.int64], groups: int, members: int) -> None:
    """Raises `DamagedIndexError` unless `offsets` [groups + 1] ascend from 0 to the number of members."""
    ends = (len(offsets), int(offsets[0]), int(offsets[-1])) if offsets.shape == (groups + 1,) else ()
    if offsets.dtype != np.int64 or ends != (groups + 1, 0, members):
        problem = f"altered (expected {groups + 1:,} numbers from 0 to {members:,})"
        raise DamagedIndexError(f"{path}: {problem}", rebuild_hint(path.parent))
    check_array(path, offsets, 0, members + 1, ascending=True)


def value_sha256(value: Any) -> str:
    """The hash of a JSON value, independent of the order of keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def inventory(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and SHA-256 of every file of a part, by its path in the part."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != BUILDING)
    return {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in files
        if path != folder / MANIFEST
    }


def read_part(folder: Path) -> Manifest:
    """The manifest of a part, after checking version and sizes of its files (not their hashes).

    Raises `DamagedIndexError` naming the file that is missing or of another size.
    """
    manifest = _read_manifest(folder, rebuild_hint(folder))
    for name, entry in _files(folder, manifest).items():
        try:
            status = (folder / name).stat()
        except (OSError, ValueError) as error:  # ValueError: no file can have this name
            raise_of_machine(error)
            raise DamagedIndexError(f"{folder / name}: missing", _BUILD) from None
        if status.st_size != entry["bytes"] or not stat.S_ISREG(status.st_mode):
            raise DamagedIndexError(
                f"{folder / name}: {status.st_size:,} bytes, expected {entry['bytes']:,}", _BUILD
            )
    if not isinstance(manifest.get("fingerprint"), dict):
        raise DamagedIndexError(f'{folder / MANIFEST}: "fingerprint" is missing or damaged', _BUILD)
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
    if not isinstance(files, dict) or not all(itertools.starmap(_is_entry, files.items())):
        raise DamagedIndexError(f'{folder / MANIFEST}: "files" is missing or damaged', _BUILD)
    return files


def _is_entry(name: str, entry: Any) -> bool:
    known = isinstance(entry, dict) and isinstance(entry.get("bytes"), int) and "sha256" in entry
    return known and not path_problem(name)


def verify_part(folder: Path, on_bytes: OnBytes | None = None) -> None:
    """Compare the hash of every file. Raises `DamagedIndexError` naming the first that differs."""
    for name, entry in _files(folder, read_part(folder)).items():
        _verify(folder, name, entry, on_bytes)


def verify_small_files(folder: Path, manifest: Manifest) -> None:
    """Compare the hashes of the files up to 1 MB: of a large part a few milliseconds' work."""
    for name, entry in _files(folder, manifest).items():
        if entry["bytes"] <= _SMALL:
            _verify(folder, name, entry)


def _verify(folder: Path, name: str, entry: dict[str, Any], on_bytes: OnBytes | None = None) -> None:
    if file_sha256(folder / name, on_bytes) != entry["sha256"]:
        raise DamagedIndexError(f"{folder / name}: altered (its hash differs)", rebuild_hint(folder))


def rebuild_hint(folder: Path) -> str:
    """How to replace a damaged part."""
    return f"Remove the folder {folder} and build the index again: the other parts are reused."


def read_index_manifest(index: Path) -> Manifest:
    """The manifest of an index. Raises `DamagedIndexError` if it is missing or damaged."""
    if not index.is_dir():
        raise DamagedIndexError(f"{index}: no index here", f"Build one: linkseek build --index {index}")
    manifest = _read_manifest(index, _BUILD)
    parts = manifest.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, str) and _is_part(part) for part in parts):
        raise DamagedIndexError(f'{index / MANIFEST}: "parts" is missing or damaged', _BUILD)
    partitions = manifest.get(PARTITIONS, [])
    if not isinstance(partitions, list) or partitions != list(map(partition_path, range(len(partitions)))):
        raise DamagedIndexError(f'{index / MANIFEST}: "{PARTITIONS}" is damaged', _BUILD)
    return manifest


def _is_part(name: str) -> bool:
    return not name_problem(name.removeprefix(f"{DENSE}/"))


def is_index(folder: Path) -> bool:
    """Whether a folder holds an index, even a damaged one."""
    with suppress(DamagedIndexError, OSError):
        return bool(read_index_manifest(folder))
    with suppress(OSError):
        return any((folder / part / MANIFEST).is_file() for part in (DOCUMENTS, PASSAGES, LINKS))
    return False


def index_stamp(index: Path) -> tuple[int, int, int]:
    """Changes when another index replaces this one; zeros if there is none."""
    try:
        status = (index / MANIFEST).stat()
    except OSError as error:
        raise_of_machine(error)
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
