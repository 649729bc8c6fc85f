"""JSON: lines with links, the simplest format for a linked corpus of your own, and collections without links.

One object a line: `{"id", "title", "text", "links": [{"start", "end", "target"}]}`; optional:
`"sections": [{"start", "heading", "level", "anchor"}]`, `"url"`, `"metadata": {name: text}`. Offsets are
characters (Unicode code points) into `text`. Other fields are ignored. A document without links needs `id`
and `text` alone. In a folder, files of queries are not read.

BEIR's `corpus.jsonl`: `{"_id", "title", "text", "metadata"}`; a document is a passage. The id may be called
`docid`, as in the corpora of Tevatron and MIRACL, `doc_id`, as ir_datasets writes it, or `pid`, as MS MARCO
v2 does, whose texts are a `passage`, a `segment` or a `body`.

Pyserini and Anserini: objects with `id` and `contents`. A file is JSON lines, an array of objects or one
object; a folder of such files is a collection too (what Anserini's `-input` expects of a `JsonCollection`).
`contents` is the searched text. A title may be its first line, in quotation marks, as in DPR's collections
(`"Title"\\ntext`), or a field `title`; a field `text`, if there is one, is the text. Of the other fields
only `url` is read.
"""

import html
import json
import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from io import BufferedReader
from typing import Any, BinaryIO, ClassVar, cast
from urllib.parse import unquote

import orjson

from linkseek.indexer.documents import Document, Link, Redirect, Section
from linkseek.indexer.files.encodings import utf8_head
from linkseek.indexer.files.json_stream import BLANK, first_keys, read_entries
from linkseek.indexer.files.sources import MAX_RECORD, read_head
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.folder.folders import FolderReader
from linkseek.indexer.readers.reader import Ignored, Outcome, Reader, Record, damaged
from linkseek.indexer.wikitext.edits import Edit, PageText
from linkseek.indexer.wikitext.link_targets import WITHOUT_TEXT


class JsonReader(FolderReader):
    """The base of formats in JSON: a file of lines, an array or an object, or a folder of such files.

    Files of queries and judgements may lie next to them.
    """

    suffixes = tuple(
        f".{kind}{packed}"
        for kind in ("json", "jsonl", "ndjson")
        for packed in ("", ".gz", ".bz2", ".zst", ".xz", ".lzma", ".zip")
    )

    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """One record a line, or an entry of the array, or the whole file."""
        head = cast(BufferedReader, stream).peek().lstrip(BLANK)  # what `open_source` gives
        if head.startswith(b"["):
            for number, entry in enumerate(read_entries(stream, self.path_of(name)), start=1):
                yield Record(f"entry {number:,}", entry)
        elif _MULTILINE.match(head):
            content = stream.read(MAX_RECORD + 1)
            if len(content) > MAX_RECORD:
                hint = "Write one object a line, or an array of objects."
                raise InputError(f"{self.path_of(name)}: an object of more than {MAX_RECORD:,} bytes", hint)
            yield Record("its object", content)
        else:
            yield from Reader.read_records(self, stream)

    @classmethod
    def reads(cls, name: str) -> bool:
        """JSON, and numbered parts without suffix (wiki_00), but no queries or judgements by their names."""
        return bool(super().reads(name) or _PART.search(name)) and not _QUERIES.search(name)


_MULTILINE = re.compile(rb"\{(?:[^\n]*(?:[{\[:]|[^}],))?[ \t\r]*\n")
"""The first line of an object that spans several lines."""
_PART = re.compile(r"(?:^|/)(?:wiki|part|shard|msmarco_\w+)[_-]\d+(?:\.(?:gz|bz2|zst|xz|lzma|zip))?$", re.I)
_QUERIES = re.compile(r"(?:^|/)(?:queries|questions|topics|qrels)\b[^/]*$", re.IGNORECASE)


class JsonlReader(JsonReader):
    """Documents with character-offset links, one JSON object a line."""

    name = "jsonl"
    description = "JSON lines, a file or a folder: `id`, `text`; optional `title`, `links`"

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has `id`, `text` and `links`; or `id`, `text` and no key of another format.

        WikiExtractor's lines have a format of their own; an array of such objects has not.
        """
        keys = first_keys(head)
        if not keys >= {"id", "text"}:
            return False
        extracted = first_object_has(head, "id", "url", "title", "text")  # by WikiExtractor
        return "links" in keys or (keys.isdisjoint(_OF_OTHERS) and not extracted)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document."""
        row = load_object(record.payload)
        if "links" not in row and row.keys() >= {"id", "url", "title", "text"}:  # links may be in the text
            yield from linked_page(row)
            return
        text, metadata = field_text(row, "text"), row.get("metadata")
        if not isinstance(metadata, dict | None):
            raise damaged(f'"metadata" is {type(metadata).__name__}, expected an object', "record")
        yield Document(
            id=field_text(row, "id"),
            title=field_text(row, "title", default=""),
            text=text,
            links=tuple(sorted(_links(row.get("links"), text), key=lambda link: (link.start, link.end))),
            sections=tuple(sorted(_sections(row.get("sections"), text), key=lambda one: one.start)),
            url=field_text(row, "url", default=""),
            metadata={name: _as_text(value) for name, value in (metadata or {}).items() if value is not None},
        )


