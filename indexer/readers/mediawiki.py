"""MediaWiki's XML export (versions 0.10 and 0.11), as in Wikipedia's dumps.

Pages of the main namespace become documents whose id is the title as a database key
(`Mercury_(planet)`), so that links and redirects share one id space. Of several revisions the
latest counts. Left out on purpose: other namespaces, logs, the history, uploads, and entities that
a document type declares (no export has one, and they let a small file grow without end).

The XML is read by expat itself. The mwxml library keeps an element of every page that it has read,
and takes ten times as long for a dump's many short pages (3 MB/s, expat 33).

Source: https://www.mediawiki.org/xml/export-0.11.xsd, and MediaWiki's Manual:Title.php and
Manual:$wgCapitalLinks.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote
from xml.parsers import expat

from mwparserfromhell.parser import ParserError

from indexer.base.errors import InputError
from indexer.documents import Document, Redirect
from indexer.readers import Ignored, Outcome, Reader, Record
from indexer.wikitext.read import read_wikitext
from indexer.wikitext.targets import Target

MAX_PAGE_CHARACTERS = 10_000_000
"""Five times what MediaWiki allows by default. So much markup without text takes a minute and 2 GB."""

_SKIP = "use --on-error skip to keep what is whole."


@dataclass(frozen=True, slots=True)
class Site:
    """What an export says about its wiki. Namespaces: (number, name, whether case-sensitive)."""

    name: str = ""
    base: str = ""
    language: str = ""
    case_sensitive: bool = False
    namespaces: tuple[tuple[int, str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """What `parse` needs of a page. `redirect` is the title it leads to, or empty."""

    site: Site
    title: str
    namespace: int
    page_id: str
    redirect: str
    model: str
    text: str


# Every step is atomic: else the time would double with each comment before another root.
_ROOT = re.compile(
    rb"(?>\xef\xbb\xbf|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>\[]*+(?:\[.*?\]\s*+)?>|\s++)*+<mediawiki[\s>]", re.S
)


class MediawikiReader(Reader):
    """Articles of a wiki with their links and redirects."""

    name = "mediawiki"
    summary = "MediaWiki XML export (.xml, .bz2, .gz, .zst), such as Wikipedia's pages-articles"
    costly = True

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """The root element is <mediawiki>."""
        return _ROOT.match(head) is not None

    def read_records(self, stream: BinaryIO) -> Iterator[Record]:
        """One record a page. Raises `InputError` where the XML is cut off or broken."""
        pages = _PageParser()
        read = getattr(stream, "read1", stream.read)  # gives what there is before it raises
        last = "before the first page"
        while True:
            problem = None
            chunk = read(1 << 18)
            try:
                pages.feed(chunk)
            except InputError as error:
                problem = error
            for page in pages.take():
                place = f"page {page.page_id} ({page.title})"
                yield Record(place, page)
                last = f"after {place}"
            if problem:
                raise InputError(f"{self.path}, {last}: {problem.message}", problem.hint)
            if not chunk:
                return

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, one redirect, or the reason for neither."""
        page: Page = record.payload
        titles = _titles(page.site)
        if page.namespace != 0:
            return [Ignored("other namespace")]
        id_ = titles.key(page.title)
        if not id_:
            raise InputError("the page has no title", f"Mend the page, or {_SKIP}")
        redirect = page.redirect or _redirect_in(page.text)
        if redirect:
            target = titles.resolve(redirect).id
            return [Redirect(id_, target) if target else Ignored("redirect to another namespace")]
        if page.model not in ("", "wikitext"):
            return [Ignored("not wikitext")]
        if not page.text.strip():
            return [Ignored("empty page")]
        if len(page.text) > MAX_PAGE_CHARACTERS:
            raise InputError(
                f"the page has more than {MAX_PAGE_CHARACTERS:,} characters, which no wiki allows",
                "Split it, or use --on-error skip to leave it out.",
            )
        try:
            text, links, sections = read_wikitext(page.text, titles.resolve)
        except RecursionError:
            raise InputError("the page is too deeply nested", f"Mend it, or {_SKIP}") from None
        except ParserError as error:
            raise InputError(f"not parsable ({error})", f"Mend the page, or {_SKIP}") from None
        title = page.title.replace("_", " ").strip()
        metadata = {"page_id": page.page_id}
        return [Document(id_, title, text, links, sections, titles.url(id_), metadata)]


