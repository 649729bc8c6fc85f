"""Titles in MediaWiki: which page a link means, by the namespaces of its wiki.

Source: MediaWiki's Manual:Title.php and Manual:$wgCapitalLinks.
"""

import html
import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

from linkseek.indexer.readers.folder.page_targets import climb
from linkseek.indexer.wikitext.link_targets import (
    NO_TITLE,
    OTHER_NAMESPACES,
    OTHER_WIKIS,
    SAME_PAGE,
    Resolve,
    Target,
)
from linkseek.indexer.wikitext.names import fold, hidden_names, namespace_names


@dataclass(frozen=True, slots=True)
class Site:
    """The facts of a wiki in its export. Namespaces: (number, name, whether case-sensitive).

    prefixes: of a wiki outside Wikimedia, words before a colon in titles of the main namespace that
    would elsewhere be another language, another site or a namespace (`may_be_prefix`), folded.
    """

    name: str = ""
    base: str = ""
    language: str = ""
    case_sensitive: bool = False
    namespaces: tuple[tuple[int, str, bool], ...] = ()
    prefixes: frozenset[str] = frozenset()

    @property
    def is_wikimedia(self) -> bool:
        """Whether links to other languages and sites have the prefixes of Wikimedia's wikis."""
        return _WIKIMEDIA.search(self.base) is not None


_WIKIMEDIA = re.compile(
    r"//[^/]*\b(?:wiki(?:pedia|books|news|quote|source|versity|voyage|data|media|mediafoundation)|wiktionary|"
    r"mediawiki)\.org(?:[:/]|$)"
)
_WITHOUT_SUBPAGES = re.compile(r"//[^/]*\bwik(?:ipedia|tionary|inews|iquote)\.org")
"""Wikis that read `[[/Sub]]` as a title; of all others it is a page below this one."""


def may_be_prefix(folded: str) -> bool:
    """Whether the start of a title could be taken for another language, another site or a namespace."""
    return folded in _LANGUAGES or folded in _OTHER_SITES or folded in hidden_names()


_PROJECT = {"project": 4, "project talk": 5}
_WIKIPEDIA = {"wp": 4, "wt": 5, "portal": 100, "portal talk": 101, "module": 828, "draft": 118}

_WIKIS: dict[str, str] = tomllib.loads(Path(__file__).with_name("wikis.toml").read_text("utf-8"))
_LANGUAGES = frozenset(_WIKIS["languages"].split())
_OTHER_SITES = frozenset(_WIKIS["sites"].split())

_MEDIA = -2
_FILE = re.compile(
    r"\.(?:jpe?g|png|gif|svg|webp|tiff?|bmp|xcf|djvu|pdf|og[gva]|oga|opus|webm|mp[34]|wav|flac|midi?|stl)\Z",
    re.IGNORECASE,
)
_TWO_LETTERS_I = frozenset(["az", "kaa", "tr"])
_GEORGIAN = {letter: letter for letter in map(chr, range(0x10D0, 0x1100))}
"""Its letters have capitals for whole words only, which no title begins with."""
_PROPERTIES = 102
"""The namespace of properties; in Semantic MediaWiki, [[Has capital::Berlin]] is a link to Berlin."""
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_DIRECTIONS = re.compile(r"[\u200e\u200f\u202a-\u202e]")
_ILLEGAL = re.compile(r"[\x00-\x1f\x7f<>\[\]{}|\ufffd]")
_LONGEST = 255  # bytes of a title


