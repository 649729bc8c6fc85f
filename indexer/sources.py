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
_SLICE = 1 << 12

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
        self._pieces = self._decompressed(self._file.read(4))
        self._file.seek(0)
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Always true."""
        return True

    def sha256(self) -> str:
        """The hexadecimal hash of the bytes read so far."""
        return self._hash.hexdigest()

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`. Raises `InputError` for a damaged or truncated compressed stream."""
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._file.close()
        super().close()

    def _chunks(self) -> Iterator[bytes]:
        while data := self._file.read(_CHUNK):
            self.position += len(data)
            self._hash.update(data)
            yield data

    def _decompressed(self, head: bytes) -> Iterator[bytes]:
        new = next((new for magic, new in _DECOMPRESSORS.items() if head.startswith(magic)), None)
        if new is None:
            yield from self._chunks()
            return
        stream = new()
        try:
            for data in self._chunks():
                # In slices, since a slice of a very compressible file can grow a thousandfold.
                for at in range(0, len(data), _SLICE):
                    piece = data[at : at + _SLICE]
                    while piece:
                        if stream.eof:
                            if not piece.strip(b"\0"):
                                break  # padding behind the last stream
                            stream = new()
                        yield stream.decompress(piece)
                        piece = stream.unused_data if stream.eof else b""
        except (OSError, zlib.error, zstandard.ZstdError, ValueError) as error:
            raise InputError(
                f"{self.path}: damaged compressed data before byte {self.position:,} ({error})", _AGAIN
            ) from error
        if not stream.eof:
            raise InputError(
                f"{self.path}: the file is cut off (its compressed data ends at byte "
                f"{self.position:,} without an end mark)",
                _AGAIN,
            )


_AGAIN = "Download or copy it again, or use --on-error skip to keep what is whole."


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
