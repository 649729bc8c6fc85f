"""Markdown to text: CommonMark with tables, strikethrough, footnotes, front matter and wiki links.

The text is the rendered text: code keeps its lines but not its fence, a row of a table is a line,
pictures are dropped with their alternative texts, and raw HTML becomes what a browser would show.
Wiki links are [[Page]], [[Page|text]] (Obsidian) and [[text|Page]] (GitHub); an embedded page
(![[Page]]) is dropped.

Source: https://spec.commonmark.org/0.31.2/.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin
from selectolax.lexbor import LexborHTMLParser

from linkseek.indexer.readers.folder.page_layout import Blocks, Layout, joined_lines
from linkseek.indexer.readers.folder.page_targets import LABEL, NO_PAGE, Led, Targets
from linkseek.indexer.readers.html.html_text import check_cost, render, without
from linkseek.indexer.readers.markdown.markdown_dialects import LINK_COMPONENTS
from linkseek.indexer.readers.reader import damaged
from linkseek.indexer.wikitext.link_targets import SAME_PAGE

EMBEDDED = "embedded pages"
_DEEPEST = 100  # a level takes several calls, and Python allows a thousand


class PageLinks:
    """Resolves the links of one page, and counts those that are dropped."""

    def __init__(self, page: str, targets: Targets) -> None:
        self._page = page
        self._targets = targets
        self.dropped: Counter[tuple[str, str]] = Counter()

    def address(self, href: str) -> str | None:
        """The target of a link by its address."""
        written = _OWN_SCHEME.sub("", _ROOT.sub("", href.strip()))
        return self._kept(self._targets.lead(self._page, written, self._page))

    def title(self, href: str, target: str) -> str:
        """The text shown for a link without text: the heading of its label, or the title of its page."""
        label = unquote(_OWN_SCHEME.sub("", href.strip()).removeprefix(LABEL).removeprefix("#"))
        if heading := self._targets.facts.headings.get(label):
            return heading
        return self._targets.facts.titles.get(target) or PurePosixPath(target).stem

    def is_page(self, name: str) -> bool:
        """Whether a wiki link leads to a page of the folder."""
        return bool(self._targets.named(self._page, name) or self._targets.titled(self._page, name))

    def wiki(self, left: str, right: str) -> tuple[str | None, str]:
        """Target and anchor of [[left|right]]: a page and a text, unless only the text is a page."""
        for address, text in ((right, left), (left, right or left)):
            if _WEB.match(address):  # of GitHub's wikis
                return self.address(address), text
        if _NOTE.match(right) and not _NOTE.match(left):
            left, right = right, left
        shown_left = _NOTE.sub("", left)
        both = ((left, right or shown_left), (right, shown_left))
        for find in (self._targets.named, self._targets.titled, lambda _, name: self._targets.keyed(name)):
            for name, anchor in both[: 1 if shown_left != left else 2]:  # an address is never the text
                if page := find(self._page, _NOTE.sub("", name).partition("#")[0].strip()):
                    return self._kept(self._targets.led_to(self._page, page)), anchor
        name = shown_left.partition("#")[0].strip()
        if _FILE.search(name):
            return self._kept(Led(None, NO_PAGE)), "" if _OF_PICTURE.match(right) else right or shown_left
        return self._kept(Led(name) if name else Led(None, SAME_PAGE)), right or shown_left

    def _kept(self, led: Led) -> str | None:
        self.dropped[led.reason, ""] += led.target is None
        return led.target


_OWN_SCHEME = re.compile(r"(?:project|path):", re.I)  # of MyST
_ROOT = re.compile(r"\A(?:(?:~|@|@site(?:/docs(?=/docs/))?)(?=/)|%7[BC]\w+%7[DC])")
"""Names of a site's root, as generators write them before a path: @site/, @/, ~/, {filename}/."""
_WEB = re.compile(r"https?://|mailto:", re.I)
_FILE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|bmp|avif|pdf|mp[34]|webm|mov|wav|zip|canvas)$", re.I)
_OF_PICTURE = re.compile(r"(?:alt|width|height|align|frame|float)\b")  # of GitHub's wikis
_NOTE = re.compile(r"(?!https?:)[a-z]+://[^/]*/", re.IGNORECASE)  # of a note in another vault


