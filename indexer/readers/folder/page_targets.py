"""Where the links between the pages of a folder lead.

A link names a path, from its page or from the folder's root; the target is the name of the page that
this path means: as it is written, else ignoring case and Unicode form. Sites omit suffixes and the names of
index pages, so "guide/" is also "guide/index.html", and "guide/install" is "guide/install.html". They also
omit the language of translations: from "a.fr.html", "b" is "b.fr.html" rather than "b.en.html". Links
to other sites, out of the folder, to the page itself, and to files that are not pages (pictures, downloads)
are dropped. Other links that lead to nothing stay as dangling links.

All formats share one order (`Targets._readings`): the path from the page; from another root of the site; as a
name (`named`), in notes and Hugo; from the page as a folder; a label; a key of the front matter. An address
that ends in the id of a page's file is that page's, as exports write it.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from posixpath import normpath
from typing import NamedTuple
from urllib.parse import quote, unquote

from linkseek.indexer.wikitext.link_targets import OTHER_SITES, SAME_PAGE

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:(?://)?|//|\\\\")
_WEB = re.compile(r"(?:https?:)?//", re.I)
_NUMBER = re.compile(r"\d{8,17}(?=\D)|\d\w*(?=[ _.-])")  # of a note of a slip box: "202001011200 Idea.md"
_ID_OF_FILE = re.compile(r"(?:^|[ _-])([0-9a-f]{32}|\d{3,})\Z")  # of exports: "Valve 01ab...", "Valve_1003"
_ID_IN_ADDRESS = re.compile(
    r"(?<![0-9a-f])([0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})(?=[/?#]|\Z)|[?&]pageId=(\d+)"
    r"|/spaces/[^/]+/(?:pages|blog(?:/\d+){3})/(?:[\w-]+/)?(\d+)|(?:/display/[^/]+/|/viewpage\.action\?(?:[^#]*&)?title=)([^/?#&]+)",
    re.I,
)
"""Of Notion and Confluence; the last is a title."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
_IN_LANGUAGE = re.compile(r"(.+)\.([a-z]{2}(?:[-_][A-Za-z]{2,4})?)(\.[^./]+)")  # guide.fr.md


def is_external(href: str) -> bool:
    """Whether an address has a scheme or a host: http:, mailto:, //example.org."""
    return _SCHEME.match(href) is not None


def without_scheme(address: str) -> str:
    """An address from its host on."""
    return _WEB.sub("", address, count=1)


def comparable(address: str) -> str:
    """An address for comparing: without scheme, fragment, case, and slash at the end."""
    return "//" + unquote(without_scheme(address).partition("#")[0]).rstrip("/").casefold()


def path_in(href: str) -> str:
    """The path of an address, percent-decoded; query and fragment are dropped."""
    return unquote(re.split("[?#]", href.strip(), maxsplit=1)[0], errors="replace")


def climb(page: str, path: str) -> str:
    """A path as seen from a page, from the folder's root; one that leads out of the folder begins with "../".

    climb("a/b.html", "../c/") = "c/"; climb("a/b.html", "/d") = "d".
    """
    base = "" if path.startswith("/") else page.rpartition("/")[0]
    climbed = normpath(f"{base}/{path}".lstrip("/"))
    return "" if climbed == "." else climbed + "/" * (path.rpartition("/")[2] in ("", ".", ".."))


LABEL = "#label:"
"""Before the name of a label in the address of a link."""
OUT_OF_FOLDER = "links out of the folder"
NO_PAGE = "links to files that are not pages"


class Led(NamedTuple):
    """Where a link leads: the target (which may be no page's: a dangling link), or why it is dropped."""

    target: str | None
    reason: str = ""


FolderSite = frozenset[str]
"""The addresses of a folder's root, in lower case: "docs.example.org/guide/", or "/guide/" without a host."""


@dataclass(frozen=True)
class SiteFacts:
    """Facts from pages: pages by the addresses that they give themselves (see `Targets`) and by their labels,
    titles by page, the dialect of Markdown, and by label the heading that follows it. keys: (key, page) of
    the front matter; anchors: pages by the anchors of their headings."""

    addresses: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    dialect: str = ""
    headings: dict[str, str] = field(default_factory=dict)
    keys: Sequence[tuple[str, str]] = ()
    anchors: Mapping[str, str] = field(default_factory=dict)


