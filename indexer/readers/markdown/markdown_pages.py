"""A folder of Markdown files: a project's documentation, a GitHub wiki, an Obsidian vault.

A file is a document, and its id is its path in the folder ("guide/install.md"). The title is the `title`
of the front matter (YAML, TOML or JSON), else the first heading of level 1 with text, else the file's name.
`title`, `date`, `tags` and the language of the front matter become metadata; front matter that cannot be read
is ignored and counted, and text between two lines "---" that is not a mapping stays text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from linkseek.indexer.documents import Document
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.readers.folder.folders import PageReader
from linkseek.indexer.readers.folder.page_layout import Layout
from linkseek.indexer.readers.folder.page_targets import SiteFacts, unique
from linkseek.indexer.readers.folder.sites import read_start, sample
from linkseek.indexer.readers.markdown.front_matter import (
    ERRORS,
    addresses_of,
    as_text,
    metadata_of,
    split_front_matter,
    without_front_matter,
)
from linkseek.indexer.readers.markdown.markdown_dialects import OF_MDX, dialect_of, to_commonmark
from linkseek.indexer.readers.markdown.markdown_text import (
    MarkdownLinks,
    render_markdown,
    slug_of,
)
from linkseek.indexer.readers.markdown.sources import NOTEBOOK, read_source, with_includes
from linkseek.indexer.readers.reader import Ignored, Outcome, Record, dropped
from linkseek.indexer.wikitext.link_targets import WITHOUT_TEXT


class MarkdownReader(PageReader):
    """Markdown files and the links between them."""

    name = "markdown"
    description = "a folder of Markdown files (.md, .mdx, .ipynb, ...): documentation, a GitHub wiki, a vault"
    costly = True
    headings = True
    suffixes = (".md", ".mdx", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd", NOTEBOOK)
    indexes = ("index.md", "README.md", "_index.md", "index.mdx", "index.markdown", "index.qmd", "Home.md")
    large = (NOTEBOOK,)
    includes = True
    max_bytes = 1 << 22  # the parser takes up to a tenth of a millisecond for a character

    @classmethod
    def facts(cls, path: Path, names: Sequence[str], dialect: str) -> SiteFacts:
        """What the pages call themselves."""
        pages = [name for name in names if cls.is_page(name)]
        addresses: dict[str, str] = {}
        titles: dict[str, str] = {}
        labels: dict[str, str] = {}
        headings: dict[str, str] = {}
        keys: list[tuple[str, str]] = []
        anchors: list[tuple[str, str]] = []
        for name, content in read_start(path, pages, cls.max_bytes):
            titles[name], further, own_labels, own_keys, source = _facts(content, name, dialect)
            keys += ((key, name) for key in {*own_keys})
            anchors += {(slug_of(heading), name) for heading in _ANY_HEADING.findall(source)}
            for address in further:
                addresses.setdefault(address.casefold(), name)
            if "_quarto.yml" in names:  # a book is one page to [text](#sec-label)
                named = _NAMED_HEADING.findall(content.decode("utf-8", "replace"))
                own_labels |= {label: heading for heading, label in named}
            labels.update(dict.fromkeys(own_labels, name))
            headings.update(own_labels)
        once = {slug: page for slug, page in unique(anchors).items() if page}
        return SiteFacts(addresses, titles, labels, dialect, headings, keys, once)

    @classmethod
    def stated(cls, path: Path, names: Sequence[str]) -> dict[str, str]:
        """The site's address and the dialect, by config files."""
        configs = read_start(path, [name for name in _CONFIG_FILES if name in names])
        sites = [_site_of_config(name, content.decode("utf-8", "replace")) for name, content in configs]
        dialect = dialect_of(path, names) or ("logseq" if cls._is_outline(path, names) else "")
        return {"site": next(filter(None, sites), ""), "markdown": dialect}

    @classmethod
    def _is_outline(cls, path: Path, names: Sequence[str]) -> bool:
        """Whether most pages are lists, and one has properties as Logseq writes them."""
        starts = [start for _, start in read_start(path, sample([*filter(cls.is_page, names)], 40), _START)]
        with_properties = [bool(_PROPERTIES.match(start)) for start in starts]
        lists = [start.lstrip()[:2] == b"- " for start in starts]
        return any(with_properties) and 2 * (sum(with_properties) + sum(lists)) > len(starts)

    def parse(self, record: Record) -> Iterable[Outcome]:
        """One document, and notes on its dropped parts."""
        name = record.place
        outcomes: list[Outcome] = []
        lost: Counter[tuple[str, str]] = Counter()
        source = read_source(name, record.payload, lost)
        targets = self.targets()
        dialect = targets.facts.dialect or _DIALECTS.get(PurePosixPath(name).suffix.lower(), "")
        if self.path.is_dir() and dialect != "plain":
            source = with_includes(source, name, self.path, lost, [self.max_bytes])
        try:
            front, source = split_front_matter(source, dialect)
            metadata = metadata_of(front)
        except ERRORS:
            outcomes.append(Ignored("front matter that cannot be read (the page itself is kept)"))
            source, metadata = without_front_matter(source), {}
        source = to_commonmark(source, dialect, lost, targets.facts.anchors)
        stem = PurePosixPath(name).stem
        if dialect == "logseq":  # of a page within another
            stem = unquote(stem.replace("___", "/"))
        layout = Layout()
        links = MarkdownLinks(name, targets)
        render_markdown(source, layout, links, of_mdx=dialect in OF_MDX)
        text = layout.text()
        first = next((section.heading for section in layout.sections if section.level == 1), stem)
        title = metadata.get("title") or first
        notes = [
            *outcomes,
            *dropped(lost + links.dropped + Counter({(WITHOUT_TEXT, ""): layout.without_text})),
        ]
        if not text:
            return [*notes, Ignored("empty page")]
        return [
            Document(name, title, text, tuple(layout.links), layout.sections_below(title), name, metadata),
            *notes,
        ]


