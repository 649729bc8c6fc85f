"""Source files as byte streams: decompressed, hashed and counted while they are read.

A truncated or damaged stream is an `InputError` that names the file and the byte, never a short
read: the usual zstd and gzip readers end silently or with a bare EOFError.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from indexer.errors import InputError

_CHUNK = 1 << 18

# The first bytes decide, not the file's name.
_DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\x28\xb5\x2f\xfd": lambda: zstandard.ZstdDecompressor().decompressobj(),
}


class Source(io.RawIOBase):
    """A file's content, decompressed (.gz, .bz2, .zst, also of several streams one after another).

    `position` and `size` are bytes of the file as it lies on disk, for progress; `sha256()` is the
    hash of those bytes up to `position`.
    """

    def __init__(self, path: Path) -> None:
        """Open a file. Raises `InputError` if it does not exist or is a folder."""
        if not path.is_file():
            raise InputError(f"{path}: no such file", "Check the path.")
        self.path = path
        self.size = path.stat().st_size
        self.position = 0
        self._file: BinaryIO = path.open("rb")
        self._hash = hashlib.sha256()
        head = self._file.read(4)
        self._file.seek(0)
        self._new = next((new for magic, new in _DECOMPRESSORS.items() if head.startswith(magic)), None)
        self._stream: Any = self._new() if self._new else None
        self._ready = b""

    def readable(self) -> bool:
        """Always true."""
        return True

    def sha256(self) -> str:
        """The hexadecimal hash of the bytes read so far."""
        return self._hash.hexdigest()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`. Raises `InputError` for a damaged or truncated compressed stream."""
        while not self._ready:
            data = self._file.read(_CHUNK)
            self.position += len(data)
            self._hash.update(data)
            if not data:
                if self._stream is not None and not self._stream.eof and self.size:
                    raise InputError(
                        f"{self.path}: the file is cut off (its compressed data ends at byte "
                        f"{self.position:,} without an end mark)",
                        "Download or copy it again, or use --on-error skip to keep what is whole.",
                    )
                return 0
            self._ready = data if self._stream is None else self._decompress(data)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _decompress(self, data: bytes) -> bytes:
        assert self._new is not None
        pieces = []
        try:
            while data:
                if self._stream.eof:
                    if not data.strip(b"\0"):
                        break  # padding behind the last stream
                    self._stream = self._new()
                pieces.append(self._stream.decompress(data))
                data = self._stream.unused_data if self._stream.eof else b""
        except (OSError, zlib.error, zstandard.ZstdError, ValueError) as error:
            raise InputError(
                f"{self.path}: damaged compressed data before byte {self.position:,} ({error})",
                "Download or copy it again, or use --on-error skip to keep what is whole.",
            ) from error
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()


def open_source(path: Path) -> tuple[Source, BinaryIO]:
    """The source, and a buffered stream over it (closing the stream closes the source)."""
    source = Source(path)
    return source, io.BufferedReader(source, _CHUNK)


def read_head(path: Path, size: int = 1 << 16) -> bytes:
    """Up to `size` decompressed bytes from the start of a file (of a damaged one, what there is)."""
    pieces: list[bytes] = []
    with Source(path) as source:
        try:
            while size > 0 and (piece := source.read(size)):
                pieces.append(piece)
                size -= len(piece)
        except InputError:
            if not pieces:
                raise
    return b"".join(pieces)


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without its end), skipping blank lines.

    Lines end at "\\n" alone: real texts hold U+0085 and U+2028, at which str.splitlines would break.
    """
    for number, line in enumerate(stream, start=1):
        line = line.rstrip(b"\r\n")
        if line.strip():
            yield number, line
