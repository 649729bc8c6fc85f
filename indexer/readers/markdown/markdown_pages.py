"""A folder of Markdown files: a project's documentation, a GitHub wiki, an Obsidian vault.

A file is a document, and its id is its path in the folder ("guide/install.md"). The title is the `title`
of the front matter (YAML, TOML or JSON), else the first heading of level 1 with text, else the file's name.
`title`, `date`, `tags` and the language of the front matter become metadata; front matter that cannot be read
is ignored and counted, and text between two lines "---" that is not a mapping stays text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import orjson

from linkseek.indexer.documents import Document
from linkseek.indexer.files.encodings import encoding_of
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.paths import is_inside
from linkseek.indexer.readers.folder.folders import PageReader
from linkseek.indexer.readers.folder.page_layout import Layout
from linkseek.indexer.readers.folder.page_targets import SiteFacts, climb, unique
from linkseek.indexer.readers.folder.sites import read_start, sample
from linkseek.indexer.readers.markdown.front_matter import (
    ERRORS,
    KEYS,
    addresses_of,
    as_text,
    metadata_of,
    split_front_matter,
    without_front_matter,
)
from linkseek.indexer.readers.markdown.markdown_blocks import DIALECTS, TAGS, Dropped
from linkseek.indexer.readers.markdown.markdown_dialects import dialect_of, to_commonmark
from linkseek.indexer.readers.markdown.markdown_text import MarkdownLinks, render_markdown, slug_of
from linkseek.indexer.readers.reader import Ignored, Outcome, Record, dropped
from linkseek.indexer.wikitext.link_targets import WITHOUT_TEXT

NOTEBOOK = ".ipynb"
CODE = "cells of code"


class MarkdownReader(PageReader):
    """Markdown files and the links between them."""

    name = "markdown"
    description = "a folder of Markdown files (.md, .mdx, .ipynb, ...): documentation, a GitHub wiki, a vault"
    suffixes = (".md", ".mdx", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd", NOTEBOOK)
    indexes = ("index.md", "README.md", "_index.md", "index.mdx", "index.markdown", "index.qmd", "Home.md")
    large = (NOTEBOOK,)
    includes = True
    max_bytes = 1 << 22  # the parser takes up to a tenth of a millisecond for a character

    @classmethod
    def facts(cls, path: Path, names: Sequence[str], dialect: str) -> SiteFacts:
        """What the pages call themselves."""
        facts = SiteFacts({}, {}, {}, dialect, {})
        keys: set[tuple[str, str]] = set()
        anchors: list[tuple[str, str]] = []
        for name, content in read_start(path, [*filter(cls.reads, names)], cls.max_bytes):
            source, title, own, addresses = "", "", list[str](), list[str]()
            with suppress(InputError, *ERRORS):  # which are counted when the page is read
                source = read_source(name, content, Counter()).replace("\r\n", "\n")
                front, _ = split_front_matter(source, dialect)
                title, *own = (as_text(front.get(key)) for key in ("title", *KEYS))
                addresses = list(addresses_of(name, front))
            heading = _HEADING.search(source)
            facts.titles[name] = title or (heading[1] if heading else "")
            keys |= {(key, name) for key in [*_KEY.findall(source[:_START]), *filter(None, own)]}
            anchors += {(slug_of(heading, dialect), name) for heading in _ANY_HEADING.findall(source)}
            for address in addresses:
                facts.addresses.setdefault(address.casefold(), name)
            labels = {label or named: text for label, named, text in _LABEL.findall(source)}
            labels |= {label: heading for heading, label in _NAMED_HEADING.findall(source)}
            facts.labels.update(dict.fromkeys(labels, name))
            facts.headings.update(labels)
        return replace(facts, keys=sorted(keys), anchors=unique(anchors))

    @classmethod
    def stated(cls, path: Path, names: Sequence[str]) -> dict[str, str]:
        """The site's address and the dialect, by config files."""
        around = [name for name in _CONFIG_FILES if name not in DIALECTS["shared"]]
        configs = chain(read_start(path, _CONFIG_FILES), read_start(path.absolute().parent, around))
        sites = [_site_of_config(name, content.decode("utf-8", "replace")) for name, content in configs]
        dialect = dialect_of(path, names) or ("logseq" if cls._is_outline(path, names) else "")
        return {"site": next(filter(None, sites), ""), "markdown": dialect}

    @classmethod
    def _is_outline(cls, path: Path, names: Sequence[str]) -> bool:
        """Whether most pages are lists, and one has properties as Logseq writes them."""
        starts = [start for _, start in read_start(path, sample([*filter(cls.reads, names)], 40), _START)]
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
        render_markdown(source, layout, links, dialect)
        text = layout.text()
        lost += links.dropped + Counter({(WITHOUT_TEXT, ""): layout.without_text})
        notes = [*outcomes, *dropped(lost)]
        if not text:
            return [*notes, Ignored("empty page")]
        first = next((section.heading for section in layout.sections if section.level == 1), stem)
        title = metadata.get("title") or first
        shown = text, tuple(layout.links), layout.sections_below(title)
        return [Document(name, title, *shown, name, metadata), *notes]