_REDIRECT = re.compile(
    r"\s*#\s*(?:redirect|weiterleitung|redirecci[oó]n|redirection|rinvia|doorverwijzing|patrz|tam|"
    r"przekieruj|redirecionamento|omdirigering|перенаправление|перенапр|"
    r"تحويل|转址|重定向|転送|リダイレクト)"
    r"\s*:?\s*\[\[([^\[\]|\n]+)",
    re.IGNORECASE,
)


def _redirect_in(text: str) -> str:
    """The target of a page that begins with `#REDIRECT [[...]]` (older exports have no element)."""
    match = _REDIRECT.match(text)
    return match[1] if match else ""


# --- titles ---

# MediaWiki knows these in every language; the site's own names come from its export.
_NAMESPACES = {
    "media": -2, "special": -1, "talk": 1, "user": 2, "user talk": 3, "project": 4,
    "project talk": 5, "file": 6, "file talk": 7, "image": 6, "image talk": 7, "mediawiki": 8,
    "mediawiki talk": 9, "template": 10, "template talk": 11, "help": 12, "help talk": 13,
    "category": 14, "category talk": 15,
}  # fmt: skip
_WIKIPEDIA = {"wp": 4, "wt": 5, "portal": 100, "portal talk": 101, "module": 828, "draft": 118}
_FORMER_NAMES = {
    "de": {"bild": 6}, "es": {"imagen": 6}, "it": {"immagine": 6}, "nl": {"afbeelding": 6},
    "pl": {"grafika": 6}, "pt": {"imagem": 6, "ficheiro": 6}, "ru": {"изображение": 6},
    "sv": {"bild": 6},
}  # fmt: skip
"""Old names of the file namespace, which pages still use and exports do not list."""


def _split(words: str) -> list[str]:
    return words.split()


_LANGUAGES = frozenset(
    _split("""
    aa ab ace ady af als am an ang ar arc ary arz as ast atj av avk awa ay az azb ba ban bar
    bat-smg bcl be be-tarask be-x-old bg bh bi bjn bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce
    ceb ch cho chr chy ckb co cr crh cs csb cu cv cy da de din diq dsb dty dv dz ee el eml en eo
    es et eu ext fa ff fi fiu-vro fj fo fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got
    gu gv ha hak haw he hi hif ho hr hsb ht hu hy hyw hz ia id ie ig ii ik ilo inh io is it iu ja
    jam jbo jv ka kaa kab kbd kbp kg ki kj kk kl km kn ko koi kr krc ks ksh ku kv kw ky la lad lb
    lbe lez lfn lg li lij lmo ln lo lrc lt ltg lv mai map-bms mdf mg mh mhr mi min mk ml mn mnw mr
    mrj ms mt mus mwl my myv mzn na nah nap nds nds-nl ne new ng nl nn no nov nrm nso nv ny oc olo
    om or os pa pag pam pap pcd pdc pfl pi pih pl pms pnb pnt ps pt qu rm rmy rn ro roa-rup
    roa-tara ru rue rw sa sah sat sc scn sco sd se sg sh shn si simple sk sl sm smn sn so sq sr
    srn ss st stq su sv sw szl ta tcy te tet tg th ti tk tl tn to tpi tr ts tt tum tw ty tyv udm
    ug uk ur uz ve vec vep vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh-classical
    zh-min-nan zh-yue zu
""")
)
_OTHER_SITES = frozenset(
    _split("""
    w wikipedia wikt wiktionary s wikisource q wikiquote n wikinews b wikibooks v wikiversity voy
    wikivoyage species wikispecies c commons d wikidata m meta metawikipedia mw mediawikiwiki
    incubator foundation wmf phab phabricator bugzilla doi imdbname imdbtitle google gutenberg hdl
    pmid rfc toollabs toolforge translatewiki wikia wikitech meatball c2 arxiv
""")
)

_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_DIRECTIONS = re.compile(r"[\u200e\u200f\u202a-\u202e]")
_ILLEGAL = re.compile(r"[\x00-\x1f\x7f<>\[\]{}|\ufffd]")
_LONGEST = 255  # bytes of a title


