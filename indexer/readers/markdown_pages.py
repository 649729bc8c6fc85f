"""A folder of Markdown files: a project's documentation, a GitHub wiki, an Obsidian vault.

A file is a document, and its id is its path in the folder ("guide/install.md"). The title is that of
the front matter (YAML), else the first heading of level 1, else the file's name. `title`, `date`, `tags`
and the language of the front matter become metadata; front matter that is not YAML is ignored and counted,
and text between two lines "---" that is no mapping stays text.
"""

from __future__ import annotations

import codecs
import datetime
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import yaml

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.documents import Document
from linkseek.indexer.readers.folders import PageReader
from linkseek.indexer.readers.layout import Layout
from linkseek.indexer.readers.markdown_text import PageLinks, first_heading, parse_markdown, render_markdown
from linkseek.indexer.readers.reader import Ignored, Outcome, Record


class MarkdownReader(PageReader):
    """Markdown files and the links between them."""

    name = "markdown"
    description = "a folder of Markdown files (.md, .markdown): documentation, a GitHub wiki, a vault"
    costly = True
    headings = True
    file = "Markdown file"
    suffixes = (".md", ".markdown")
    indexes = ("index.md", "README.md", "_index.md", "index.markdown")
    max_bytes = 1 << 22  # the parser takes up to a tenth of a millisecond for a character

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, and a note if its front matter is not YAML."""
        name = record.place
        source = _decode(record.payload)
        outcomes: list[Outcome] = []
        written, tokens = parse_markdown(source)
        metadata: dict[str, str] = {}
        try:
            front = _front_matter(written)
            if front is None:
                tokens = [*parse_markdown(written)[1], *tokens]
            metadata = _metadata(front or {})
        except _YAML_ERRORS:
            outcomes.append(Ignored("front matter that is not YAML (the page itself is kept)"))
        title = metadata.get("title") or first_heading(tokens) or PurePosixPath(name).stem
        layout = Layout()
        render_markdown(tokens, layout, title, PageLinks(name, self.targets()))
        text = layout.text()
        if not text:
            return [*outcomes, Ignored("empty page")]
        links, sections = tuple(layout.links), tuple(layout.sections)
        return [Document(name, title, text, links, sections, name, metadata), *outcomes]


def _decode(content: bytes) -> str:
    """A page as text: UTF-8, or UTF-16 with a byte order mark. Raises `InputError` for anything else."""
    encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"line {line:,}: not UTF-8 (byte 0x{content[error.start]:02x})"
        raise InputError(problem, "Save the file as UTF-8, or use --on-error skip to skip it.") from None


_MAX_FRONT_MATTER = 1 << 16
_MAX_ALIASES = 20
_YAML_ERRORS = (
    yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""PyYAML's own errors, and those it raises for values that do not fit their tags."""


def _front_matter(written: str) -> dict[Any, Any] | None:
    """The values by name; None if it is not a mapping. Raises one of `_YAML_ERRORS`."""
    if len(written) > _MAX_FRONT_MATTER:
        raise ValueError("too long")
    # Merge keys (<<, !!merge) copy the mappings that they name: those of 13 lines could fill any memory.
    merges = "<<" in written or "merge" in written
    if merges and sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(written)) > _MAX_ALIASES:
        raise ValueError("too many aliases")
    values = yaml.safe_load(written)
    return (values or {}) if isinstance(values, dict | None) else None


def _metadata(front: dict[Any, Any]) -> dict[str, str]:
    """`title`, `date`, `tags` and `lang` or `language` as texts: dates as in ISO 8601, tags with commas."""
    texts = {name: _as_text(front.get(name)) for name in ("title", "date", "tags")}
    texts["language"] = _as_text(front.get("lang")) or _as_text(front.get("language"))
    return {name: text for name, text in texts.items() if text}


def _as_text(value: Any) -> str:
    """A value as text on one line; nothing for values within values."""
    if isinstance(value, list):
        return ", ".join(filter(None, (_as_text(one) for one in value if not isinstance(one, list))))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if not isinstance(value, str | int | float):
        return ""
    text = " ".join(str(value).split())
    return text.encode("utf-8", "replace").decode()  # YAML can write half of a surrogate pair
