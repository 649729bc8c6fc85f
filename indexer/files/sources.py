"""Source files and folders as byte streams: decompressed, hashed and counted while they are read.

A truncated or damaged stream raises an `InputError` that names the file and the byte, never a short
read: the usual zstd and gzip readers end silently or with a bare EOFError. Decompression is bounded while it
runs: no step makes more than a few MB, and a file that grows far more than any text does is refused.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import zstandard

from linkseek.indexer.files.bzip2 import decompress_ahead
from linkseek.indexer.files.encodings import PieceStream
from linkseek.indexer.program.errors import InputError, raise_of_machine
from linkseek.indexer.program.paths import check_file, is_inside
from linkseek.indexer.program.text import escaped

MAX_RECORD = 1 << 25
"""Bytes of a line, an entry of a JSON file, or a page: parsed, it can take 25 times as much memory."""

_CHUNK = 1 << 18
_MAX_PIECE = 1 << 22  # decompressed at once
_MAX_GROWTH = 200  # texts compress to a tenth, the most repetitive ones to a fiftieth
_FREE_GROWTH = 1 << 26  # a file may always become this large


class _Format(NamedTuple):
    """A compressed format: its first bytes, which decide and not the file's name, and its decompressor.

    slice: how many bytes grow to a few MB at most (bzip2 bounds what comes out itself).
    """

    start: re.Pattern[bytes]
    new: Callable[[], Any]
    slice: int


_FORMATS = (
    _Format(re.compile(rb"\x1f\x8b"), lambda: zlib.decompressobj(wbits=31), 1 << 12),
    _Format(re.compile(rb"BZh"), bz2.BZ2Decompressor, 1 << 12),  # at most one block ends in a slice
    # Also a frame to be skipped, with which pzstd and seekable files begin; 4 bytes can become 128 kB.
    _Format(
        re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
        lambda: zstandard.ZstdDecompressor().decompressobj(),
        1 << 8,
    ),
    _Format(re.compile(rb"\xfd7zX"), lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY), 1 << 12),
    _Format(
        re.compile(rb"\x5d\0\0"), lambda: lzma.LZMADecompressor(lzma.FORMAT_ALONE, _XZ_MEMORY), 1 << 12
    ),  # .lzma
)
_XZ_MEMORY = 1 << 27  # bytes: the strongest preset takes 65 MB

_ZIP = b"PK\x03\x04"
_ARCHIVES = {
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "7z x"),
    b"Rar!": ("a RAR archive", "unrar x"),
    b"\x04\x22\x4d\x18": ("an lz4 file", "lz4 -d"),
    b"LZIP": ("an lzip file", "lzip -d"),
    b"\x1f\x9d": ("a file of the program compress", "gzip -d"),
    b"PK\x05\x06": ("an empty zip archive", "unzip"),
}
_TAR_MARK = slice(257, 262)


AGAIN = "Download or copy it again; for a corpus, --on-error skip keeps the intact part."
"""The hint of errors in the middle of a file."""


class ArchiveError(InputError):
    """The file is an archive that has to be unpacked first."""


class ByteSource(PieceStream):
    """A file's content, decompressed (.gz, .bz2, .zst, .xz, also of several streams one after another; .zip
    of one file, or with one corpus.jsonl).

    `position` and `size` are bytes of the file as it is on disk, for progress; `sha256()` is the
    hash of those bytes up to `position`.
    """

    def __init__(self, path: Path) -> None:
        """Open a file. Raises `InputError` if it does not exist, or is a folder, a pipe or a device."""
        check_file(path)
        self.path = path
        self.position = 0
        self._file: BinaryIO = path.open("rb")
        self._status = self._stat()
        self.size = self._status[0]
        self._hash = hashlib.sha256()
        self._content = self._decompressed(self._file.read(_TAR_MARK.stop))
        self._file.seek(0)
        super().__init__(str(path), self._content)  # also the name of a buffered stream over this one

    def sha256(self) -> str:
        """The hexadecimal hash of the bytes read so far."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._content.close()
            self._file.close()
        super().close()

    def _chunks(self) -> Iterator[bytes]:
        while data := self._file.read(_CHUNK):
            self.position += len(data)
            self._hash.update(data)
            yield data
        if self._stat() != self._status:
            hint = "Wait until it is written, and run the same command again."
            raise InputError(f"{self.path}: the file has changed while it was read", hint)

    def _stat(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    def _decompressed(self, head: bytes) -> Generator[bytes, None, None]:
        for start, (kind, command) in _ARCHIVES.items():
            if head.startswith(start):
                raise self._archive(kind, command)
        packed = next((packed for packed in _FORMATS if packed.start.match(head)), None)
        if packed is None and not head.startswith(_ZIP):
            self._refuse_tar(head)
            yield from self._chunks()
            return
        content = 0
        for piece in self._unzipped() if packed is None else self._unpacked(packed):
            if not content:
                self._refuse_tar(piece)
            content += len(piece)
            if content > _FREE_GROWTH and content > _MAX_GROWTH * self.position:
                problem = f"{self.position:,} compressed bytes grow to more than {content:,} bytes"
                hint = "No text is so repetitive. Decompress it yourself if you trust it."
                raise InputError(f"{self.path}: {problem}", hint)
            yield piece

    def _refuse_tar(self, head: bytes) -> None:
        if head[_TAR_MARK] == b"ustar":
            raise self._archive("a tar archive", "tar -xf")

    def _archive(self, kind: str, command: str) -> ArchiveError:
        hint = f"Unpack it ({command} {self.path.name}) and give the unpacked file or folder."
        return ArchiveError(f"{self.path}: {kind}", hint)

    def _unzipped(self) -> Iterator[bytes]:
        """The only file of a zip archive, or its corpus.jsonl. Raises `InputError` for any other archive."""
        read = 0
        try:
            with zipfile.ZipFile(self._file) as archive:
                member = self._member(archive.infolist())
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # without a bound
                    raise self._archive("a zip archive whose method is not deflate", "7z x")
                with archive.open(member) as stream:
                    while piece := stream.read(_CHUNK):
                        read += len(piece)
                        done = read / max(member.file_size, read)
                        self.position = max(1, int(done * member.compress_size))
                        yield piece
        except _OF_DAMAGED_ZIPS as error:
            raise_of_machine(error)
            problem = f"damaged or encrypted zip archive ({error})"
            raise InputError(f"{self.path}: {problem}", AGAIN) from error
        self._file.seek(0)
        self.position = 0
        deque(self._chunks(), maxlen=0)  # the hash is over the file, as of all others

    def _member(self, members: Sequence[zipfile.ZipInfo]) -> zipfile.ZipInfo:
        files = [info for info in members if not info.is_dir() and not _HIDDEN.search(info.filename)]
        for pattern, wanted in ((_CORPUS, True), (_ABOUT, False)):
            if len(files) > 1:
                files = [info for info in files if bool(pattern.search(info.filename)) is wanted] or files
        if len(files) != 1:
            names = ", ".join(escaped(info.filename) for info in files[:3])
            count = f"{len(files):,} files" + (f": {names}, ..." if files else "")
            raise self._archive(f"a zip archive of {count}", "unzip")
        return files[0]

    def _unpacked(self, packed: _Format) -> Iterator[bytes]:
        pieces: Iterable[tuple[bytes, bytes | None]] = ((data, None) for data in self._chunks())
        if packed.new is bz2.BZ2Decompressor:
            pieces = decompress_ahead(self._chunks())
        stream: Any = None  # until it begins
        try:
            for data, content in pieces:
                if content is not None and (stream is None or stream.eof):
                    yield content
                    continue
                for at in range(0, len(data), packed.slice):
                    piece = data[at : at + packed.slice]
                    while piece:
                        if stream is None or stream.eof:
                            piece = piece.lstrip(b"\0")  # padding after a stream
                            if not piece:
                                break
                            stream = packed.new()
                        yield from _decompress(stream, piece)
                        piece = stream.unused_data if stream.eof else b""
        except (OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError, ValueError) as error:
            raise_of_machine(error)
            problem = f"damaged compressed data before byte {self.position:,} ({error})"
            raise InputError(f"{self.path}: {problem}", AGAIN) from error
        if stream is not None and not stream.eof:
            problem = f"its compressed data ends at byte {self.position:,} without an end mark"
            raise InputError(f"{self.path}: the file is cut off ({problem})", AGAIN)


_OF_DAMAGED_ZIPS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,  # an extra field that ends early
    OSError,  # a place before the start of the file
    RuntimeError,  # encrypted, or a feature that zipfile lacks
    ValueError,  # a name that is not UTF-8
)
"""What zipfile raises for a damaged archive."""

