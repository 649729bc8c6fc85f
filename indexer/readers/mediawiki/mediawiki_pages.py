"""MediaWiki's XML export (versions 0.3 to 0.11), as in Wikipedia's dumps; also a folder of a dump's parts.

Pages of the main namespace, or of those that `--namespace` names, become documents whose id is the title as a
database key (`Mercury_(planet)`), so that links and redirects share one id space. Of several revisions the
latest counts. Not read, on purpose: logs, the history, uploads, and entities that a document type declares
(no export has one, and they let a small file expand without limit).

In wikis outside Wikimedia a title may begin with what is elsewhere a language ("HR:Leave policy"), so the
titles are looked through before the first page is parsed.

The mwxml library keeps an element of every page that it has read, and takes ten times as long for a dump's
many short pages.

Source: https://www.mediawiki.org/xml/export-0.11.xsd.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from html import unescape
from typing import Any, BinaryIO, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser
from xml.parsers import expat

from linkseek.indexer.documents import Document, Redirect
from linkseek.indexer.files.encodings import as_utf8, utf8_head
from linkseek.indexer.files.sources import AGAIN, open_source, read_head
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.folder.folders import FolderReader
from linkseek.indexer.readers.mediawiki.mediawiki_titles import (
    Site,
    is_disambiguation,
    may_be_prefix,
    titles_of,
)
from linkseek.indexer.readers.reader import Ignored, Outcome, Record, damaged, dropped
from linkseek.indexer.wikitext import read_wikitext
from linkseek.indexer.wikitext.link_targets import LinkingPage as Markup
from linkseek.indexer.wikitext.names import fold, redirect_target

MAX_PAGE_CHARACTERS = 10_000_000
"""Five times MediaWiki's default limit. A page of this size that is all markup takes a minute and 2 GB."""


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
_PART = re.compile(r"\.xml(?:-p\d+-?p\d+)?(?:\.(?:gz|bz2|zst|xz|lzma|zip))?$", re.IGNORECASE)


