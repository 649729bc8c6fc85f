"""JSON lines: one object a line, and what to do with JSON of another layout."""

from __future__ import annotations

import re
from typing import Any

import orjson

from linkseek.indexer.program.errors import InputError

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
    command = "jq -c '.[]' FILE" if is_array else "jq -c . FILE (of a list under a key: jq -c '.KEY[]' FILE)"
    return f"Convert it: {command} > FILE.jsonl. {expected}"
