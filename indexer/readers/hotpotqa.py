"""HotpotQA's Wikipedia of October 2017 with the editors' own links (https://hotpotqa.github.io/wiki-readme.html).

The archive of abstracts (.tar.bz2) or of whole articles as it is published, or lines of its files. A line is
an article: `{"id", "url", "title", "text", "charoffset"}`, of abstracts also `"text_with_links"`. A text is
a list of sentences, or a list of paragraphs that are such lists; links are `<a href="TITLE">`. Titles are
ids, as HotpotQA judges them.
"""

from __future__ import annotations

import bz2
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

from linkseek.indexer.documents import Document, Link
from linkseek.indexer.files.sources import read_head, read_lines
from linkseek.indexer.readers.jsonl import field_text, first_object_has, load_object
from linkseek.indexer.readers.reader import Outcome, Reader, Record, damaged

_TAR = 257, b"ustar"
_LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.DOTALL)


class HotpotQAReader(Reader):
    """An article a line, in the files of an archive."""

    name = "hotpotqa"
    description = "HotpotQA's Wikipedia with links, abstracts or articles: `.tar.bz2`, or lines of its files"
    costly = True

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """An archive whose first name has `withlinks` in it, or a line with `charoffset`."""
        return (_is_tar(head) and b"-withlinks-" in head[:100]) or first_object_has(
            head, b'"title"', b'"text"', b'"charoffset"'
        )

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """The lines of a file, or of all files of an archive."""
        if not _is_tar(read_head(self.path)):
            yield from super().read_records(stream)
            return
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file is not None and member.name.endswith(".bz2"):
                    with bz2.open(file) as lines:
                        for number, line in read_lines(cast(BinaryIO, lines)):
                            yield Record(f"{member.name}, line {number:,}", line)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        title = field_text(row, "title")
        text, links = _joined(row.get("text_with_links", row.get("text")))
        yield Document(id=title, title=title, text=text, links=links, url=field_text(row, "url", default=""))


def _is_tar(head: bytes) -> bool:
    place, magic = _TAR
    return head[place : place + len(magic)] == magic


def _joined(value: Any) -> tuple[str, tuple[Link, ...]]:
    """Sentences, or paragraphs of sentences, as a text without tags, and its links."""
    if not isinstance(value, list):
        raise damaged(f'"text" is {type(value).__name__}, expected a list of sentences', "record")
    paragraphs = value if value and isinstance(value[0], list) else [value]
    if not all(isinstance(p, list) and all(isinstance(x, str) for x in p) for p in paragraphs):
        raise damaged('"text" holds something else than sentences', "record")
    return strip_links("\n\n".join("".join(paragraph) for paragraph in paragraphs))


def strip_links(marked: str) -> tuple[str, tuple[Link, ...]]:
    """A text without the tags of its links, and these."""
    text, links, after = "", [], 0
    for match in _LINK.finditer(marked):
        text += marked[after : match.start()]
        target, anchor = title_of(unquote(match[1])), match[2]
        if target and anchor.strip():
            links.append(Link(len(text), len(text) + len(anchor), target))
        text += anchor
        after = match.end()
    return text + marked[after:], tuple(links)


def title_of(target: str) -> str:
    """The title of the article that a link leads to, as Wikipedia writes titles: "Political philosophy"."""
    title = " ".join(target.partition("#")[0].replace("_", " ").split())
    return title[:1].upper() + title[1:]
