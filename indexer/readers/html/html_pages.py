"""A folder of HTML pages: a documentation site, a static site, the copy of a wiki.

A page is a document, and its id is its path in the folder ("library/json.html"). Its text is the main part of
the page (see `parts.toml`); its title is the first <h1> or <h2> with which <title> begins (the
site's name follows there), else the only <h1> of the main part, else, or where most pages share that heading,
<title>.

Redirects are pages with <meta http-equiv="refresh"> and those whose <link rel="canonical"> is another
page of the folder. Addresses with a host lead to a page if the page's own canonical link shows the address
of the folder, or if the other page names that address as its own (saved pages). Ignored: frames, and
content that scripts would load. Templates, from which a generator makes pages, are no pages (`is_template`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from html import unescape
from pathlib import Path, PurePosixPath
from urllib.parse import quote, urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from linkseek.indexer.documents import Document, Link, Redirect
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.folder.folders import PageReader
from linkseek.indexer.readers.folder.page_layout import Layout
from linkseek.indexer.readers.folder.page_targets import (
    Led,
    PageLinks,
    SiteFacts,
    Targets,
    comparable,
    path_in,
    unique,
)
from linkseek.indexer.readers.folder.sites import read_start, sample
from linkseek.indexer.readers.html.html_text import (
    MAIN,
    count_links,
    heading_text,
    is_named_by_heading,
    is_template,
    parse_html,
    render,
    source_of,
    without,
)
from linkseek.indexer.readers.html.page_lines import HIDDEN, SAMPLE, Shared, ends_of, own_text, shared_by
from linkseek.indexer.readers.reader import Ignored, Outcome, Record, dropped
from linkseek.indexer.wikitext.edits import PageText
from linkseek.indexer.wikitext.link_targets import SAME_PAGE, WITHOUT_TEXT


class HtmlReader(PageReader):
    """Web pages and the links between them."""

    name = "html"
    description = "a folder of web pages (.html, .htm, .xhtml): a documentation site, a static site"
    suffixes = (".html", ".htm", ".xhtml")
    indexes = ("index.html", "index.htm", "index.xhtml")

    @classmethod
    def facts(cls, path: Path, names: Sequence[str], dialect: str) -> SiteFacts:
        """Titles, and the addresses that one page alone names as its own, by which saved pages are linked."""
        pages = [name for name in names if cls.reads(name) or "." not in name]
        named: list[tuple[str, str]] = []
        titles: dict[str, str] = {}
        for name, content in read_start(path, pages, _HEAD):
            if match := _NAMED_ADDRESS.search(content):
                named.append((comparable((match[1] or match[2]).decode("utf-8", "replace")), name))
            if match := _WRITTEN_TITLE.search(content):
                titles[name] = " ".join(unescape(match[1].decode("utf-8", "replace")).split())
        start = shared_by([((), [title]) for title in titles.values()]).start
        titles = {name: title.removeprefix(start) for name, title in titles.items()}
        return SiteFacts(unique(named), titles)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document or one redirect, or the reason for neither."""
        name = record.place
        if self.path.is_dir() and is_template(record.payload):
            return [Ignored("template of web pages")]
        source, tree, address = self._opened(name, record.payload)
        if other := address.refresh or address.elsewhere:
            return [Redirect(name, other)]
        if address.leaves:
            return [Ignored("page that leads out of the folder at once")]
        title, layout = _read(tree, address)
        text = layout.text()
        lost = address.dropped + Counter({(WITHOUT_TEXT, ""): layout.without_text})
        if not text:
            return [Ignored("empty page"), *dropped(lost)]
        linked = sum(link.end - link.start for link in layout.links)
        if _COPY.search(name) and (2 * linked > len(text) or _NO_INDEX.search(source)):
            return [Ignored("list or copy of other pages")]
        shared = _shared(self) if self.path.is_dir() else Shared()
        stem, written = PurePosixPath(name).stem, _written_title(tree)
        headings = (section.heading for section in layout.sections if title or written)  # of most pages
        named = (one for one in (title, written, *headings) if one and one not in shared.titles)
        own = next(named, stem)
        sections = layout.sections_below(title, own)
        title = own.removeprefix(shared.start) or stem
        lost[UNREADABLE, ""] = source.count("\ufffd") - record.payload.count("\ufffd".encode())
        page = PageText(text, tuple(layout.links), sections)
        page, cut = own_text(page, shared.lines, self._is_near(name))
        lost.update({(reason, ""): count for reason, count in cut.items()})
        language = _attribute(tree, "html[lang], body[lang]", "lang") or _attribute(tree, "html", "xml:lang")
        metadata = {"language": language} if language else {}
        return [Document(name, title, *page, address.url or name, metadata), *dropped(lost)]

    def _opened(self, name: str, content: bytes) -> tuple[str, LexborHTMLParser, "_Address"]:
        source = source_of(name, content)
        tree = parse_html(source)
        return source, tree, _Address(name, self.targets(), tree)

    def lines(self, name: str, content: bytes) -> tuple[list[str], list[str]]:
        """The lines at both ends of a page, and its titles; none of one that cannot be read."""
        try:
            _, tree, address = self._opened(name, content)
            title, layout = _read(tree, address)
        except InputError:
            return [], []
        page = PageText(layout.text(), tuple(layout.links))
        return ends_of(page, self._is_near(name)), [title, _written_title(tree)]

    def _is_near(self, page: str) -> Callable[[Link], bool]:
        """Whether a link leads to the page before or after, by their names."""
        order = _order(self) if self.path.is_dir() else {}
        at = order.get(page, -2)
        return lambda link: abs(order.get(link.target, at) - at) == 1