class MediawikiReader(FolderReader):
    """Articles of a wiki with their links and redirects."""

    name = "mediawiki"
    description = (
        "a MediaWiki XML export, such as `enwiki-latest-pages-articles.xml.bz2`, or a folder of its parts"
    )
    costly = True
    headings = True
    decodes = True
    suffixes = (".xml",)

    @classmethod
    def reads(cls, name: str) -> bool:
        """Files named as exports are: .xml, .xml-p1p100, compressed or not."""
        return _PART.search(name) is not None

    @classmethod
    def recognises_file(cls, head: bytes) -> bool:
        """The root element is <mediawiki>."""
        return _ROOT.match(head) is not None

    def language(self) -> str:
        """`xml:lang` of the root element."""
        first = next(iter(self.paths()), self.path)
        match = _LANGUAGE.search(utf8_head(read_head(first)))
        return match[1].decode() if match else ""

    def read_file(self, name: str, stream: BinaryIO) -> Iterator[Record]:
        """One record a page. Raises `InputError` where the XML is cut off or broken."""
        pages = _PageParser(lambda: _prefixes(self), self.choices.namespaces)
        read = getattr(stream, "read1", stream.read)  # returns available bytes before it raises
        last = "before the first page"
        while True:
            chunk = read(1 << 16)  # whose elements are in memory
            try:
                for page in pages.feed(chunk):
                    place = f"page {page.page_id:.20} ({page.title:.255})"
                    yield Record(place, page, len(page.text))
                    last = f"after {place}"
            except InputError as error:
                raise InputError(f"{self.path_of(name)}, {last}: {error.message}", error.hint) from None
            if not chunk:
                return

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, one redirect, or the reason for neither."""
        page: Page = record.payload
        titles = titles_of(page.site, self.choices.namespaces)
        number = _number(page.namespace)
        if number is None:
            raise damaged(f"its namespace {page.namespace[:60]!r} is not a number", "page")
        if number not in self.choices.namespaces:
            return [Ignored("other namespace")]
        id_ = titles.key_in(page.title, number)
        if not id_:
            raise damaged("the page has no title", "page")
        resolve = titles.resolver(page.title)
        if redirect := page.redirect or redirect_target(page.text):  # older exports have no <redirect>
            target = (titles.resolve if page.redirect else resolve)(redirect).id
            return [Redirect(id_, target) if target else Ignored("redirect to another namespace")]
        if page.model not in ("", "wikitext"):
            return [Ignored("not wikitext")]
        if not page.text.strip():
            return [Ignored("empty page")]
        if len(page.text) > MAX_PAGE_CHARACTERS:
            problem = f"more than {MAX_PAGE_CHARACTERS:,} characters, which no wiki allows"
            raise InputError(f"the page has {problem}", "Split it, or use --on-error skip to skip it.")
        if self.choices.skip_disambiguation and is_disambiguation(page.text):
            return [Ignored("disambiguation page")]
        title = page.title.replace("_", " ").strip()
        markup = Markup(title, page.site.name, dict(self.choices.templates))
        shown, metadata = read_wikitext(page.text, resolve, markup), {"page_id": page.page_id}
        return [Document(id_, title, *shown, titles.url(id_), metadata), *dropped(markup.dropped)]


_TITLE = re.compile(rb"<title>\s*([^<:]{1,60}):")
_OVERLAP = 200


@lru_cache(maxsize=4)
def _prefixes(reader: MediawikiReader) -> frozenset[str]:
    """Words before a colon in titles that could mean something else; see `Site.prefixes`."""
    prefixes: set[str] = set()
    for path in reader.paths():
        with suppress(InputError, OSError):  # which reading the file will report
            source, stream = open_source(path)
            with source, as_utf8(stream) as text:
                rest = b""
                while chunk := text.read(1 << 18):
                    for match in _TITLE.finditer(rest + chunk):
                        prefixes.add(fold(unescape(match[1].decode("utf-8", "replace"))))
                    rest = chunk[-_OVERLAP:]
    return frozenset(filter(may_be_prefix, prefixes))


def _number(written: str) -> int | None:
    """The number of a namespace."""
    return int(written) if re.fullmatch("-?[0-9]{1,9}", written) else None


_LONGEST = 4 * MAX_PAGE_CHARACTERS
"""Bytes in which an element begins or ends: expat begins a tag anew with each piece of the file."""
_DEEPEST = 100  # an export has six levels
_EXPORT = re.compile(rb"(?=<(?:\?xml|mediawiki)[\s>])")
_START_OF_TAG = re.compile(rb"<[?a-z]{0,10}\Z")
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


class _PageParser:
    """Bytes of one or several exports in, pages out; holds one page, with one revision."""

    def __init__(self, prefixes: Callable[[], frozenset[str]], namespaces: tuple[int, ...]) -> None:
        """prefixes: of the titles of the export. namespaces: those whose texts are kept."""
        self._prefixes = prefixes
        self._namespaces = namespaces
        self._latest: Element | None = None
        self._fed = 0
        self._rest = b""  # of a chunk
        self._begin_export()

    def _begin_export(self) -> None:
        self._parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
        self._open: list[Element] = []
        self._site: Site | None = None
        self._ended = False

    def feed(self, chunk: bytes) -> Iterator[Page]:
        """The pages that end in a piece of the file; an empty one ends it. Raises `InputError`, no place."""
        content = self._rest + chunk
        rest = _START_OF_TAG.search(content) if chunk else None
        self._rest = rest[0] if rest else b""
        for piece in filter(None, _EXPORT.split(content[: rest.start() if rest else None])):
            if self._ended and piece.startswith(b"<"):  # dumps are joined by `cat`
                self._begin_export()
            yield from self._pages(piece)
        if not chunk:
            yield from self._pages(b"")

    def _pages(self, chunk: bytes) -> Iterator[Page]:
        if not self._open and b"<!DOCTYPE" in chunk:
            hint = "Remove the <!DOCTYPE ...>, or check where the file comes from."
            raise InputError("a document type is declared, which no MediaWiki export has", hint)
        self._fed += len(chunk)
        try:
            self._parser.feed(chunk) if chunk else self._parser.close()
            for event, element in cast("Iterator[tuple[str, Element]]", self._parser.read_events()):
                self._fed = 0
                name = element.tag.rpartition("}")[2]
                if event == "start":
                    self._begin(name, element)
                elif page := self._end(name, element):
                    yield page
        except (ValueError, LookupError) as error:  # of the encoding that the XML declares
            raise InputError(f"unsupported encoding ({error})", "Convert the file to UTF-8.") from None
        except ParseError as error:
            where = "line {:,}, column {:,}".format(*error.position)
            broken = f"broken XML ({expat.ErrorString(error.code)}, {where})"
            raise InputError(broken if chunk else f"the XML is cut off ({where})", AGAIN) from None
        if self._fed > _LONGEST:
            hint = "Check --format, or use --on-error skip to keep the intact part."
            raise InputError(f"a text, tag or comment of more than {_LONGEST:,} bytes", hint)

    def _begin(self, name: str, element: Element) -> None:
        if not self._open and name != "mediawiki":
            raise InputError(f"the root element is <{name}>, expected <mediawiki>", "Check --format.")
        self._open.append(element)
        if len(self._open) > _DEEPEST:
            raise InputError(f"elements are nested more than {_DEEPEST} deep", "Check --format.")

    def _end(self, name: str, element: Element) -> Page | None:
        self._open.pop()
        self._ended = not self._open
        if name == "siteinfo":
            self._site = self._site_of(element)
        elif name == "revision":
            self._open[-1].remove(element)
            if self._latest is None or _text(element, "timestamp") >= _text(self._latest, "timestamp"):
                self._latest = element
        if len(self._open) != 1:
            return None
        del self._open[0][:]
        revision, self._latest = self._latest, None
        return self._page(element, revision) if name == "page" else None

    def _page(self, page: Element, revision: Element | None) -> Page:
        self._site = self._site or self._site_of(page)  # which has none of its fields
        redirect = page.find("{*}redirect")
        target = "" if redirect is None else redirect.get("title", "")
        title, number = _text(page, "title"), _text(page, "ns")
        if not number:  # exports before 0.6
            number = str(titles_of(self._site, self._namespaces).namespace_of(title))
        text, model = ("", "") if revision is None else (_text(revision, "text"), _text(revision, "model"))
        read = _number(number) in self._namespaces and not target
        id_ = _text(page, "id") or "without id"
        return Page(self._site, title, number, id_, target, model, text if read else "")

    def _site_of(self, element: Element) -> Site:
        namespaces = tuple(
            (_number(one.get("key", "")) or 0, one.text or "", one.get("case") == "case-sensitive")
            for one in element.iterfind("{*}namespaces/{*}namespace")
        )
        name, base, case = (_text(element, field) for field in ("sitename", "base", "case"))
        site = Site(name, base, self._open[0].get(_LANG, ""), case == "case-sensitive", namespaces)
        own = {fold(name) for _, name, _ in namespaces}
        return site if site.is_wikimedia else replace(site, prefixes=self._prefixes() - own)


def _text(element: Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""
