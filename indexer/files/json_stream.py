"""JSON of any size: a file as a stream of its entries, each as unparsed bytes, and JSON lines.

Only one entry is in memory. An entry that is not JSON, but whose brackets match, is returned like the others;
parsing it fails later and does not end the reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

import orjson

from linkseek.indexer.files.sources import AGAIN, MAX_RECORD
from linkseek.indexer.program.errors import InputError

BLANK = b"\xef\xbb\xbf \t\r\n"
"""Allowed before the first bracket: a byte order mark and white space."""

_CHUNK = 1 << 18

_INNER = rb'(?:[^"\\]++|\\.)*+'
_STRING = b'"%b"' % _INNER
# To the next bracket, or comma between entries; or to the start of a string that has no end yet.
_IN_ENTRY = re.compile(rb'(?:[^"\[\]{}]++|%b)*+' % _STRING, re.S)
_BETWEEN = re.compile(rb'(?:[^"\[\]{},]++|%b)*+' % _STRING, re.S)
_IN_STRING = re.compile(_INNER, re.S)


def read_entries(stream: BinaryIO, file: str) -> Iterator[bytes]:
    """The entries of an array (`b'{"id": 1}'`), or of an object, with their keys (`b'"key": {}'`).

    Raises `InputError` naming `file` and the last whole entry, if the text is neither an array nor an
    object, is cut off, is followed by text, or if an entry is longer than `MAX_RECORD`.
    """
    read = getattr(stream, "read1", stream.read)  # returns available bytes before it raises
    buffer = b""
    while not buffer and (chunk := read(_CHUNK)):
        buffer = chunk.lstrip(BLANK)
    if not buffer.startswith((b"[", b"{")):
        raise InputError(f"{file}: neither a JSON array nor a JSON object", AGAIN)
    count, depth, start, at, in_string = 0, 1, 1, 1, False
    while depth:
        boring = _IN_STRING if in_string else _BETWEEN if depth == 1 else _IN_ENTRY
        skipped = boring.match(buffer, at)
        at = skipped.end() if skipped else at
        byte = buffer[at : at + 1]
        if byte == b'"':
            in_string = not in_string
            at += 1
            continue
        if byte in (b"", b"\\"):
            chunk = read(_CHUNK)
            if not chunk:
                raise InputError(f"{file}, after entry {count:,}: the JSON ends early", AGAIN)
            buffer, start, at = buffer[start:] + chunk, 0, at - start
            if len(buffer) > MAX_RECORD:
                hint = "A bracket or a quotation mark is missing near its start. " + AGAIN
                raise InputError(
                    f"{file}, after entry {count:,}: an entry of more than {MAX_RECORD:,} bytes", hint
                )
            continue
        at += 1
        depth += (byte in (b"[", b"{")) - (byte in (b"]", b"}"))
        if depth == 0 or (depth == 1 and byte == b","):
            entry = buffer[start : at - 1].strip()
            start = at
            if entry or depth:
                count += 1
                yield entry
    rest = buffer[at:]
    while rest or (rest := read(_CHUNK)):
        if rest.strip():
            raise InputError(f"{file}, after entry {count:,}: text after the end of the JSON", AGAIN)
        rest = b""


_MAX_TOKENS = 300_000  # a tenth of a second

_TOKEN = re.compile(rb"(%b)(\s*+:)?|[\[\]{}]" % _STRING, re.S)


def first_keys(head: bytes) -> set[str]:
    """The keys, as written, of the first object of a file, or of its array, as far as `head` goes."""
    keys: set[str] = set()
    depth = 0
    head = head.lstrip(BLANK + b"[")
    if not head.startswith(b"{"):
        return keys
    for token in islice(_TOKEN.finditer(head), _MAX_TOKENS):
        if token[1] is None:
            depth += 1 if token[0] in b"[{" else -1
            if depth == 0:
                break
        elif depth == 1 and token[2]:
            keys.add(token[1][1:-1].decode("utf-8", "replace"))
    return keys


_BOM = b"\xef\xbb\xbf"
_START = re.compile(rb'\s*(?:\[\s*(?:[\[{]|$)|\{\s*(?:"(?:[^"\\]|\\.)*"\s*(?::\s*(?:[\[{]\s*)?)?,?\s*)?$)')
"""The first line of an array or an object that goes on: `[`, `[{"id": 1},`, `{`, `{"Data": [`, `{"id":`."""


def json_object(line: bytes, place: str, expected: str) -> dict[str, Any]:
    """The object of one line. expected: the hint of the `InputError` for a line without an object.

    An array, or an object over several lines, has a hint of its own: the command that converts it.
    """
    line = line.removeprefix(_BOM)
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if _START.match(line):
            is_array = line.lstrip().startswith(b"[")
            layout = "array" if is_array else "document"
            raise InputError(
                f"{place}: not JSON lines, but a JSON {layout} over several lines",
                _converted(is_array, expected),
            ) from None
        raise InputError(f"{place}: not JSON ({error})", expected) from None
    if isinstance(row, list) and row and isinstance(row[0], dict):
        raise InputError(f"{place}: not JSON lines, but a JSON array", _converted(True, expected))
    if not isinstance(row, dict):
        raise InputError(f"{place}: expected a JSON object, found {type(row).__name__}", expected)
    return row


def _converted(is_array: bool, expected: str) -> str:
    command = "jq -c '.[]' FILE" if is_array else "jq -c . FILE (for a list under a key: jq -c '.KEY[]' FILE)"
    return f"Convert it: {command} > FILE.jsonl. {expected}"
