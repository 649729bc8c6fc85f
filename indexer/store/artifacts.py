"""The files of an index folder: the only place with on-disk names.

    INDEX/manifest.json        versions, command, corpus, counts
    INDEX/documents/           NNNNN.arrow, redirects-NNNNN.arrow, id_hashes.npy, id_rows.npy
    INDEX/passages/            NNNNN.arrow, offsets.npy
    INDEX/links/               the link graph as CSR arrays (.npy)
    INDEX/bm25/                a Lucene index
    INDEX/dense/NAME/          index, docid (FAISS; Pyserini opens the folder), vectors/
    INDEX/late/NAME/           vectors/, the codes of the token vectors
    INDEX/sparse/NAME/         vectors/, the term weights, and lucene/, a Lucene index of them
    INDEX/partitions/NNNNN/    of an index of partitions: an index each; the parts above have the global data
    INDEX.linkseek-building    the workspace of a build (`indexer.building.workspace`)
    FILE.linkseek-tmp          a file or folder that is being written, to be renamed to FILE

Each folder of an index is a "part" with a manifest.json of its own (`indexer.store.manifests`).

Tables are numbered segments: an update adds some, and rewrites those with documents that it removes
(`indexer.building.updating.growth`).
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from linkseek.indexer.program.errors import DamagedIndexError, raise_of_machine
from linkseek.indexer.program.paths import MAX_NAME, name_problem

MANIFEST = "manifest.json"
BUILDING = "building.json"
BUILD_AGAIN = "Build the index again: linkseek build --corpus FILE --index DIR (intact parts are reused)."

DOCUMENTS, PASSAGES, LINKS, BM25, DENSE = "documents", "passages", "links", "bm25", "dense"
LATE, SPARSE, LUCENE = "late", "sparse", "lucene"
LATE_PREFIX, SPARSE_PREFIX = f"{LATE}:", f"{SPARSE}:"
"""Before the name of an encoder whose token vectors, or term weights, are meant."""
PREFIXES = {DENSE: "", LATE: LATE_PREFIX, SPARSE: SPARSE_PREFIX}
"""The kinds of parts that encoders make, by their folders, and the word for an encoder of each kind."""
VECTORS, PARTITIONS = "vectors", "partitions"
_OURS = ".linkseek-"
TEMPORARY = f"{_OURS}tmp"
HALF_WRITTEN = TEMPORARY, f"{_OURS}lock"
"""The ends of names that only Linkseek gives: to files that are not complete, and to locks."""


def next_to(path: Path, kind: str) -> Path:
    """A name next to a file or folder that only Linkseek gives, such as wiki.linkseek-building."""
    return path.with_name(path.name + _OURS + kind)


def workspace_path(index: Path) -> Path:
    """The folder in which the next version of an index is built."""
    return next_to(index, "building")


def temporary_path(path: Path) -> Path:
    """The name of a file or folder until it is complete."""
    return next_to(path, "tmp")


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


def kind_and_name(encoder: str) -> tuple[str, str]:
    """The folder of an encoder's part, and its name or path: (late, x) of late:x, (dense, x) of x."""
    kind = next((kind for kind, mark in PREFIXES.items() if mark and encoder.startswith(mark)), DENSE)
    return kind, encoder.removeprefix(PREFIXES[kind])


def vector_part(encoder_name: str) -> str:
    """The part that an encoder makes: `dense/NAME`, or of `late:NAME` `late/NAME`, in NAME only
    [A-Za-z0-9._-]."""
    folder, bare = kind_and_name(encoder_name)
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", bare.strip("/").rpartition("/")[2])[:MAX_NAME].strip("._")
    return f"{folder}/{'encoder' if name_problem(name) else name}"


def encoder_of(part: str) -> str:
    """The name of the encoder that made a part; empty for parts that none made."""
    folder, _, name = part.partition("/")
    return name if folder in PREFIXES else ""


def prefix_of(part: str) -> str:
    """What names an encoder of the kind of a part."""
    return PREFIXES[part.partition("/")[0]]


def shards_part(part: str) -> str:
    """The part of a workspace with the shards for a part of vectors."""
    return f"{VECTORS}/{part.removeprefix(f'{DENSE}/').replace('/', '~')}"


_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing to an open file, which name no file."""


@contextmanager
def atomic_file(path: Path, complete: Callable[[Path], None] | None = None) -> Iterator[BinaryIO]:
    """A file to write completely or not at all, even if the power fails.

    complete: called with the temporary file before it is renamed.
    """
    temporary = temporary_path(path)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if complete:
            complete(temporary)
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


_MAX_JSON = 1 << 26
"""Bytes of a JSON file: a manifest needs some 150 for each file of its part."""


def check_regular(path: Path) -> None:
    """Raises `DamagedIndexError` for a pipe or a device, which may never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DamagedIndexError(f"{path}: a pipe or a device, not a file", "Remove it.")


def read_json(path: Path) -> Any:
    """Read JSON. Raises `DamagedIndexError` if the file is missing, not JSON, or too large."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_JSON + 1)
        if len(content) > _MAX_JSON:
            raise DamagedIndexError(f"{path}: larger than {_MAX_JSON:,} bytes", BUILD_AGAIN)
        return orjson.loads(content)
    except FileNotFoundError:
        raise DamagedIndexError(f"{path}: missing", BUILD_AGAIN) from None
    except (orjson.JSONDecodeError, IsADirectoryError, NotADirectoryError) as error:
        raise DamagedIndexError(f"{path}: not JSON ({error})", BUILD_AGAIN) from None


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
    check_regular(path)
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
        raise damaged(path, f"not an intact .npy file ({error})") from None


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
            raise damaged(path, problem)


def check_offsets(path: Path, offsets: NDArray[np.int64], groups: int, members: int) -> None:
    """Raises `DamagedIndexError` unless `offsets` [groups + 1] ascend from 0 to the number of members."""
    ends = (len(offsets), int(offsets[0]), int(offsets[-1])) if offsets.shape == (groups + 1,) else ()
    if offsets.dtype != np.int64 or ends != (groups + 1, 0, members):
        raise damaged(path, f"altered (expected {groups + 1:,} numbers from 0 to {members:,})")
    check_array(path, offsets, 0, members + 1, ascending=True)


def value_sha256(value: Any) -> str:
    """The hash of a JSON value, independent of the order of keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def damaged(path: Path, problem: str, part: Path | None = None) -> DamagedIndexError:
    """The error for a file of an index. part: the folder of its part; by default the file's."""
    return DamagedIndexError(f"{path}: {problem}", rebuild_hint(part or path.parent))


def rebuild_hint(folder: Path) -> str:
    """How to replace a damaged part."""
    return f"Remove the folder {folder} and build the index again: the other parts are reused."


def index_stamp(index: Path) -> tuple[int, int, int]:
    """A value that changes when another index replaces this one; zeros if the index does not exist."""
    try:
        status = (index / MANIFEST).stat()
    except OSError as error:
        raise_of_machine(error)
        return (0, 0, 0)
    return (status.st_ino, status.st_mtime_ns, status.st_size)