_HIDDEN = re.compile(r"(?:^|/)(?:\.[^./]|__MACOSX/)")
_CORPUS = re.compile(r"(?:^|/)corpus\.jsonl$")
_ABOUT = re.compile(
    r"(?:^|/)(?:read_?me|licen[cs]e|copying|notice|(?:md5|sha\d+)(?:sums?)?)\b[^/]*$", re.IGNORECASE
)


def _decompress(stream: Any, piece: bytes) -> Iterator[bytes]:
    if not isinstance(stream, bz2.BZ2Decompressor | lzma.LZMADecompressor):
        yield stream.decompress(piece)
        return
    yield stream.decompress(piece, _MAX_PIECE)
    while not (stream.eof or stream.needs_input):
        yield stream.decompress(b"", _MAX_PIECE)


def open_source(path: Path) -> tuple[ByteSource, BinaryIO]:
    """The source, and a buffered stream over it (closing the stream closes the source)."""
    source = ByteSource(path)
    return source, io.BufferedReader(source, _CHUNK)


class FolderSource:
    """The files of a folder as byte streams, one after another, counted and hashed together.

    `sha256()` is the hash of "NAME\\0BYTES\\0SHA256\\n" of each file in the order of reading.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self._finished = 0
        self._hash = hashlib.sha256()
        self._open: ByteSource | None = None

    @property
    def position(self) -> int:
        """Bytes read so far of all files."""
        return self._finished + (self._open.position if self._open else 0)

    def sha256(self) -> str:
        """The hexadecimal hash of the files read so far."""
        return self._hash.hexdigest()

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A file's content, decompressed. Raises `InputError` or `OSError` if it cannot be opened.

        The folder was listed before: a file that has since become a link out of the folder is not opened.
        """
        if not is_inside(self.path, self.path / name):
            raise InputError(f"{self.path}/{escaped(name)}: leads outside the folder", "Copy the file there.")
        source, stream = open_source(self.path / name)
        self._open = source
        try:
            with stream:
                yield stream
        finally:
            self._open = None
            self._finished += source.position
            line = f"{name}\0{source.position}\0{source.sha256()}\n"
            self._hash.update(line.encode("utf-8", "surrogateescape"))