def _as_text(value: Any) -> str:
    """A value of the metadata; of a list its values with commas, as filters look for them."""
    return ", ".join(str(one) for one in value if one is not None) if isinstance(value, list) else str(value)


_OF_OTHERS = {
    "_id", "docid", "doc_id", "contents", "wikipedia_id", "text_with_links",
    "charoffset", "answers", "answer", "question",
}  # fmt: skip

TITLE = "title:"
"""Before the title of a page that links name while ids are numbers; a redirect leads from one to the
other."""


def title_key(title: str) -> str:
    """The name under which links find a page by its title."""
    title = " ".join(title.replace("_", " ").split())
    return f"{TITLE}{title[:1].upper()}{title[1:]}"


def linked_page(row: dict[str, Any]) -> Iterator[Outcome]:
    """The document of a row whose text holds its links as <a href="Title">, and the redirect from its
    title."""
    title, url = field_text(row, "title", default=""), field_text(row, "url", default="")
    extracted = "?curid=" in url  # by WikiExtractor, which writes &amp; for &
    title = html.unescape(title) if extracted else title
    page, lost = cut_anchors(field_text(row, "text"), entities=extracted)
    if title and page.text.startswith(f"{title}\n"):
        page = page.edited([(0, len(page.text) - len(page.text[len(title) :].lstrip()), "")])
    id_ = field_text(row, "id")
    yield Document(id_, title, *page, url)
    if title and title_key(title) != id_:
        yield Redirect(title_key(title), id_)
    if lost:
        yield Ignored(WITHOUT_TEXT, lost)


_ANCHOR = re.compile(r"""<a\s+href=["']?([^"'>]*)["']?[^>]*>|</a>|(&#?\w{1,32};?)""", re.IGNORECASE)
_ESCAPED_ANCHOR = re.compile(r"&lt;a\s+href=", re.IGNORECASE)


def cut_anchors(text: str, *, entities: bool = False) -> tuple[PageText, int]:
    """(text with its links, the number without text) of a text with links as <a href="Title">, also escaped.

    entities: whether &amp; in the text stands for &.
    """
    if _ESCAPED_ANCHOR.search(text):
        text = html.unescape(text)
    edits: list[Edit] = []
    links: list[Link] = []
    opened: re.Match[str] | None = None
    lost = 0
    for match in _ANCHOR.finditer(text):
        if match[2]:
            edits += [(*match.span(), html.unescape(match[0]))] if entities else []
            continue
        edits.append((*match.span(), ""))
        if opened and match[1] is None:
            target = unquote(html.unescape(opened[1]), errors="replace").partition("#")[0]
            lost += opened.end() == match.start()
            if target and not _ADDRESS.match(target):
                links.append(Link(opened.end(), match.start(), title_key(target)))
        opened = match if match[1] is not None else None
    return PageText(text, tuple(links)).edited(edits), lost


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|mailto:", re.IGNORECASE)


def first_object_has(head: bytes, *keys: str) -> bool:
    """Whether the first line of a JSONL file is an object with all these keys."""
    line = head.lstrip(BLANK).split(b"\n", 1)[0]
    return line.startswith(b"{") and first_keys(line) >= {*keys}


def load_object(line: bytes) -> dict[str, Any]:
    """A JSON object, also with what Python writes that JSON lacks: NaN (as null), and half of a surrogate
    pair (as "?").

    Raises `InputError` for anything else.
    """
    line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        try:
            row = json.loads(line.decode("utf-8"), parse_constant=lambda _: None)
            row = orjson.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
        except UnicodeDecodeError as bad:
            problem = f"not UTF-8 (byte {bad.start + 1:,} of the line is 0x{line[bad.start]:02x})"
            raise damaged(problem) from None
        except (ValueError, RecursionError):
            raise damaged(f"not JSON ({error.msg}, character {error.pos + 1:,})") from None
    if not isinstance(row, dict):
        raise damaged(f"expected a JSON object, found {type(row).__name__}", "record")
    return row


def field_text(row: dict[str, Any], name: str, default: str | None = None) -> str:
    """A text field (whole numbers are taken as text; null is missing).

    Raises `InputError` if it is missing without a default, or of another type.
    """
    value = default if row.get(name) is None else row[name]
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None:
        fields = ", ".join(map(str, row)) or "no fields"
        problem = "null" if name in row else f"missing (it has {fields})"
        raise damaged(f'the field "{name}" is {problem}', "record")
    if not isinstance(value, str):
        raise damaged(f'"{name}" is {type(value).__name__}, expected text', "record")
    return value


