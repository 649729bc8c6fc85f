"""MediaWiki's XML export (versions 0.10 and 0.11), as in Wikipedia's dumps.

Pages of the main namespace become documents whose id is the title as a database key
(`Mercury_(planet)`), so that links and redirects share one id space. Of several revisions the
latest counts. Not read, on purpose: other namespaces, logs, the history, uploads, and entities that
a document type declares (no export has one, and they let a small file expand without limit).

The XML is read by expat itself. The mwxml library keeps an element of every page that it has read,
and takes ten times as long for a dump's many short pages (3 MB/s, expat 33).

Source: https://www.mediawiki.org/xml/export-0.11.xsd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from linkseek.indexer.base.errors import InputError
from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.files.sources import AGAIN, read_head
from linkseek.indexer.readers.mediawiki_titles import Site, titles_of
from linkseek.indexer.readers.reader import Ignored, Outcome, Reader, Record, damaged
from linkseek.indexer.wikitext import read_wikitext

MAX_PAGE_CHARACTERS = 10_000_000
"""Five times what MediaWiki allows by default. So much markup without text takes a minute and 2 GB."""


@dataclass(frozen=True, slots=True)
class Page:
    """The fields of a page that `parse` needs. `redirect` is the title it leads to, or empty."""

    site: Site
    title: str
    namespace: str
    page_id: str
    redirect: str
    model: str
    text: str


# Every step is atomic: else the time would double with each comment before another root.
_ROOT = re.compile(
    rb"(?>\xef\xbb\xbf|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>\[]*+(?:\[.*?\]\s*+)?>|\s++)*+<mediawiki[\s>]", re.S
)
_LANGUAGE = re.compile(rb"<mediawiki\b[^>]*?\sxml:lang=[\"']([\w-]+)")
_REDIRECT = re.compile(
    r"\s*#\s*(?:redirect|weiterleitung|redirecci[oó]n|redirection|rinvia|doorverwijzing|patrz|tam|"
    r"przekieruj|redirecionamento|omdirigering|перенаправление|перенапр|"
    r"تحويل|转址|重定向|転送|リダイレクト)"
    r"\s*:?\s*\[\[([^\[\]|\n]+)",
    re.IGNORECASE,
)


class MediawikiReader(Reader):
    """Articles of a wiki with their links and redirects."""

    name = "mediawiki"
    description = "a MediaWiki XML export, such as `enwiki-latest-pages-articles.xml.bz2`"
    costly = True
    headings = True

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The root element is <mediawiki>."""
        return _ROOT.match(head) is not None

    def language(self) -> str:
        """`xml:lang` of the root element."""
        match = _LANGUAGE.search(read_head(self.path))
        return match[1].decode() if match else ""

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """One record a page. Raises `InputError` where the XML is cut off or broken."""
        pages = _PageParser()
        read = getattr(stream, "read1", stream.read)  # returns available bytes before it raises
        last = "before the first page"
        while True:
            problem = None
            chunk = read(1 << 18)
            try:
                pages.feed(chunk)
            except InputError as error:
                problem = error
            for page in pages.take():
                place = f"page {page.page_id:.20} ({page.title:.255})"
                yield Record(place, page, len(page.text))
                last = f"after {place}"
            if problem:
                raise InputError(f"{self.path}, {last}: {problem.message}", problem.hint)
            if not chunk:
                return

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, one redirect, or the reason for neither."""
        page: Page = record.payload
        titles = titles_of(page.site)
        if page.namespace != "0":
            if _number(page.namespace) is None:
                raise damaged(f"its namespace {page.namespace[:60]!r} is not a number", "page")
            return [Ignored("other namespace")]
        id_ = titles.key(page.title)
        if not id_:
            raise damaged("the page has no title", "page")
        written = _REDIRECT.match(page.text)  # older exports have no element <redirect>
        if redirect := page.redirect or (written[1] if written else ""):
            target = titles.resolve(redirect).id
            return [Redirect(id_, target) if target else Ignored("redirect to another namespace")]
        if page.model not in ("", "wikitext"):
            return [Ignored("not wikitext")]
        if not page.text.strip():
            return [Ignored("empty page")]
        if len(page.text) > MAX_PAGE_CHARACTERS:
            problem = f"more than {MAX_PAGE_CHARACTERS:,} characters, which no wiki allows"
            raise InputError(f"the page has {problem}", "Split it, or use --on-error skip to skip it.")
        text, links, sections = read_wikitext(page.text, titles.resolve)
        title = page.title.replace("_", " ").strip()
        return [Document(id_, title, text, links, sections, titles.url(id_), {"page_id": page.page_id})]


def _number(written: str) -> int | None:
    """The number of a namespace."""
    return int(written) if re.fullmatch("-?[0-9]{1,9}", written) else None


# Elements whose text is collected, by (parent, name): <id> also stands elsewhere, and revisions of
# 0.11 can hold further slots, whose <text> is in <content>.
_WANTED = frozenset(
    [("siteinfo", "sitename"), ("siteinfo", "base"), ("siteinfo", "case"),
     ("namespaces", "namespace"), ("page", "title"), ("page", "ns"), ("page", "id"),
     ("revision", "timestamp"), ("revision", "model"), ("revision", "text")]
)  # fmt: skip
_DEEPEST = 100  # an export has six levels
_LONGEST_TAG = 1 << 23


class _PageParser:
    """Bytes of an export in, pages out; holds one page at a time, and of its text no more than is read."""

    def __init__(self) -> None:
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.StartDoctypeDeclHandler = self._refuse_doctype
        self._fed = 0
        self._open: list[str] = []
        self._pieces: list[str] = []
        self._room = 0
        self._site: dict[str, str] = {}
        self._language = ""
        self._namespaces: list[tuple[int, str, bool]] = []
        self._namespace = (0, False)
        self._built: Site | None = None
        self._page: dict[str, str] = {}
        self._revision: dict[str, str] = {}
        self._latest: dict[str, str] = {}
        self._pages: list[Page] = []

    def feed(self, chunk: bytes) -> None:
        """Parse a piece of the file; an empty one ends it. Raises `InputError` without place."""
        try:
            self._expat.Parse(chunk, not chunk)
        except (ValueError, LookupError) as error:  # of the encoding that the XML declares
            raise InputError(f"unsupported encoding ({error})", "Convert the file to UTF-8.") from None
        except expat.ExpatError as error:
            where = f"line {error.lineno:,}, column {error.offset:,}"
            broken = f"broken XML ({expat.ErrorString(error.code)}, {where})"
            raise InputError(broken if chunk else f"the XML is cut off ({where})", AGAIN) from None
        self._fed += len(chunk)
        if self._fed - self._expat.CurrentByteIndex > _LONGEST_TAG:  # expat begins it anew each time
            hint = "Check --format, or use --on-error skip to keep the intact part."
            raise InputError(f"a tag or comment of more than {_LONGEST_TAG:,} bytes", hint)

    def take(self) -> list[Page]:
        """The pages that were finished since the last call."""
        pages, self._pages = self._pages, []
        return pages

    def _refuse_doctype(self, *_: object) -> None:
        hint = "Remove the <!DOCTYPE ...>, or check where the file comes from."
        raise InputError("a document type is declared, which no MediaWiki export has", hint)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        if len(self._open) > _DEEPEST:
            raise InputError(f"elements are nested more than {_DEEPEST} deep", "Check --format.")
        if (parent, name) in _WANTED:
            self._pieces = []
            self._room = MAX_PAGE_CHARACTERS + 1
            self._expat.CharacterDataHandler = self._collect
            if name == "namespace":
                number = attributes.get("key", "")
                sensitive = attributes.get("case") == "case-sensitive"
                self._namespace = (_number(number) or 0, sensitive)
        elif name == "page":
            self._page, self._latest = {}, {}
        elif name == "revision":
            self._revision = {}
        elif name == "redirect" and parent == "page":
            self._page["redirect"] = attributes.get("title", "")
        elif not parent:
            if name != "mediawiki":
                raise InputError(f"the root element is <{name}>, expected <mediawiki>", "Check --format.")
            self._language = attributes.get("xml:lang", "")

    def _collect(self, piece: str) -> None:
        self._pieces.append(piece)
        self._room -= len(piece)
        if self._room <= 0:
            self._expat.CharacterDataHandler = None

    def _end(self, name: str) -> None:
        self._open.pop()
        parent = self._open[-1] if self._open else ""
        if (parent, name) in _WANTED:
            self._expat.CharacterDataHandler = None
            value = "".join(self._pieces)
            fields = {"page": self._page, "revision": self._revision, "siteinfo": self._site}
            if parent in fields:
                fields[parent][name] = value
            else:
                number, sensitive = self._namespace
                self._namespaces.append((number, value, sensitive))
        elif name == "revision" and parent == "page":
            if self._revision.get("timestamp", "") >= self._latest.get("timestamp", ""):
                self._latest = self._revision
        elif name == "page":
            self._finish_page()

    def _finish_page(self) -> None:
        if self._built is None:
            self._built = Site(
                self._site.get("sitename", ""),
                self._site.get("base", ""),
                self._language,
                self._site.get("case") == "case-sensitive",
                tuple(self._namespaces),
            )
        page, revision = self._page, self._latest
        number = page.get("ns", "0")
        redirect = page.get("redirect", "")
        self._pages.append(
            Page(
                self._built,
                page.get("title", ""),
                number,
                page.get("id", "without id"),
                redirect,
                revision.get("model", ""),
                "" if redirect or number != "0" else revision.get("text", ""),
            )
        )