class MemorySource:
    """Lines in memory while they are read; `sha256()` is the hash of those read so far."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self.size = sum(map(len, lines))
        self.position = 0
        self._lines = lines
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.position += len(line)
            self._hash.update(line)
            yield line

    def sha256(self) -> str:
        """The hexadecimal hash of the lines read so far."""
        return self._hash.hexdigest()


Reading = ByteSource | FolderSource | MemorySource
"""A corpus while it is read: `position` and `size` in bytes (of files, as on disk), `sha256()`."""


def read_head(path: Path, size: int = 1 << 16) -> bytes:
    """Up to `size` decompressed bytes from the start of a file (of a damaged one, as many as can be read)."""
    pieces: list[bytes] = []
    with ByteSource(path) as source:
        try:
            while size > 0 and (piece := source.read(size)):
                pieces.append(piece)
                size -= len(piece)
        except ArchiveError:
            raise
        except InputError as error:
            if not pieces:
                raise InputError(error.message, "No part of the file can be read. Get it again.") from None
    return b"".join(pieces)


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without its end), skipping blank lines.

    Lines end at "\\n" alone: real texts contain U+0085 and U+2028, at which str.splitlines would break.
    Raises `InputError` for a line longer than `MAX_RECORD`.
    """
    for number, line in enumerate(iter(partial(stream.readline, MAX_RECORD), b""), start=1):
        if len(line) == MAX_RECORD:
            hint = "Check that it is a text file with one record per line."
            raise InputError(f"{stream.name}, line {number:,}: longer than {MAX_RECORD:,} bytes", hint)
        line = line.rstrip(b"\r\n")
        if line.strip():
            yield number, line