class Titles:
    """The rules of a site for the text between `[[` and `]]`."""

    def __init__(self, site: Site, read: tuple[int, ...] = (0,)) -> None:
        """read: the namespaces whose pages are documents."""
        self._read = frozenset(read)
        self._wikimedia = site.is_wikimedia
        self._own = site.prefixes
        own = {fold(name): number for number, name, _ in site.namespaces if name}
        aliases = _WIKIPEDIA if "wikipedia" in f"{site.name} {site.base}".lower() else {}
        names = namespace_names(site.language) | _PROJECT | aliases
        self.namespaces = {name: names[name] for name in names.keys() - site.prefixes} | own
        self._names = {number: name for number, name, _ in site.namespaces}
        self.case_sensitive = next(
            (sensitive for number, _, sensitive in site.namespaces if number == 0), site.case_sensitive
        )
        self._capitals = _GEORGIAN | ({"i": "İ"} if site.language.lower() in _TWO_LETTERS_I else {})
        self._subpages = not _WITHOUT_SUBPAGES.search(site.base)
        self._semantic = any(
            number == _PROPERTIES or fold(name) == "property" for number, name, _ in site.namespaces
        )
        start, equals, _ = site.base.rpartition("?title=")
        self.url_start = start + equals if equals else site.base[: site.base.rfind("/") + 1]

    def namespace_of(self, title: str) -> int:
        """The namespace of a page's title, for exports that do not say it."""
        prefix, colon, rest = title.partition(":")
        return self.namespaces.get(fold(prefix), 0) if colon and rest.strip() else 0

    def key_in(self, title: str, number: int) -> str:
        """A title of any namespace as an id, with the namespace's current name."""
        prefix, colon, rest = title.partition(":")
        if not number or not colon:
            return self.key(title)
        name = self._names.get(number, _spaced(prefix))
        return f"{name.replace(' ', '_')}:{self.key(rest)}"

    def key(self, title: str) -> str:
        """A title of the main namespace as an id."""
        if not title.isascii() and len(title) <= _LONGEST * 4:  # it takes the square of a run of accents
            title = unicodedata.normalize("NFC", _DIRECTIONS.sub("", title))
        title = _spaced(title)
        if not self.case_sensitive and title:
            first = self._capitals.get(title[0]) or title[0].upper()
            title = (first if len(first) == 1 else title[0]) + title[1:]
        return title.replace(" ", "_")

    def url(self, key: str) -> str:
        """The address of a page, escaped as MediaWiki does it."""
        return self.url_start + quote(key, safe=";@$!*(),/:") if self.url_start else ""

    def resolve(self, written: str) -> Target:
        """The target of a link; its label is the title as it is written."""
        if len(written) > _LONGEST * 10:
            return Target(None, written, reason=NO_TITLE)
        title, has_colon = self._title_of(written)
        if title.startswith("#"):
            return Target(None, title[1:], reason=SAME_PAGE)
        first, colon, rest = title.partition(":")
        prefix = fold(first) if colon else ""
        if colon and (elsewhere := self._elsewhere(prefix, title, has_colon)):
            return elsewhere
        number = self.namespaces.get(prefix) if colon else None
        name = rest if number == 0 else title
        key = self.key_in(name.partition("#")[0], number or 0)
        if not key or _ILLEGAL.search(key) or len(key.encode(errors="replace")) > _LONGEST:
            return Target(None, title, reason=NO_TITLE)
        unknown = bool(colon) and not has_colon and number is None and prefix not in self._own
        foreign = hidden_names().get(prefix) if unknown else None
        if foreign in (_MEDIA, 6) and _FILE.search(title):
            return Target(None, title, hidden=True, reason=OTHER_NAMESPACES)
        return Target(key, title, aside=foreign == 14 and not self._wikimedia)

    def _title_of(self, written: str) -> tuple[str, bool]:
        """The title that is meant, and whether a colon before it makes any prefix a plain link."""
        title = html.unescape(written) if "&" in written else written
        if _PERCENT.search(title):
            title = unquote(title, errors="replace")
        title = _spaced(title)
        if self._semantic and not title.startswith(":"):
            title = title.rpartition("::")[2].strip() or title
        return (title.lstrip(": "), True) if title.startswith(":") else (title, False)

    def _elsewhere(self, prefix: str, title: str, has_colon: bool) -> Target | None:
        """The target if the prefix leads to no document of this corpus: files, other namespaces and wikis."""
        number = self.namespaces.get(prefix)
        if number == _MEDIA and not has_colon:  # a link to the file itself, with a text or with none
            return Target(None, reason=OTHER_NAMESPACES)
        if number and number not in self._read:
            hidden = not has_colon and number in (6, 14)
            return Target(None, title, hidden=hidden, reason=OTHER_NAMESPACES)
        if number is not None or prefix in self._own or not (prefix in _LANGUAGES or prefix in _OTHER_SITES):
            return None
        language = prefix in _LANGUAGES and not has_colon
        hidden, aside = language and self._wikimedia, language and not self._wikimedia
        return Target(None, title, hidden=hidden, aside=aside, reason=OTHER_WIKIS)

    def resolver(self, page: str) -> Resolve:
        """`resolve` on a page: `[[/Sub]]` is below it, `[[../Sister]]` next to it."""
        if not self._subpages:
            return self.resolve
        page = _spaced(page)

        def resolve(written: str) -> Target:
            path, hash_, section = written.strip().partition("#")
            if not path.startswith(("/", "../")) and path != "..":
                return self.resolve(written)
            title = climb(f"{page}/", f".{path}" if path.startswith("/") else path).strip("/ ")
            if not title or title.startswith("../"):
                return self.resolve(written)
            target = self.resolve(f":{title}{hash_}{section}")
            label = path.strip("./ ") if path.endswith("/") else path * path.startswith("/")
            return Target(target.id, label or title, reason=target.reason)

        return resolve


def _spaced(title: str) -> str:
    """Runs of spaces and underscores as one space, none at the ends."""
    return " ".join(title.replace("_", " ").split())


titles_of = lru_cache(maxsize=8)(Titles)
"""The rules of a site, made once."""


_NAMES = "|".join(
    re.escape(name).replace(r"\ ", "[ _]") for name in " ".join(_WIKIS["disambiguation"].split()).split(", ")
)
_PATTERN = re.compile(rf"\{{\{{\s*(?:{_NAMES})\s*(?:\|[^{{}}]*)?\}}\}}|__DISAMBIG__", re.IGNORECASE)


def is_disambiguation(source: str) -> bool:
    """Whether the source of a page has a template of disambiguation."""
    return _PATTERN.search(source) is not None