_DIALECTS = {".mdx": "mdx", ".qmd": "quarto", ".rmd": "quarto"}


_CONFIG_FILES = ("mkdocs.yml", "_config.yml", "hugo.toml", "config.toml", "hugo.yaml", "docusaurus.config.js",
                 "docusaurus.config.ts", "CNAME")  # fmt: skip
_LABEL = re.compile(
    r"^[ \t]*(?:\(([\w:. /-]+)\)=|:(?:name|label):[ \t]+([\w:. /-]+?))[ \t]*$"
    r"(?=(?:\s*^\(.*\)=)*\s*(?:^#+[ \t]+(.+?)[ \t#]*$)?)",
    re.MULTILINE,
)
"""A label, and the heading that follows it."""
_NAMED_HEADING = re.compile(r"^#+[ \t]+([^\n{}]*?)[ \t]*\{[^{}\n]*#(sec-[\w:-]+)", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_ANY_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


def _facts(content: bytes, name: str, dialect: str) -> tuple[str, list[str], dict[str, str], list[str], str]:
    """(title, further addresses, labels with their headings, keys, source) of a page, without parsing it."""
    try:
        source = read_source(name, content, Counter()).replace("\r\n", "\n")
    except InputError:
        return "", [], {}, [], ""
    heading = _HEADING.search(source)
    title = heading[1] if heading else ""
    labels = {label or named: text for label, named, text in _LABEL.findall(source)}
    keys = _KEY.findall(source[:_START])
    addresses: list[str] = []
    with suppress(*ERRORS):  # which are counted when the page is read
        front, _ = split_front_matter(source, dialect)
        title = as_text(front.get("title")) or title
        keys += filter(None, [as_text(front.get(key)) for key in _KEYS])
        addresses += addresses_of(name, front)
    return title, addresses, labels, keys, source


_KEYS = ("id", "uid", "zettel-id")
_KEY = re.compile(r"^@?(?:id|uid|zettel-id):[ \t]*([\w.-]+)[ \t]*$", re.I | re.M)
"""The key of a note in its text."""
_START = 2000  # characters
_PROPERTIES = re.compile(rb"\s*(?:- )?(?:title|alias|tags|type|icon|public|id|template)::[ \t]")


_ADDRESS_IN_CONFIG = re.compile(
    r"""(?:^|(?<=[{,]))\s*["']?(site_url|baseurl|baseURL|base_url|url|baseUrl)["']?\s*[:=]\s*["']?([^"'\s,#]+)""",
    re.MULTILINE,
)


def _site_of_config(name: str, content: str) -> str:
    """The address of a site that its config file names; empty if it names none."""
    if name == "CNAME":
        return f"https://{content.strip()}/" if content.strip() else ""
    values = {key.lower(): value for key, value in _ADDRESS_IN_CONFIG.findall(content)}
    address = values.get("site_url") or values.get("url") or values.get("baseurl", "")
    path = values.get("baseurl", "") if address.startswith(("http:", "https:")) else ""
    path = "" if path.startswith(("http:", "https:")) else path.strip("/")
    return f"{address.rstrip('/')}/{path}" if address.startswith(("http:", "https:")) else ""
