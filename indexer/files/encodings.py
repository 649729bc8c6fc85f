"""Text files in UTF-16, or with a byte order mark, as UTF-8 without one.

Programs on Windows write them (PowerShell's > writes UTF-16), and a mark would become part of the first
field. UTF-16 is recognised by its mark, or by a first character of JSON, XML or a table whose other byte is
zero.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from linkseek.indexer.program.errors import InputError

_UTF16 = [
    (re.compile(rb"\xff\xfe(?!\0\0)|[<{\[\"\w#+-]\0"), "utf-16-le"),
    (re.compile(rb"\xfe\xff|\0[<{\[\"\w#+-]"), "utf-16-be"),
]
_CHUNK = 1 << 18


def encoding_of(head: bytes) -> str:
    """The encoding that the first bytes of a text file show: utf-8, utf-16-le or utf-16-be."""
    return next((name for start, name in _UTF16 if start.match(head)), "utf-8")


def utf8_head(head: bytes) -> bytes:
    """The first bytes of a file, as UTF-8 without a byte order mark."""
    encoding = encoding_of(head)
    if encoding == "utf-8":
        return head.removeprefix(codecs.BOM_UTF8)
    return (
        head[: len(head) // 2 * 2]
        .decode(encoding, "ignore")
        .removeprefix("\ufeff")
        .encode("utf-8", "replace")
    )


def as_utf8(stream: BinaryIO) -> BinaryIO:
    """The stream as UTF-8 without a byte order mark; a stream in UTF-8 is returned unchanged.

    Reading raises `InputError` for UTF-16 that is damaged or cut off.
    """
    head = cast(io.BufferedReader, stream).peek(4)[:4]
    encoding = encoding_of(head)
    if encoding != "utf-8":
        return io.BufferedReader(PieceStream(stream.name, _transcoded(stream, encoding)), _CHUNK)
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    return stream


class PieceStream(io.RawIOBase):
    """A stream of bytes that come in pieces."""

    def __init__(self, name: str, pieces: Iterator[bytes]) -> None:
        self.name = name
        self._pieces = pieces
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`. Raises what the pieces raise, such as `InputError` for damage."""
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def _transcoded(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    """The pieces of a stream of UTF-16 as UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()
    read = getattr(stream, "read1", stream.read)  # returns available bytes before it raises
    begun, piece = False, b" "
    while piece:
        piece = read(_CHUNK)
        try:
            text = decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            hint = "Save the file as UTF-8, or get it again."
            raise InputError(f"{stream.name}: damaged {encoding} ({error.reason})", hint) from None
        yield (text if begun else text.removeprefix("\ufeff")).encode("utf-8", "replace")
        begun = begun or bool(text)