_DIALECTS = {".mdx": "mdx", ".qmd": "quarto", ".rmd": "quarto"}


_CONFIG_FILES = ("mkdocs.yml", "_config.yml", "hugo.toml", "config.toml", "hugo.yaml", "docusaurus.config.js",
                 "docusaurus.config.ts", "CNAME")  # fmt: skip
_LABEL = re.compile(
    r"^[ \t]*(?:\(([\w:. /-]+)\)=|:(?:name|label):[ \t]+([\w:. /-]+?))[ \t]*$"
    r"(?=(?:\s*^\(.*\)=)*\s*(?:^#+[ \t]+(.+?)[ \t#]*$)?)",
    re.MULTILINE,
)
"""A label, and the heading that follows it."""
# A book of Quarto is one page to [text](#sec-label).
_NAMED_HEADING = re.compile(r"^#+[ \t]+([^\n{}]*?)[ \t]*\{[^{}\n]*#(sec-[\w:-]+)", re.MULTILINE)
_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_ANY_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
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
    web, path = ("http:", "https:"), values.get("baseurl", "").strip("/")
    shown = f"{address.rstrip('/')}/{'' if path.startswith(web) else path}"
    return shown if address.startswith(web) else ""


def decode_markdown(content: bytes) -> str:
    """A page as text: UTF-8 or UTF-16. Raises `InputError` for anything else."""
    encoding = "utf-8" if len(content) % 2 else encoding_of(content)
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = f"line {line:,}: not UTF-8 (byte 0x{content[error.start]:02x})"
        raise InputError(problem, "Save the file as UTF-8, or use --on-error skip to skip it.") from None


def read_source(name: str, content: bytes, dropped: Dropped) -> str:
    """A page as Markdown; of a notebook its cells of Markdown. Raises `InputError` for damage."""
    if not name.lower().endswith(NOTEBOOK):
        return decode_markdown(content)
    try:
        notebook = orjson.loads(content or b"{}")
        sheets = [notebook, *notebook.get("worksheets", ())]
        cells = [cell for sheet in sheets for cell in sheet.get("cells", ())]
        texts = [cell for cell in cells if cell["cell_type"] in ("markdown", "heading")]  # of version 3
        shown = [f"{'#' * cell.get('level', 0)} ".lstrip() + "".join(cell["source"]) for cell in texts]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise InputError(
            "not a notebook (JSON with cells)", "Save it again in Jupyter, or --exclude it."
        ) from None
    dropped[CODE, ""] += len(cells) - len(shown)
    return "\n\n".join(shown)


_INCLUDE = re.compile(
    r"(?<![\\`])\{\{ ?#(?P<by>include|rustdoc_include|playground|playpen|title)\b[ \t]*(?P<file>[^{}\n]*)\}\}"
    r"|^[ \t]*-{1,}8<-{1,}[ \t]*([\"'])(?P<snippet>[^\n]+)\3[ \t]*$",
    re.MULTILINE,
)
"""Of mdBook, from the page; of pymdown, from the root."""
_ANCHOR = re.compile(r"(?:ANCHOR(_END)?|--8<--[ \t]*\[(?:start|(end))):\s*([\w.-]+)")
_DEEPEST = 10


def with_includes(
    source: str, page: str, folder: Path, dropped: Dropped, room: list[int], depth: int = 0
) -> str:
    """The page with the lines of the files that it includes; what cannot be included is dropped and counted.

    room: the number of characters that may still be included, which this changes.
    """

    def included(match: re.Match[str]) -> str:
        by, written = match["by"] or "snippet", match["file"] or match["snippet"] or ""
        path, *selected = re.sub(r"\s.*" if by[:4] == "play" else r"\s+\Z", "", written).split(":")
        inside = climb(page if match["by"] else "", path)
        file = folder / inside
        if by != "title" and depth < _DEEPEST and path and is_inside(folder, file) and file.is_file():
            with file.open("rb") as stream:
                content = stream.read(room[0] + 1)
            room[0] -= len(content)
            if room[0] >= 0:
                lines = _selected(content.decode("utf-8", "replace").splitlines(), selected)
                return with_includes("\n".join(lines), inside, folder, dropped, room, depth + 1)
        dropped[TAGS, by] += 1
        return ""

    return _INCLUDE.sub(included, source) if "{{" in source or "8<" in source else source


def _selected(lines: list[str], selected: list[str]) -> list[str]:
    """The lines 2:10 (also "2:" and ":10"), or those of an anchor; without the comments that mark anchors."""
    if selected and (selected[0].isdecimal() or not selected[0]):
        start, end = (int(one) if one.isdecimal() else 0 for one in (*selected, selected[0])[:2])
        lines = lines[max(start - 1, 0) : end or None]
    elif selected:
        found = map(_ANCHOR.search, lines)
        marks = [(mark[3], bool(mark[1] or mark[2])) if mark else None for mark in found]
        start, end = ((*marks, (selected[0], ends)).index((selected[0], ends)) for ends in (False, True))
        lines = lines[start:end]
    return [line for line in lines if not _ANCHOR.search(line)]