def parse_site(addresses: str) -> FolderSite:
    """`--site`: addresses with a host or paths alone, between blanks."""
    written = (_SCHEME.sub("", one, count=1) if is_external(one) else f"/{one}" for one in addresses.split())
    parts = (one.partition("/") for one in written)
    return FolderSite(f"{host}/{path.strip('/')}/".replace("//", "/").lower() for host, _, path in parts)


class Targets:
    """The pages of a folder by every name that a link may use."""

    def __init__(
        self,
        pages: Iterable[str],
        others: Iterable[str],
        suffixes: Sequence[str],
        indexes: Sequence[str],
        *,
        above: Sequence[str] = (),
        site: FolderSite | None = None,
        facts: SiteFacts | None = None,
    ) -> None:
        """pages, others: names of files that are pages, and that are not.

        suffixes: those that links may omit, most likely first. indexes: the pages that a folder's name
        may mean, most likely first. above: the parts of the folder's own path. facts: what the pages say;
        addresses are paths from the root without slashes at the ends, without case.
        """
        self.pages = frozenset(pages)
        self._others = frozenset(others)
        self._suffixes = suffixes
        self._indexes = indexes
        self._above = tuple(above)
        self.site = site or FolderSite()
        self.facts = facts or SiteFacts()
        self._translations: dict[str, dict[str, str]] = {}  # by name without language: pages by language
        for page in filter(_IN_LANGUAGE.fullmatch, sorted(self.pages)):
            name, language = _language_of(page)
            self._translations.setdefault(name, {})[language] = page
        # A name without a language means the page that has none, the English one, or the first.
        named = {name: found.get("en", min(found.values())) for name, found in self._translations.items()}
        named |= {unquote(page): page for page in self.pages if "%" in page}
        named |= {page.replace("___", "/"): page for page in self.pages if "___" in page}  # of Logseq
        named |= {page: page for page in self.pages}
        self._folded = unique((_fold(name), page) for name, page in named.items())
        paths = [(PurePosixPath(name), page) for name, page in named.items()]
        ends = [(end, page) for path, page in paths for end in _ends(path.with_suffix(""))]
        folders = [(end, page) for path, page in paths if path.name in indexes for end in _ends(path.parent)]
        numbers = [(number[0], page) for path, page in paths if (number := _NUMBER.match(path.name))]
        titles = [(_fold_title(title), page) for page, title in self.facts.titles.items() if title]
        ids = [(match[1], page) for path, page in paths if (match := _ID_OF_FILE.search(path.stem))]
        self._keys = unique([*((_fold_title(key), page) for key, page in self.facts.keys), *ids])
        self._ends = {**unique([*folders, *numbers]), **unique(ends)}
        self._titles = {**self._keys, **unique(titles)}

    def lead(self, page: str, href: str) -> Led:
        """Where the address of a link on `page` leads."""
        if href.startswith(LABEL):
            name = unquote(href.removeprefix(LABEL))
            return self.led_to(page, self.facts.labels.get(name) or self.facts.anchors.get(name) or name)
        if (href.startswith("/") or _WEB.match(href)) and (named := _ID_IN_ADDRESS.search(href)):
            key, title = next(filter(None, named.groups()[:3]), ""), unquote(named[4] or "").replace("+", " ")
            if found := self.named(page, title) if title else self.keyed(key.replace("-", "")):
                return self.led_to(page, found)
        local = self.local(href)
        if local is None:
            return Led(None, OTHER_SITES)
        path, query = path_in(local).replace("\\", "/"), unquote(local.partition("#")[0].partition("?")[2])
        if not path:
            return self.led_to(page, self.facts.labels.get(unquote(local.lstrip("#")), page))
        for sign in "?@" if query else "":  # as wget names files: "page.php?id=3.html"
            if found := next(filter(None, self._readings(page, f"{path}{sign}{query}")), None):
                return self.led_to(page, found)
        return self.resolve(page, path)

    def resolve(self, page: str, path: str) -> Led:
        """Where a path on `page` leads."""
        joined = self._inside(climb(page, path))
        target = next(filter(None, self._readings(page, path)), None)
        if target is None:
            if joined is None:
                return Led(None, OUT_OF_FOLDER)
            return Led(None, NO_PAGE) if joined in self._others or not joined else Led(joined)
        if joined not in self.pages or self.facts.dialect in ("hugo", "mkdocs"):
            target = self.translated(page, target)
        return self.led_to(page, target)

    def _readings(self, page: str, path: str) -> Iterator[str | None]:
        """The pages that a path may mean, the most likely first; None where there is no such page."""
        yield self._at(page, path)
        if path.startswith("/"):
            roots = [root[root.index("/") : -1] for root in self.site]
            yield from (self._from_another_root(page, root + path) for root in ["", *roots])
        if path.startswith("/") or self._inside(climb(page, path)) in self._others:
            return
        if self.facts.dialect in ("hugo", "obsidian") and path[0] != ".":
            yield self.named(page, path)
        if not path.lower().endswith(tuple(self._suffixes)):  # of a page that is served as a folder
            yield self._at(f"{page.rpartition('.')[0]}/", path)
        yield self.facts.labels.get(path) or self.keyed(path)
        if "+" in path:  # for a blank, as Obsidian Publish writes it
            yield self.named(page, path.replace("+", " "))

    def _at(self, base: str, path: str) -> str | None:
        inside = self._inside(climb(base, path))
        return None if inside is None else self.find(inside)

    def led_to(self, page: str, target: str) -> Led:
        """A link on `page` to another one, or to itself."""
        return Led(target) if target != page else Led(None, SAME_PAGE)

    def named(self, page: str, name: str, *, titles: bool = True) -> str | None:
        """The page that a name on `page` means: a path from there or from the root, else the end of one path,
        a folder or number, else with `titles` a title, a key. A name of several pages leads nowhere."""
        found = (self._at(page, name) or self.find(name.lstrip("/"))) if name else None
        found = found or self._ends.get(_fold_title(self._without_suffix(name)))
        found = found or (self._titles.get(_fold_title(name)) if titles else None)
        return self.translated(page, found) if found else None

    def keyed(self, key: str) -> str | None:
        """The only page with a key in its front matter, or at the end of its name."""
        return self._keys.get(_fold_title(key))

    def translated(self, page: str, target: str) -> str:
        """The target in the language of a page, if the names of both tell theirs: b.fr.md for b.md."""
        own = self._in_language(target, _language_of(page)[1])
        return own if own != page else target

    def _in_language(self, target: str, language: str) -> str:
        return self._translations.get(_language_of(target)[0], {}).get(language.lower(), target)

    def local(self, href: str) -> str | None:
        """The path of an address, from the folder's root if it has a host or begins at the site's root; None
        elsewhere."""
        if _WEB.match(href):
            page = self.facts.addresses.get(comparable(href))
            return "/" + quote(page) if page else self.below_site(href)
        if is_external(href):
            return None
        return (self.below_site(href) if href.startswith("/") else None) or href

    def below_site(self, href: str) -> str | None:
        """The path from the folder's root of an address with a host, or from the site's root; else None."""
        host, path = re.split("(?=[/?#])|$", without_scheme(href), maxsplit=1)
        address = f"{host.lower()}/{path.removeprefix('/')}"
        for root in sorted(self.site, key=len, reverse=True):
            root = root if host else root[root.index("/") :]
            if address[: len(root)].lower() == root:
                return "/" + address[len(root) :]
            if path_in(address).lower() == root.rstrip("/"):
                return "/"
        return None

    def _inside(self, path: str) -> str | None:
        """A path that leaves the folder and comes back under the folder's own name; None if it stays out."""
        parts = path.split("/")
        climbed = parts.count("..")
        if not climbed:
            return path
        names = parts[climbed : 2 * climbed]
        return "/".join(parts[2 * climbed :]) if tuple(names) == self._above[-climbed:] else None

    def _from_another_root(self, page: str, path: str) -> str | None:
        """The page that a path from the site's root means, if that root is not the folder's: below folders of
        the page, of English (for a page that is not translated) or of Docusaurus; without the folder's own
        path or a language, which have no folder; or as a page calls itself (of MDN)."""
        folders, parts = page.split("/")[:-1], path.strip("/").split("/")
        english = ["en"] if folders and _LANGUAGE.fullmatch(folders[0]) else []
        own = ("/".join(folders[:depth]) for depth in range(1, len(folders) + 1))
        for start in (*own, *english, "src/pages", "docs"):
            if found := self.find(start + path):
                return found
        for depth in range(1, len(parts) + 1):
            rest = "/".join(parts[depth:])
            found = self.find(rest) if tuple(parts[:depth]) == self._above[-depth:] else None
            calls_itself = self.facts.addresses.get(rest.casefold()) if depth < len(parts) - 1 else None
            if found := found or calls_itself:
                return found
        if len(parts) > 1 and _LANGUAGE.fullmatch(parts[0]):
            rest = "/".join(parts[1:])
            found = self.find(rest) or self._from_another_root(page, f"/{rest}")
            return found and self._in_language(found, parts[0])
        return None

    def find(self, path: str) -> str | None:
        """The page that a path from the root means; None if no page matches."""
        if path not in self.pages and (addressed := self.facts.addresses.get(path.strip("/").casefold())):
            return addressed
        candidates = list(self._candidates(path))
        found = next(filter(self.pages.__contains__, candidates), None)
        return found or next(filter(None, (self._folded.get(_fold(one)) for one in candidates)), None)

    def _candidates(self, path: str) -> Iterator[str]:
        bare, of_folder = path.rstrip("/"), path.endswith("/") or not path
        stem = self._without_suffix(bare)
        before = f"{bare if of_folder else stem}/".lstrip("/")
        files = [
            start + suffix for start in dict.fromkeys((bare, stem)) for suffix in self._suffixes if start
        ]
        indexes = [before + index for index in self._indexes]
        yield from [*indexes, *files] if of_folder else [path, *files, *indexes]
        folder, _, last = stem.rpartition("/")
        yield from (f"{stem}/{last}{suffix}" for suffix in self._suffixes if last)  # of Docusaurus, of notes
        if last.lower() == "index":
            yield from self._candidates(f"{folder}/" if folder else "")

    def _without_suffix(self, name: str) -> str:
        suffixes = (suffix for suffix in (*self._suffixes, ".html", ".htm") if name.lower().endswith(suffix))
        return name[: -len(next(suffixes, "")) or None]


