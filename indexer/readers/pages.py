"""A folder that holds both Markdown files and web pages, with links between them.

Each file is read as in a folder of its own kind: everything here comes from the readers of the two kinds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from linkseek.indexer.readers.folder.folders import PageReader
from linkseek.indexer.readers.folder.page_targets import SiteFacts
from linkseek.indexer.readers.html.html_pages import HtmlReader
from linkseek.indexer.readers.markdown.markdown_pages import MarkdownReader
from linkseek.indexer.readers.reader import Outcome, Record

_PARTS: tuple[type[PageReader], ...] = (MarkdownReader, HtmlReader)


class PagesReader(PageReader):
    """Markdown files and web pages in one folder."""

    name = "pages"
    description = "a folder of both Markdown files and web pages"
    includes = True
    suffixes = tuple(suffix for part in _PARTS for suffix in part.suffixes)
    indexes = tuple(index for part in _PARTS for index in part.indexes)

    @classmethod
    def _count(cls, path: Path, names: Sequence[str]) -> float:
        counts = [part._count(path, names) for part in _PARTS]
        return sum(counts) if all(counts) else 0  # more than either of the two

    @classmethod
    def stated(cls, path: Path, names: Sequence[str]) -> dict[str, str]:
        """What config files of either kind state."""
        return {key: value for part in _PARTS for key, value in part.stated(path, names).items()}

    @classmethod
    def facts(cls, path: Path, names: Sequence[str], dialect: str) -> SiteFacts:
        """What the Markdown files say, and the addresses that web pages name as their own."""
        markdown, html = (part.facts(path, names, dialect) for part in _PARTS)
        addresses, titles = html.addresses | markdown.addresses, html.titles | markdown.titles
        return replace(markdown, addresses=addresses, titles=titles)

    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """As the reader of its kind."""
        return self._part(name).read_file(name, stream)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """As the reader of its kind."""
        return self._part(record.place).parse(record)

    def _part(self, name: str) -> PageReader:
        part = next((part for part in _PARTS if part.reads(name)), HtmlReader)(self.path, self.choices)
        part.reading, part.whole = self.reading, self
        return part