@lru_cache(maxsize=4)
def _shared(reader: HtmlReader) -> Shared:
    names = [entry.name for entry in reader.entries() if reader.reads(entry.typed) and not entry.ignored]
    pages = read_start(reader.path, sample(names, SAMPLE), reader.max_bytes)
    return shared_by([reader.lines(name, content) for name, content in pages])


@lru_cache(maxsize=4)
def _order(reader: HtmlReader) -> dict[str, int]:
    """The place of each page among all, with the numbers in their names by value."""
    names = sorted(reader.targets().pages, key=lambda name: re.sub(r"\d+", lambda n: f"{n[0]:0>9}", name))
    return {name: place for place, name in enumerate(names)}


OUTSIDE = "links outside the main part of a page"
UNREADABLE = "characters that the encoding of a page does not have"
_COPY = re.compile(
    r"(?:^|/)(?:genindex(?:-[^/]*)?|py-modindex|print|toc|404|search|navigation|sitemap|maillist|threads?|subject|author|date)\.x?html?$",
    re.I,
)
_NO_INDEX = re.compile(r"""<meta\s[^<>]*\brobots\b[^<>]*\bnoindex\b|<title>[^<>]*\bnot found\b""", re.I)


def _read(tree: LexborHTMLParser, address: "_Address") -> tuple[str, Layout]:
    """Title and text of a page. A page of navigation alone has that as its text."""
    layout = Layout()
    for selector, everything in [*((selector, False) for selector in MAIN), ("body", True)]:
        if (main := _only(tree, selector)) is None or (selector == "#content" and is_named_by_heading(main)):
            continue
        dropped = without(main, everything=everything)
        title = _title(tree, main, dropped)
        layout = Layout()
        address.resolved = 0
        address.dropped.clear()
        render(main, layout, dropped, address.address)
        inside = count_links(main)
        address.dropped[HIDDEN, ""] = inside - address.resolved
        address.dropped[OUTSIDE, ""] = count_links(tree.root) - inside
        if layout.text() or (selector != "body" and main.css_first("h1, h2")):
            return title, layout
    return "", layout


def _only(tree: LexborHTMLParser, selector: str) -> LexborNode | None:
    """The element that contains all matches; None if there are several separate ones."""
    matches = tree.css(selector)
    inside = {node.mem_id for match in matches[:1] for node in match.css(selector)}
    return matches[0] if matches and all(node.mem_id in inside for node in matches[1:]) else None