def _links(rows: Any, text: str) -> Iterator[Link]:
    for row in _objects(rows, "links"):
        start, end = (_number(row, name, "links") for name in ("start", "end"))
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"link to {row.get('target')!r}: [{start}, {end}) is outside the text (0 to {len(text)})",
                "Fix the record (offsets are characters, not bytes), or use --on-error skip to skip it.",
            )
        yield Link(start, end, field_text(row, "target"))


def _sections(rows: Any, text: str) -> Iterator[Section]:
    for row in _objects(rows, "sections"):
        start, level = _number(row, "start", "sections"), _number({"level": 2} | row, "level", "sections")
        if not 0 <= start <= len(text):
            raise damaged(f"section at {start} is outside the text (0 to {len(text)})", "record")
        if not 0 <= level <= 127:
            raise damaged(f"section at {start} has level {level}, expected 1 to 6", "record")
        heading, anchor = (field_text(row, name, default="") for name in ("heading", "anchor"))
        yield Section(start, heading, level, anchor)


def _objects(rows: Any, name: str) -> list[dict[str, Any]]:
    if not isinstance(rows, list | None) or not all(isinstance(row, dict) for row in rows or ()):
        raise damaged(f'"{name}" is not a list of objects', "record")
    return rows or []


def _number(row: dict[str, Any], name: str, where: str) -> int:
    value = row.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise damaged(f'"{name}" in "{where}" is {value!r}, expected a whole number', "record")
    return value


def _first_of(names: Iterable[str], row: Collection[str]) -> str:
    return next((name for name in names if name in row), "")


class BeirReader(JsonReader):
    """One document an object, without links; also the base of collections with other fields."""

    name = "beir"
    description = (
        "BEIR's `corpus.jsonl`, a file or a folder: `_id` (`docid`, `pid`), `title`, `text` (`passage`)"
    )
    passage = "a document"
    passage_words = 0
    ids: ClassVar[tuple[str, ...]] = ("_id", "pid", "docid", "doc_id")
    texts: ClassVar[tuple[str, ...]] = ("text", "passage", "segment")
    others: ClassVar[frozenset[str]] = frozenset(("wikipedia_id",))
    """Fields of other formats."""

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has an id and a text of these names, and no field of another format."""
        keys = first_keys(head)
        id_, text = _first_of(cls.ids, keys), _first_of(cls.texts, keys)
        others = {"id", *cls.others} if id_ == "pid" else cls.others
        return bool(id_ and text) and keys.isdisjoint(others)

    @cached_property
    def _text(self) -> str:
        """The name of the text in the first object."""
        head = utf8_head(read_head(next(iter(self.paths()))))
        return _first_of(self.texts, first_keys(head)) or self.texts[0]

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document; headings that the text lacks begin it."""
        row = load_object(record.payload)
        fields = row["metadata"] if isinstance(row.get("metadata"), dict) else {}
        name = next((name for name in self.texts if row.get(name) is not None), "") or self._text
        text, title = field_text(row, name), field_text(row, "title", default="")
        if name == "contents":
            title, text = _split_title(text, title)
        headings = [heading.strip() for heading in field_text(row, "headings", default="").split("\n")]
        missing = [heading for heading in headings if heading not in text and heading != title]
        yield Document(
            id=field_text(row, _first_of(self.ids, row) or self.ids[0]),
            title=title,
            text="\n\n".join([*missing, text]),
            url=field_text(row, "url", default=field_text(fields, "url", default="")),
        )


class MsmarcoV2Reader(BeirReader):
    """Documents of MS MARCO's second version; its passages and segments are as BEIR's."""

    name = "msmarco-v2"
    description = "MS MARCO v2's documents, a file or a folder: `docid`, `url`, `title`, `headings`, `body`"
    passage = "100 words"
    passage_words = 100
    texts = ("body",)
    others = frozenset(("wikipedia_id", "text", "passage", "segment"))


class PyseriniReader(BeirReader):
    """A collection in which the title may be the first line of the text."""

    name = "pyserini"
    description = "a JSON collection of Pyserini or Anserini, a file or a folder: `id`, `contents`"
    passage = "an object"
    ids = ("id",)
    texts = ("text", "contents")

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The first object has `id` and `contents`."""
        return first_keys(head) >= {"id", "contents"}


def _split_title(contents: str, title: str) -> tuple[str, str]:
    """(title, text): a first line that is the title, or is in quotation marks, is not part of the text."""
    first, line_break, rest = contents.partition("\n")
    quoted = len(first) >= 2 and first[0] == first[-1] == '"'
    bare = first[1:-1] if quoted else first
    if line_break and (bare == title if title else quoted):
        return bare, rest
    return title, contents