@dataclass(slots=True)
class _Titles:
    """The rules of a site for what is between two brackets."""

    site: Site
    namespaces: dict[str, int] = field(default_factory=dict)
    case_sensitive: bool = False
    url_start: str = ""

    def __post_init__(self) -> None:
        site = self.site
        aliases = _WIKIPEDIA if "wikipedia" in f"{site.name} {site.base}".lower() else {}
        self.namespaces = {**_NAMESPACES, **aliases, **_FORMER_NAMES.get(site.language, {})}
        self.namespaces |= {_fold(name): number for number, name, _ in site.namespaces if name}
        self.case_sensitive = next(
            (sensitive for number, _, sensitive in site.namespaces if number == 0),
            site.case_sensitive,
        )
        start, equals, _ = site.base.rpartition("?title=")
        self.url_start = start + equals if equals else site.base[: site.base.rfind("/") + 1]

    def key(self, title: str) -> str:
        """A title of the main namespace as an id."""
        if not title.isascii() and len(title) <= _LONGEST * 4:  # it takes the square of a run of accents
            title = unicodedata.normalize("NFC", _DIRECTIONS.sub("", title))
        title = _spaced(title)
        if not self.case_sensitive and title:
            first = title[0].upper()
            title = (first if len(first) == 1 else title[0]) + title[1:]
        return title.replace(" ", "_")

    def url(self, key: str) -> str:
        """The address of a page, escaped as MediaWiki does it."""
        return self.url_start + quote(key, safe=";@$!*(),/:") if self.url_start else ""

    def resolve(self, written: str) -> Target:
        """The target of a link; its label is the title as it is written."""
        if len(written) > _LONGEST * 10:
            return Target(None, written)
        title = html.unescape(written) if "&" in written else written
        if _PERCENT.search(title):
            title = unquote(title, errors="replace")
        title = _spaced(title)
        colon = title.startswith(":")
        title = title.lstrip(": ") if colon else title
        label = title if title[:1] != "#" else title[1:]
        prefix, found, rest = title.partition(":")
        if found:
            prefix = _fold(prefix)
            if prefix in self.namespaces:
                number = self.namespaces[prefix]
                if number:
                    return Target(None, label, not colon and number in (-2, 6, 14))
                title = rest
            elif prefix in _LANGUAGES:
                return Target(None, label, not colon)
            elif prefix in _OTHER_SITES:
                return Target(None, label)
        key = self.key(title.partition("#")[0])
        if not key or _ILLEGAL.search(key) or len(key.encode(errors="replace")) > _LONGEST:
            return Target(None, label)
        return Target(key, label)


def _spaced(title: str) -> str:
    """Runs of spaces and underscores as one space, none at the ends."""
    return " ".join(title.replace("_", " ").split())


def _fold(name: str) -> str:
    return _spaced(name).casefold()


@lru_cache(maxsize=8)
def _titles(site: Site) -> _Titles:
    return _Titles(site)


# --- XML ---

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
        except expat.ExpatError as error:
            where = f"line {error.lineno:,}, column {error.offset:,}"
            if not chunk:
                raise InputError(
                    f"the XML is cut off ({where})", f"Download or copy it again, or {_SKIP}"
                ) from None
            raise InputError(
                f"broken XML ({expat.ErrorString(error.code)}, {where})",
                f"Download or copy it again, or {_SKIP}",
            ) from None
        self._fed += len(chunk)
        if self._fed - self._expat.CurrentByteIndex > _LONGEST_TAG:  # expat begins it anew each time
            raise InputError(
                f"a tag or comment of more than {_LONGEST_TAG:,} bytes", f"Check --format, or {_SKIP}"
            )

    def take(self) -> list[Page]:
        """The pages that were finished since the last call."""
        pages, self._pages = self._pages, []
        return pages

    def _refuse_doctype(self, *_: object) -> None:
        raise InputError(
            "a document type is declared, which no MediaWiki export has",
            "Remove the <!DOCTYPE ...>, or check where the file comes from.",
        )

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
                self._namespace = (int(number) if number.lstrip("-").isdecimal() else 0, sensitive)
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
            if parent == "page":
                self._page[name] = value
            elif parent == "revision":
                self._revision[name] = value
            elif parent == "siteinfo":
                self._site[name] = value
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
                int(number) if number.lstrip("-").isdecimal() else 0,
                page.get("id", "without id"),
                redirect,
                revision.get("model", ""),
                "" if redirect or number != "0" else revision.get("text", ""),
            )
        )