_MAX_HEADINGS = 20
_SITE = re.compile(r"\s+[-–—|:·•»›/]+\s|\s*[|»›]|$")
"""How the site's name is appended to a title: "Title - Site", "Title | Site"."""


def _title(tree: LexborHTMLParser, main: LexborNode, dropped: frozenset[int]) -> str:
    """The title by the rule above."""
    written = _written_title(tree)
    for heading in tree.css("h1, h2")[:_MAX_HEADINGS]:
        shown = heading_text(heading, dropped)
        begins = written[: len(shown)].casefold() == shown.casefold()
        if shown and begins and _SITE.match(written, len(shown)):
            return shown
    headings = [*filter(None, (heading_text(node, dropped) for node in main.css("h1")[:_MAX_HEADINGS]))]
    return headings[0] if len(headings) == 1 or (headings and not written) else written


def _written_title(tree: LexborHTMLParser) -> str:
    node = tree.css_first("head > title")
    return " ".join(node.text().split()) if node else ""


_REFRESH = re.compile(r"\s*(\d{0,9})[\d.]*\s*[;,]?\s*(?:url\s*=\s*)?['\"]?([^'\"]*)", re.I)
_SOON = 10  # seconds; a page that is to be read first, or reloads itself, waits longer


class _Address(PageLinks):
    """The address of a page, which its links are relative to.

    url: its canonical address, or empty. elsewhere, refresh: the page of the folder that replaces it by
    its canonical link, or to which it redirects at once; else None. leaves: it redirects anywhere else.
    """

    def __init__(self, name: str, targets: Targets, tree: LexborHTMLParser) -> None:
        super().__init__(name, targets)
        self.base = ""
        canonical = _attribute(tree, "link[rel~='canonical' i][href]", "href")
        self.url = canonical if canonical.lower().startswith(("http://", "https://")) else ""
        path = targets.below_site(self.url) if self.url else canonical
        other = self._page(targets.resolve(name, path_in(path))) if path else None
        self.elsewhere = other if other != targets.find("") else None
        if base := _attribute(tree, "base[href]", "href"):
            self.base = _joined(f"/{quote(name)}", base)
        waits = [
            _REFRESH.match(node.attrs.get("content") or "")
            for node in tree.css("meta[http-equiv='refresh' i][content]:not(noscript meta)")
        ]
        led_to = next((match[2].strip() for match in waits if match and int(match[1] or 0) <= _SOON), "")
        led = self.lead(led_to) if led_to else Led(None, SAME_PAGE)
        self.refresh = self._page(led)
        self.leaves = self.refresh is None and led.reason != SAME_PAGE

    def _page(self, led: Led) -> str | None:
        """The target, if it is a page."""
        return led.target if led.target in self.targets.pages else None

    def lead(self, href: str) -> Led:
        """Where the address of a link leads, without line breaks, as browsers read it."""
        href = _BREAKS.sub("", href.strip())
        base = self.base or (self.url if href.startswith("/") else "")
        return super().lead(_joined(base, href) if base and not href.startswith("#") else href)


def _joined(base: str, href: str) -> str:
    """An address as seen from a base."""
    try:
        return urljoin(base, href)
    except ValueError:  # no address
        return href


_HEAD = 1 << 14  # bytes of a page in which it names its address
_NAMED_ADDRESS = re.compile(
    rb"""<link\b(?=[^<>]*\brel\s*=\s*["']?canonical\b)[^<>]*?\bhref\s*=\s*["']?(https?://[^\s"'<>]+)"""
    rb"|<!--\s*(?:saved from url=\(\d+\)|Page saved with SingleFile\s+url:\s*)(https?://[^\s<>]+)",
    re.IGNORECASE,
)


_WRITTEN_TITLE = re.compile(rb"<title\b[^<>]*>([^<>]*)<", re.IGNORECASE)
_BREAKS = re.compile(r"[\t\r\n]")  # which browsers remove from addresses


def _attribute(tree: LexborHTMLParser, selector: str, name: str) -> str:
    node = tree.css_first(selector)
    return (node.attrs.get(name) or "").strip() if node else ""
