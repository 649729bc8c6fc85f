"""MediaWiki's XML export (versions 0.3 to 0.11), as in Wikipedia's dumps; also a folder of a dump's parts.

Pages of the main namespace, or of those that `--namespace` names, become documents whose id is the title as a
database key (`Mercury_(planet)`), so that links and redirects share one id space. Of several revisions the
latest counts. Not read, on purpose: logs, the history, uploads, and entities that a document type declares
(no export has one, and they let a small file expand without limit).

In wikis outside Wikimedia a title may begin with what is elsewhere a language ("HR:Leave policy"), so the
titles are looked through before the first page is parsed.

The XML is read by expat itself. The mwxml library keeps an element of every page that it has read,
and takes ten times as long for a dump's many short pages (3 MB/s, expat 33).

Source: https://www.mediawiki.org/xml/export-0.11.xsd.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from html import unescape
from typing import BinaryIO
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
                raise InputError(f"{self.path_of(name)}, {last}: {problem.message}", problem.hint)
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
        try:
            source, stream = open_source(path)
            with source, as_utf8(stream) as text:
                rest = b""
                while chunk := text.read(1 << 18):
                    for match in _TITLE.finditer(rest + chunk):
                        prefixes.add(fold(unescape(match[1].decode("utf-8", "replace"))))
                    rest = chunk[-_OVERLAP:]
        except (InputError, OSError):
            continue  # which reading the file will report
    return frozenset(filter(may_be_prefix, prefixes))


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
_AFTER_THE_END = (9, 17)  # of the root: another element, another declaration
_AN_EXPORT = re.compile(rb"\s*<(?:\?xml|mediawiki)\b")
_LONGEST_TAG = 1 << 23


class _PageParser:
    """Bytes of one or several exports in, pages out; holds one page, and of its text no more than is read."""

    def __init__(self, prefixes: Callable[[], frozenset[str]], namespaces: tuple[int, ...]) -> None:
        """prefixes: of the titles of the export. namespaces: those whose texts are kept."""
        self._prefixes = prefixes
        self._namespaces_read = namespaces
        self._begin()
        self._open: list[str] = []
        self._fields: dict[str, dict[str, str]] = {}  # of the site, page, its revision and the latest
        self._pieces: list[str] = []
        self._room = 0
        self._language = ""
        self._namespaces: list[tuple[int, str, bool]] = []
        self._attributes: dict[str, str] = {}  # of the element whose text is collected
        self._pages: list[Page] = []

    def _begin(self) -> None:
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.StartDoctypeDeclHandler = self._refuse_doctype
        self._fed = 0
        self._site: Site | None = None

    def feed(self, chunk: bytes) -> None:
        """Parse a piece of the file; an empty one ends it. Raises `InputError` without place."""
        while another := self._parsed_up_to(chunk):
            chunk = another
            self._begin()
        self._fed += len(chunk)
        if self._fed - self._expat.CurrentByteIndex > _LONGEST_TAG:  # expat begins it anew each time
            hint = "Check --format, or use --on-error skip to keep the intact part."
            raise InputError(f"a tag or comment of more than {_LONGEST_TAG:,} bytes", hint)

    def _parsed_up_to(self, chunk: bytes) -> bytes:
        """Parse a piece up to another export, and return the rest: dumps are joined by `cat`."""
        try:
            self._expat.Parse(chunk, not chunk)
        except (ValueError, LookupError) as error:  # of the encoding that the XML declares
            raise InputError(f"unsupported encoding ({error})", "Convert the file to UTF-8.") from None
        except expat.ExpatError as error:
            rest = chunk[max(self._expat.ErrorByteIndex - self._fed, 0) :]
            if error.code in _AFTER_THE_END and not self._open and _AN_EXPORT.match(rest):
                return rest
            where = f"line {error.lineno:,}, column {error.offset:,}"
            broken = f"broken XML ({expat.ErrorString(error.code)}, {where})"
            raise InputError(broken if chunk else f"the XML is cut off ({where})", AGAIN) from None
        return b""

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
            self._pieces, self._attributes = [], attributes
            self._room = MAX_PAGE_CHARACTERS + 1
            self._expat.CharacterDataHandler = self._collect
        elif name in ("page", "revision", "siteinfo"):
            self._fields[name] = {}
            self._fields |= {"latest": {}} if name == "page" else {}
        elif name == "redirect" and parent == "page":
            self._fields["page"]["redirect"] = attributes.get("title", "")
        elif not parent:
            if name != "mediawiki":
                raise InputError(f"the root element is <{name}>, expected <mediawiki>", "Check --format.")
            self._language, self._namespaces = attributes.get("xml:lang", ""), []

    def _collect(self, piece: str) -> None:
        self._pieces.append(piece)
        self._room -= len(piece)
        if self._room <= 0:
            self._expat.CharacterDataHandler = None

    def _end(self, name: str) -> None:
        self._open.pop()
        parent = self._open[-1] if self._open else ""
        if (parent, name) == ("namespaces", "namespace"):
            number = _number(self._attributes.get("key", "")) or 0
            sensitive = self._attributes.get("case") == "case-sensitive"
            self._namespaces.append((number, "".join(self._pieces), sensitive))
        elif (parent, name) in _WANTED:
            self._fields[parent][name] = "".join(self._pieces)
        elif name == "revision" and parent == "page":
            revision, latest = self._fields["revision"], self._fields["latest"]
            if revision.get("timestamp", "") >= latest.get("timestamp", ""):
                self._fields["latest"] = revision
        elif name == "page":
            self._finish_page()
        self._expat.CharacterDataHandler = None

    def _finish_page(self) -> None:
        self._site = self._site or self._site_of_export()
        page, revision = self._fields["page"], self._fields["latest"]
        title, redirect, id_ = page.get("title", ""), page.get("redirect", ""), page.get("id", "without id")
        number = page.get("ns", "")
        if not number:  # exports before 0.6
            number = str(titles_of(self._site, self._namespaces_read).namespace_of(title))
        text = revision.get("text", "") if _number(number) in self._namespaces_read and not redirect else ""
        model = revision.get("model", "")
        self._pages.append(Page(self._site, title, number, id_, redirect, model, text))

    def _site_of_export(self) -> Site:
        name, base, case = (self._fields.get("siteinfo", {}).get(x, "") for x in ("sitename", "base", "case"))
        site = Site(name, base, self._language, case == "case-sensitive", tuple(self._namespaces))
        own = {fold(name) for _, name, _ in site.namespaces}
        return site if site.is_wikimedia else replace(site, prefixes=self._prefixes() - own)
