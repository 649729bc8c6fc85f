"""JSON lines with links: the plainest way to bring a linked corpus of one's own.

One object a line: `{"id", "title", "text", "links": [{"start", "end", "target"}]}`; optional:
`"sections": [{"start", "heading", "level"}]`, `"url"`, `"metadata": {name: text}`. Offsets are
characters (Unicode code points) into `text`. Fields that are not named here are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from indexer.base.errors import InputError
from indexer.documents import Document, Link, Section
from indexer.files.json_stream import BLANK, first_keys
from indexer.files.sources import read_lines
from indexer.readers import Outcome, Reader, Record


class JsonlReader(Reader):
    """Documents with character-offset links, one JSON object a line."""

    name = "jsonl"
    summary = "JSON lines: id, title, text, links (start, end, target)"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first line is an object with `id`, `text` and `links`."""
        return first_object_has(head, b'"id"', b'"text"', b'"links"')

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """One record a line."""
        for number, line in read_lines(stream):
            yield Record(f"line {number:,}", line)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        text = field_text(row, "text")
        yield Document(
            id=field_text(row, "id"),
            title=field_text(row, "title", default=""),
            text=text,
            links=_links(row.get("links", []), text),
            sections=_sections(row.get("sections", []), text),
            url=field_text(row, "url", default=""),
            metadata=_metadata(row.get("metadata")),
        )


def first_object_has(head: bytes, *keys: bytes) -> bool:
    """Whether the first line of a JSONL file is an object with all these keys (and their quotation marks)."""
    return first_keys(head.lstrip(BLANK).split(b"\n", 1)[0]) >= {*keys}


def load_object(line: bytes) -> dict[str, Any]:
    """A JSON object. Raises `InputError` for anything else."""
    try:
        row = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise InputError(_why_no_json(line, error), _MEND_LINE) from None
    if not isinstance(row, dict):
        raise InputError(f"expected a JSON object, found {type(row).__name__}", _MEND)
    return row


def _why_no_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as wrong:
        return f"not UTF-8 (byte {wrong.start + 1:,} of the line is 0x{line[wrong.start]:02x})"
    return f"not JSON ({error.msg}, character {error.pos + 1:,})"


_MEND_LINE = "Mend the line, or use --on-error skip to leave it out."


def field_text(row: dict[str, Any], name: str, default: str | None = None) -> str:
    """A text field (whole numbers are taken as text). Raises `InputError` if missing or of another type."""
    value = row.get(name, default)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None:
        found = f"it has {', '.join(map(str, row)) or 'no fields'}"
        raise InputError(f'the field "{name}" is missing ({found})', _MEND)
    if not isinstance(value, str):
        raise InputError(f'"{name}" is {type(value).__name__}, expected text', _MEND)
    return value


_MEND = "Mend the record, or use --on-error skip to leave it out."


def _links(rows: Any, text: str) -> tuple[Link, ...]:
    links = []
    for row in _objects(rows, "links"):
        start, end = _offset(row, "start", "links"), _offset(row, "end", "links")
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"link to {row.get('target')!r}: [{start}, {end}) is outside the text (0 to {len(text)})",
                "Offsets are characters into text, not bytes. " + _MEND,
            )
        links.append(Link(start, end, field_text(row, "target")))
    return tuple(sorted(links, key=lambda link: (link.start, link.end)))


def _sections(rows: Any, text: str) -> tuple[Section, ...]:
    sections = []
    for row in _objects(rows, "sections"):
        start = _offset(row, "start", "sections")
        if not 0 <= start <= len(text):
            raise InputError(f"section at {start} is outside the text (0 to {len(text)})", _MEND)
        level = _offset(row, "level", "sections") if "level" in row else 2
        if not 0 <= level <= 127:
            raise InputError(f"section at {start} has level {level}, expected 1 to 6", _MEND)
        sections.append(Section(start, field_text(row, "heading", default=""), level))
    return tuple(sorted(sections, key=lambda section: section.start))


def _metadata(values: Any) -> dict[str, str]:
    if not isinstance(values, dict | None):
        raise InputError(f'"metadata" is {type(values).__name__}, expected an object', _MEND)
    return {name: str(value) for name, value in (values or {}).items()}


def _objects(rows: Any, name: str) -> list[dict[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f'"{name}" is not a list of objects', _MEND)
    return rows


def _offset(row: dict[str, Any], name: str, where: str) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f'"{name}" in "{where}" is {value!r}, expected a whole number', _MEND)
    return value
