"""Documents of a report as GitHub's Markdown, which docs/ can contain.

Charts are their tables, nothing is folded, and a text that runs from right to left stands between isolating
characters. Everything that a template prints is escaped, as for HTML.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from linkseek.app.report.render import TEMPLATES, ReportDocument, environment, rendered
from linkseek.app.report.text import clean

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$&#!])")
_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_LIST = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
_PLAIN_NAME = re.compile(r"[\w.:/@=+-]+", re.ASCII)  # others would break a table, or its direction
_ISOLATE, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


def markdown_page(document: ReportDocument) -> str:
    """The document as Markdown."""
    parts = rendered([document.opening, *document.sections], "md.j2", _environment)
    blocks = [f"# {escape(document.title)}", *parts]
    lines = [line.rstrip() for line in "\n\n".join(blocks).split("\n")]
    page = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
    return re.sub(r"(?m)^( *- .*)\n\n(?= *- )", r"\1\n", page)  # items of a list without lines between them


def escape(text_: str) -> str:
    """A foreign text as one line of Markdown that shows it and is nothing else."""
    line = _inline(text_)
    return _LIST.sub(lambda match: f"\\{match[1]}" if match[1] in "-+=" else f"{match[1]}\\", line)


def _inline(text_: str) -> str:
    """The same of a text that does not begin a line."""
    line = _SPECIAL.sub(r"\\\1", clean(text_))
    line = _LINK.sub(r"\\", line)  # else it becomes a link without being written as one
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in line):
        return f"{_ISOLATE}{line}{_POP}"
    return line


def _markdown_code(text_: str) -> Markup:
    """A text between more backticks than it has in a row."""
    line = clean(text_)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if "`" in line else ""
    return Markup(f"{fence}{pad}{line}{pad}{fence}" if line else "")


def _markdown_name(name: str) -> Markup:
    return _markdown_code(name) if _PLAIN_NAME.fullmatch(name) else Markup(escape(name))


def _finalized(value: Any) -> Any:
    return value if isinstance(value, Markup) else Markup(_inline(str(value)))


@cache
def _environment(folder: Path) -> Environment:
    loader = FileSystemLoader([folder, Path(__file__).with_name("templates"), TEMPLATES])
    made = environment(folder).overlay(loader=loader, finalize=_finalized)
    made.filters = made.filters | {
        "data": lambda value: value,
        "code": _markdown_code,
        "name": _markdown_name,
    }
    return made
