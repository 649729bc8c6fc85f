"""Wikipedia as others have extracted it: WikiExtractor's output and KILT's knowledge source.

WikiExtractor writes folders of files (AA/wiki_00), of JSON lines or of <doc> elements, with the links in the
text (`--links`). In KILT's file a text is a list of paragraphs, and links have places in them. Ids are the
numbers of the files; links name titles, so each page has its title as another name.

Source: https://github.com/attardi/wikiextractor, https://github.com/facebookresearch/KILT.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from linkseek.indexer.documents import Document, Link, Redirect, Section
from linkseek.indexer.files.json_stream import first_keys
from linkseek.indexer.files.sources import MAX_RECORD, read_lines
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.jsonl import (
    JsonReader,
    field_text,
    first_object_has,
    linked_page,
    load_object,
    title_key,
)
from linkseek.indexer.readers.reader import Ignored, Outcome, Reader, Record, damaged
from linkseek.indexer.wikitext.edits import PageText


class WikiextractorReader(JsonReader):
    """One page an object or a <doc>, with links in its text."""

    name = "wikiextractor"
    description = "WikiExtractor's output, a file or a folder: JSON lines or `<doc>`, links with `--links`"

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first line is an object with id, url, title and text, and no links of its own; or it is <doc
        id=."""
        written = first_object_has(head, "id", "url", "title", "text")
        return head.startswith(b"<doc id=") or (written and not first_keys(head) & _OF_OTHERS)

    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """One record a line, or a <doc>."""
        page: list[bytes] = []
        begun, size = 0, 0
        for number, line in read_lines(stream):
            if page:
                page.append(line)
                size += len(line)
                if size > MAX_RECORD:
                    problem = (
                        f"{self.path_of(name)}, line {begun:,}: a <doc> of more than {MAX_RECORD:,} bytes"
                    )
                    raise InputError(problem, "Its </doc> is missing.")
                if line == b"</doc>":
                    yield Record(f"line {begun:,}", b"\n".join(page[:-1]))
                    page = []
            elif line.startswith(b"<doc "):
                page, begun, size = [line], number, len(line)
            else:
                yield Record(f"line {number:,}", line)
        if page:
            yield Record(f"line {begun:,}", damaged("its </doc> is missing", "file"))

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, and the redirect from its title."""
        row = _doc(record.payload) if record.payload.startswith(b"<doc ") else load_object(record.payload)
        if not field_text(row, "text", default="").strip():
            return [Ignored("empty page")]
        return [_without_marks(one) if isinstance(one, Document) else one for one in linked_page(row)]


_OF_OTHERS = {"links", "text_with_links", "charoffset", "_id", "contents"}
_HEAD = re.compile(r"<doc\b([^>]*)>\n?")
_FIELD = re.compile(r'(\w+)="([^"]*)"')


def _doc(source: bytes) -> dict[str, Any]:
    try:
        text = source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(f"not UTF-8 ({error})", "file") from None
    head = _HEAD.match(text)
    if head is None:
        raise damaged("its <doc ...> has no end", "file")
    return dict(_FIELD.findall(head[1])) | {"text": text[head.end() :].strip()}


def sentence(value: Any) -> str:
    """A text in a list. Raises `InputError` for anything else."""
    if not isinstance(value, str):
        raise damaged(f"a sentence is {type(value).__name__}, expected text", "record")
    return value


class KiltReader(Reader):
    """KILT's knowledge source: a text is a list of paragraphs."""

    name = "kilt"
    description = "KILT's `kilt_knowledgesource.json`: `wikipedia_id`, `wikipedia_title`, `text`, `anchors`"
    costly = True

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The first line is an object with wikipedia_id, wikipedia_title and text."""
        return first_object_has(head, "wikipedia_id", "wikipedia_title", "text")

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, and the redirect from its title."""
        row = load_object(record.payload)
        id_ = field_text(row, "wikipedia_id")
        title = field_text(row, "wikipedia_title", default="")
        paragraphs = row.get("text")
        if not isinstance(paragraphs, list):
            raise damaged(f'"text" is {type(paragraphs).__name__}, expected a list of paragraphs', "record")
        written = [sentence(paragraph) for paragraph in paragraphs]
        pieces = [f"{paragraph.lstrip()}\n" for paragraph in written]
        if pieces and pieces[0].strip() == title:
            pieces[0] = ""
        source = "".join(pieces).rstrip()
        ends = zip(accumulate(map(len, pieces)), written, strict=True)
        links, lost = _anchors(row.get("anchors"), [end - len(one) - 1 for end, one in ends], source)
        document = _without_marks(Document(id_, title, source, links))
        if not document.text:
            yield Ignored("empty page")
            return
        yield document
        if title:
            yield Redirect(title_key(title), id_)
        if lost := lost + len(links) - len(document.links):
            yield Ignored("links that are not at their place in the text", lost)


_MARK = re.compile(
    r"\A\s+|^Section::::[^\n]*(?:\n+|\Z)|(?:(?<!\n)\n++|^)[ \t]*+BULLET::::-?\s*|(?<!\n)\n{3,}", re.M
)


def _without_marks(document: Document) -> Document:
    """The document with sections and list items where WikiExtractor marks them (`--sections`, `--lists`)."""
    marks = list(_MARK.finditer(document.text))
    headings = [Section(mark.end(), *_heading(mark[0])) for mark in marks if mark[0].startswith("Section")]
    breaks = [mark[0][:1] if "BULLET" in mark[0] else mark[0][:2] for mark in marks]  # items are lines
    edits = [
        (*mark.span(), white if white.isspace() and mark.start() else "")
        for mark, white in zip(marks, breaks, strict=True)
    ]
    page = PageText(document.text, document.links, tuple(headings)).edited(edits)
    return replace(document, **page._asdict())


def _heading(mark: str) -> tuple[str, int]:
    """The heading and level of "Section::::Early life.:School."."""
    levels = mark.strip().removeprefix("Section::::").removesuffix(".").split(".:")
    return levels[-1].strip(" .:"), min(len(levels) + 1, 6)


def _anchors(rows: Any, starts: list[int], text: str) -> tuple[tuple[Link, ...], int]:
    """The links, and the number of those that are not at their place."""
    rows = rows if isinstance(rows, list) else []
    links = list(filter(None, (_anchor(row, starts, text) for row in rows)))
    return tuple(sorted(links, key=lambda link: (link.start, link.end))), len(rows) - len(links)


def _anchor(row: dict[str, Any], starts: list[int], text: str) -> Link | None:
    by_id = row.get("wikipedia_id")
    target = str(by_id or row.get("wikipedia_title") or row.get("href") or "")
    number, start, end = (row.get(name) for name in ("paragraph_id", "start", "end"))
    if not (isinstance(number, int) and isinstance(start, int) and isinstance(end, int) and target):
        return None
    if not 0 <= number < len(starts):
        return None
    start, end = starts[number] + start, starts[number] + end
    anchor = row.get("text", text[start:end])
    if not 0 <= start < end <= len(text) or text[start:end] != anchor:
        near = text.find(anchor, max(starts[number], 0)) if isinstance(anchor, str) and anchor.strip() else -1
        if near < 0 or abs(near - start) > _NEAR:
            return None
        start, end = near, near + len(anchor)
    title = unquote(target, errors="replace").partition("#")[0]
    return Link(start, end, target if by_id else title_key(title))


_NEAR = 5  # characters: where offsets count otherwise
