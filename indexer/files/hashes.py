"""Hashes of files and of sequences of hashes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

OnBytes = Callable[[float], None]
"""Called with the number of bytes just read."""

_CHUNK = 1 << 22


def file_sha256(path: Path, on_bytes: OnBytes | None = None) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            if on_bytes:
                on_bytes(len(chunk))
    return digest.hexdigest()


_SETTLED = 2.0
"""Seconds after its last change from which a file has another status when it is changed again."""


def model_file_sha256(path: Path) -> str:
    """As `file_sha256`, for the large files that several checks read when a model is opened: once, while
    the file has the same status.
    """
    status = path.stat()
    if time.time() - status.st_ctime < _SETTLED:
        return file_sha256(path)
    return _sha256_at(
        path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


@lru_cache(1_000)
def _sha256_at(path: Path, *status: int) -> str:
    return file_sha256(path)


def combined_sha256(hashes: list[str]) -> str:
    """One hash for a sequence of hashes."""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
