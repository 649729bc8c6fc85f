"""A folder that holds both Markdown files and web pages, with links between them.

Each file is read as in a folder of its own kind. Templates, from which a generator makes web pages, are no
pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.readers.folders import PageReader
from linkseek.indexer.readers.html_pages import HtmlReader
from linkseek.indexer.readers.markdown_pages import MarkdownReader
from linkseek.indexer.readers.reader import Ignored, Outcome, Record
from linkseek.indexer.readers.targets import SiteFacts

_TEMPLATE = re.compile(rb"\{%.*?%\}|\{\{.*?\}\}|<%.*?%>|<\?php", re.DOTALL)
_CODE = re.compile(rb"<(script|style|pre|code)\b.*?</\1>", re.DOTALL | re.IGNORECASE)


class PagesReader(PageReader):
    """Markdown files and web pages in one folder."""

    name = "pages"
    description = "a folder of both Markdown files and web pages"
    costly = True
    file = "Markdown file or web page"
    suffixes = (*MarkdownReader.suffixes, *HtmlReader.suffixes)
    indexes = (*MarkdownReader.indexes, *HtmlReader.indexes)

    @classmethod
    def _count(cls, path: Path, names: Sequence[str]) -> float:
        counts = [sum(map(reader.reads, names)) for reader in (MarkdownReader, HtmlReader)]
        return max(counts) + 0.5 if all(counts) else 0  # before either of the two

    @classmethod
    def is_page(cls, name: str) -> bool:
        """A page of either kind."""
        return (HtmlReader if HtmlReader.reads(name) else MarkdownReader).is_page(name)

    @classmethod
    def facts(cls, path: Path, names: Sequence[str], choices: Choices) -> SiteFacts:
        """What the Markdown files say."""
        return MarkdownReader.facts(path, names, choices)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """As the reader of its kind."""
        kind = HtmlReader if HtmlReader.reads(record.place) else MarkdownReader
        if kind is HtmlReader and _TEMPLATE.search(_CODE.sub(b"", record.payload)):
            return [Ignored("template of web pages")]
        reader = kind(self.path, self.choices)
        reader.reading, reader.family = self.reading, type(self)
        return reader.parse(record)
