"""Hashes of files and of sequences of hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
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


def combined_sha256(hashes: list[str]) -> str:
    """One hash for a sequence of hashes."""
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