@cache
def _parser(indented_code: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    if not indented_code:
        parser.disable("code")
    parser.use(footnote_plugin).use(deflist_plugin)
    parser.inline.ruler.before("link", "wiki_link", _wiki_link)
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # else javascript: stays as text
    return parser


_WIKI_LINK = re.compile(r"!?\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\](?!\()")


def _wiki_link(state: StateInline, silent: bool) -> bool:
    match = _WIKI_LINK.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("wiki_link", "", 0)
        token.content = match[1].rstrip("\\").strip()  # [[Page\|text]], as in a table
        token.meta = {"right": (match[2] or "").strip(), "embedded": match[0].startswith("!")}
    state.pos = match.end()
    return True


def parse_markdown(source: str, *, indented_code: bool = True) -> list[Token]:
    """The tokens of a page without front matter.

    indented_code: whether lines with four spaces before them are code, which MDX does not have.
    Raises `InputError` for blocks nested so deep that the parser would drop their content.
    """
    tokens = _parser(indented_code).parse(source)
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        raise damaged(f"quotes or lists are nested {_DEEPEST} deep", "page")
    return tokens


def render_markdown(tokens: Sequence[Token], layout: Layout, resolve: PageLinks) -> None:
    """Add the text of the tokens. Raises `InputError` for raw HTML that is nested too deep."""
    blocks, anchors = Blocks(layout), Counter[str]()
    for at, token in enumerate(tokens):
        if token.type == "inline":
            children = token.children or []
            if at > 1 and tokens[at - 2].type in ("list_item_open", "blockquote_open"):
                _drop_mark(children)
            _inline(children, blocks, resolve)
        elif token.type in ("fence", "code_block"):
            blocks.open("pre")
            blocks.text(token.content)
            blocks.close("pre")
        elif token.type == "html_block":
            _html(token.content, blocks, resolve)
        elif token.type == "footnote_open":
            blocks.open("p")
        elif token.type == "hr":
            layout.paragraph()
        elif token.type == "heading_open":
            blocks.open(token.tag, anchor=_anchor(tokens[at + 1].content, anchors))
        elif token.nesting > 0:
            blocks.open(token.tag)
        elif token.nesting < 0:
            blocks.close(token.tag)


def slug_of(heading: str) -> str:
    """The words of a heading as its anchor."""
    if named := _NAMED.search(heading):
        return named[1]
    words = re.sub(r"[^\w\- ]", "", _MARKUP.sub(r"\1", _ATTRIBUTES.sub("", heading)).strip().lower())
    return words.replace(" ", "-")


_NAMED = re.compile(r"\{:?[^{}]*#([\w-]+)[^{}]*\}\s*\Z")
_MARKUP = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)|[*`~]|<[^<>]*>")


def _anchor(heading: str, before: Counter[str]) -> str:
    """The anchor of a heading as GitHub and most site generators make it. before: earlier anchors."""
    slug = slug_of(heading)
    before[slug] += not _NAMED.search(heading)
    return slug if before[slug] < 2 else f"{slug}-{before[slug] - 1}"


_MARK = re.compile(
    r"\A\[(?:[ xX~/<>?!*-](?=\]\s)|!(?:[\w|-]+|div [^\]]*)(?=\][+\s-]|\]$))\][+-]?"
)  # "[x]" or "[-]" of a task, "[!note]-" of an alert


def _drop_mark(children: Sequence[Token]) -> None:
    if children and children[0].type == "text":
        children[0].content = _MARK.sub("", children[0].content)


def _inline(tokens: Sequence[Token], blocks: Blocks, resolve: PageLinks) -> None:
    layout = blocks.layout
    for at, token in enumerate(tokens):
        if token.type == "link_open":
            href = str(token.attrs.get("href", ""))
            target = resolve.address(href)
            _open_link(layout, target)
            if target is None:
                continue
            if tokens[at + 1].type == "link_close":
                layout.words(resolve.title(href, target))
            elif token.info == "auto" and _OWN_SCHEME.match(href):  # <project:guide.md>
                tokens[at + 1].content = resolve.title(href, target)
        elif token.type == "link_close":
            layout.close_link()
        elif token.type == "wiki_link":
            name, right = token.content, token.meta["right"]
            if token.meta["embedded"]:  # shown by its name, if it is a page
                name = name.partition("#")[0].strip()
                resolve.dropped[EMBEDDED, ""] += not _FILE.search(name)
                if not resolve.is_page(name):
                    continue
            target, anchor = resolve.wiki(name, right)
            _open_link(layout, target)
            layout.words(anchor)
            layout.close_link()
        elif token.type == "softbreak":
            lines = "\n".join(each.content for each in (*tokens[at - 1 : at], *tokens[at + 1 : at + 2]))
            if joined_lines(lines) == lines:
                layout.space()
        elif token.type == "hardbreak":
            blocks.open("br")
        elif token.type == "html_inline":
            _inline_tag(token.content, blocks, resolve)
        elif token.type == "text":
            behind = at and tokens[at - 1].type in (
                "link_close",
                "image",
                "em_close",
                "strong_close",
                "code_inline",
            )
            text = _OWN_ATTRIBUTES.sub("", token.content) if behind else token.content
            blocks.text(_ATTRIBUTES.sub("", text))
        elif token.type not in ("image", "footnote_ref", "footnote_anchor"):
            blocks.text(token.content)


_LINK_TAGS = frozenset(("a", "A", *LINK_COMPONENTS))
_TAG_NAME = re.compile(r"</?([A-Za-z][\w-]*)")
_ATTRIBUTES = re.compile(r"\s?(?<!\{)\{:?\s*[#.][\w-][^{}]*\}(?!\})|\s\{-\}\Z")
"""Names and classes as kramdown, Pandoc and MkDocs append them: {#install}, {: .note }, {-}."""
_OWN_ATTRIBUTES = re.compile(r"\A\{(?::[^{}]*|[^{}=]*=[^{}]*)\}")
"""Behind a link or a picture also others: {target=_blank}, {:height 20}."""


def _open_link(layout: Layout, target: str | None) -> None:
    if target is not None:
        layout.open_link(target)


def _inline_tag(tag: str, blocks: Blocks, resolve: PageLinks) -> None:
    name = _TAG_NAME.match(tag)
    if name is None:
        return
    if name[1].lower() == "br":
        blocks.open("br")
    elif name[1] not in _LINK_TAGS:
        return
    elif tag.startswith("</"):
        blocks.layout.close_link()
    elif node := LexborHTMLParser(tag).css_first("[href], [to]"):
        _open_link(blocks.layout, resolve.address(node.attrs.get("href") or node.attrs.get("to") or ""))


def _html(source: str, blocks: Blocks, resolve: PageLinks) -> None:
    check_cost(source)
    body = LexborHTMLParser(source).body
    if body is not None:
        blocks.open("div")
        render(body, blocks, without(body, everything=True), resolve.address)
        blocks.close("div")