class PageLinks:
    """Resolves the links of one page, and counts those that are dropped by reason."""

    def __init__(self, page: str, targets: Targets) -> None:
        self.page = page
        self.targets = targets
        self.resolved = 0
        self.dropped: Counter[tuple[str, str]] = Counter()

    def lead(self, href: str) -> Led:
        """Where the address of a link leads."""
        return self.targets.lead(self.page, href)

    def address(self, href: str) -> str | None:
        """The target of a link by its address; None if it is dropped."""
        return self.counted(self.lead(href))

    def counted(self, led: Led) -> str | None:
        """The target of a link."""
        self.resolved += 1
        self.dropped[led.reason, ""] += led.target is None
        return led.target


def _language_of(page: str) -> tuple[str, str]:
    """The name of a page without the language in it, and that."""
    match = _IN_LANGUAGE.fullmatch(page)
    return (match[1] + match[3], match[2].lower()) if match else (page, "")


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _fold_title(name: str) -> str:
    """As wikis name files: blanks may be hyphens or underscores, and hyphens those of Unicode (GitHub)."""
    return re.sub("[ _]+|\u2010", "-", _fold(name).strip())


def _ends(path: PurePosixPath) -> Iterator[str]:
    """The ends of a path, as names: b/c and c of b/c."""
    folded = _fold_title(str(path))
    return (folded[at:] for at in (0, *(match.end() for match in re.finditer("/", folded))))


def unique(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Pages by name, without the names of several."""
    pairs = list(named)
    counts = Counter(name for name, _ in pairs)
    return {name: page for name, page in pairs if counts[name] == 1}
