"""Text files in UTF-16, or with a byte order mark, as UTF-8 without one.

Programs on Windows write them (PowerShell's > writes UTF-16), and a mark would become part of the first
field. UTF-16 is recognised by its mark, or by a first character of JSON, XML or a table whose other byte is
zero.
"""

from __future__ import annotations

import codecs
import io
import re
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
        return io.BufferedReader(_Transcoded(stream, encoding), _CHUNK)
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    return stream


class _Transcoded(io.RawIOBase):
    """A stream of UTF-16 as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self.name = stream.name
        self._stream = stream
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._begun = self._ended = False

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer`."""
        while not self._ready and not self._ended:
            piece = (
                self._stream.read1(_CHUNK) if hasattr(self._stream, "read1") else self._stream.read(_CHUNK)
            )
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                hint = "Save the file as UTF-8, or get it again."
                raise InputError(f"{self.name}: damaged {self._encoding} ({error.reason})", hint) from None
            if text and not self._begun:
                text, self._begun = text.removeprefix("\ufeff"), True
            self._ready = text.encode("utf-8", "replace")
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count
