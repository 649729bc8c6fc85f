"""The source of a page of Markdown: its encoding, cells of notebooks, and the files that mdBook includes."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

import orjson

from linkseek.indexer.files.encodings import encoding_of
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.paths import is_inside
from linkseek.indexer.readers.folder.page_targets import climb
from linkseek.indexer.readers.markdown.markdown_tags import TAGS, Dropped

NOTEBOOK = ".ipynb"
CODE = "cells of code"


def decode_markdown(content: bytes) -> str:
    """A page as text: UTF-8 or UTF-16. Raises `InputError` for anything else."""
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    zeros = not len(content) % 2 and 4 * content.count(0) > len(content)
    encoding = encoding_of(content) if marked or zeros else "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"line {line:,}: not UTF-8 (byte 0x{content[error.start]:02x})"
        raise InputError(problem, "Save the file as UTF-8, or use --on-error skip to skip it.") from None


def read_source(name: str, content: bytes, dropped: Dropped) -> str:
    """A page as Markdown; of a notebook its cells of Markdown. Raises `InputError` for damage."""
    if not name.lower().endswith(NOTEBOOK):
        return decode_markdown(content)
    try:
        notebook = orjson.loads(content or b"{}")
        sheets = [notebook, *notebook.get("worksheets", ())]
        cells = [cell for sheet in sheets for cell in sheet.get("cells", ())]
        shown = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise InputError(
            "not a notebook (JSON with cells)", "Save it again in Jupyter, or --exclude it."
        ) from None
    dropped[CODE, ""] += len(cells) - len(shown)
    return "\n\n".join(shown)


_INCLUDE = re.compile(
    r"(?<![\\`])\{\{ ?#(include|rustdoc_include|playground|playpen|title)\b[ \t]*([^{}\n]*)\}\}"
)
_ANCHOR = re.compile(r"ANCHOR(_END)?:\s*([\w.-]+)")
_DEEPEST = 10


def with_includes(
    source: str, page: str, folder: Path, dropped: Dropped, room: list[int], depth: int = 0
) -> str:
    """The page with the lines of the files that it includes; what cannot be included is dropped and counted.

    room: the number of characters that may still be included, which this changes.
    """

    def included(match: re.Match[str]) -> str:
        path, *selected = (match[2].split() or [""])[0].split(":")
        inside = climb(page, path)
        file = folder / inside
        if match[1] != "title" and depth < _DEEPEST and path and is_inside(folder, file) and file.is_file():
            with file.open("rb") as stream:
                content = stream.read(room[0] + 1)
            room[0] -= len(content)
            if room[0] >= 0:
                lines = _selected(content.decode("utf-8", "replace").splitlines(), selected)
                return with_includes("\n".join(lines), inside, folder, dropped, room, depth + 1)
        dropped[TAGS, match[1]] += 1
        return ""

    return _INCLUDE.sub(included, source) if "#" in source and "{{" in source else source


def _selected(lines: list[str], selected: list[str]) -> list[str]:
    """The lines 2:10 (also "2:" and ":10"), or those of an anchor; without the comments that mark anchors."""
    if selected and (selected[0].isdecimal() or not selected[0]):
        start, end = (int(one) if one.isdecimal() else 0 for one in (*selected, selected[0])[:2])
        lines = lines[max(start - 1, 0) : end or None]
    elif selected:
        marks = [(match[2], match[1]) if (match := _ANCHOR.search(line)) else None for line in lines]
        start, end = ((*marks, (selected[0], of)).index((selected[0], of)) for of in (None, "_END"))
        lines = lines[start:end]
    return [line for line in lines if not _ANCHOR.search(line)]
