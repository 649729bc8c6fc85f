"""Markdown to text: CommonMark with tables, strikethrough, footnotes, front matter and wiki links.

The text is the rendered text: code keeps its lines but not its fence, a row of a table is a line,
pictures are dropped with their alternative texts, and raw HTML becomes what a browser would show.
Wiki links are [[Page]], [[Page|text]] (Obsidian) and [[text|Page]] (GitHub); an embedded page
(![[Page]]) is dropped.

Source: https://spec.commonmark.org/0.31.2/.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath
from unicodedata import normalize
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from linkseek.indexer.readers.folder.page_layout import Layout
from linkseek.indexer.readers.folder.page_targets import LABEL, NO_PAGE, Led, PageLinks
from linkseek.indexer.readers.html.html_text import parse_html, render, without
from linkseek.indexer.readers.markdown.markdown_blocks import DIALECTS
from linkseek.indexer.readers.markdown.markdown_dialects import OF_MDX
from linkseek.indexer.readers.reader import damaged
from linkseek.indexer.wikitext.link_targets import SAME_PAGE

EMBEDDED = "embedded pages"
FOUND = "\ufdd2"
"""Before a target that is known, in the place of an address."""
_DEEPEST = 100  # a level takes several calls, and Python allows a thousand


class MarkdownLinks(PageLinks):
    """The links of a page of Markdown, also of a wiki or of notes."""

    def lead(self, href: str) -> Led:
        """Where the address of a link leads; without generators' own names of a site's root."""
        return super().lead(_OWN_SCHEME.sub("", _ROOT.sub("", href.strip())))

    def address(self, href: str) -> str | None:
        """The target of a link by its address, or as `wiki` has found it."""
        return href.removeprefix(FOUND) if href.startswith(FOUND) else super().address(href)

    def title(self, href: str) -> str:
        """The text shown for a link without text: the heading of its label, or the title of its page."""
        target, facts = self.lead(href).target or "", self.targets.facts
        label = unquote(_OWN_SCHEME.sub("", href.strip()).removeprefix(LABEL).removeprefix("#"))
        shown = facts.headings.get(label) or facts.titles.get(target) or PurePosixPath(target).stem
        return shown if target else ""

    def wiki(self, left: str, right: str) -> tuple[str | None, str]:
        """Target and anchor of [[left|right]]: a page and a text, unless only the text is a page."""
        for address, text in ((right, left), (left, right or left)):
            if _WEB.match(address):  # of GitHub's wikis
                return self.address(address), text
        for titles in (False, True):
            for written, anchor in ((left, right or left), (right, left)):
                if page := self.targets.named(self.page, written.partition("#")[0].strip(), titles=titles):
                    return self.counted(self.targets.led_to(self.page, page)), anchor
        name = left.partition("#")[0].strip()
        if _FILE.search(name):
            return self.counted(Led(None, NO_PAGE)), "" if _OF_PICTURE.match(right) else right or left
        return self.counted(Led(name) if name else Led(None, SAME_PAGE)), right or left


_OWN_SCHEME = re.compile(r"(?:project|path):", re.I)  # of MyST
_ROOT = re.compile(r"\A(?:(?:~|@|@site(?:/docs(?=/docs/))?)(?=/)|%7[BC]\w+%7[DC])")
"""Names of a site's root, as generators write them before a path: @site/, @/, ~/, {filename}/."""
_WEB = re.compile(r"https?://|mailto:", re.I)
_FILE = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|bmp|avif|pdf|mp[34]|webm|mov|wav|zip|canvas)$", re.I)
_OF_PICTURE = re.compile(r"(?:alt|width|height|align|frame|float)\b")  # of GitHub's wikis


@cache
def _parser(of_mdx: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable(["table", "strikethrough"])
    if of_mdx:
        parser.disable(["code", "html_block"])
    parser.use(footnote_plugin).use(deflist_plugin)
    for part in ("ref", "anchor", "block_open", "block_close", "open", "close"):
        shown = {"open": "<div>", "close": "</div>"}.get(part, "")
        parser.add_render_rule(f"footnote_{part}", lambda *_, shown=shown: shown)
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


def render_markdown(source: str, layout: Layout, links: MarkdownLinks, dialect: str = "") -> None:
    """Add the text of a page without front matter, as the HTML that CommonMark makes of it.

    In MDX, elements hold Markdown, and lines with four spaces before them are no code.
    Raises `InputError` for blocks nested so deep that the parser would drop their content.
    """
    of_mdx = dialect in OF_MDX
    parser = _parser(of_mdx)
    tokens = parser.parse(source)
    if any(token.level >= _DEEPEST - 1 for token in tokens):
        raise damaged(f"quotes or lists are nested {_DEEPEST} deep", "page")
    anchors = Counter[str]()
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrs = {"id": _anchor(tokens[at + 1].content, anchors, dialect)}
        elif token.type == "inline":
            children = token.children or []
            if children and at > 1 and tokens[at - 2].type in ("list_item_open", "blockquote_open"):
                children[0].content = _MARK.sub("", children[0].content)
            token.children = list(_shown(children, links, of_mdx))
        elif token.type == "table_open":
            token.attrs = {"data-rows": ""}
        elif token.type == "html_block":
            token.content = _balanced(token.content)
    if body := parse_html(parser.renderer.render(tokens, parser.options, {})).body:
        render(body, layout, without(body, everything=True), links.address)


def _shown(tokens: Sequence[Token], links: MarkdownLinks, of_mdx: bool) -> Iterator[Token]:
    """The tokens within a paragraph, without attributes, with wiki links and the texts that links lack."""
    for at, token in enumerate(tokens):
        before, after = (tokens[n] if 0 <= n < len(tokens) else _NOTHING for n in (at - 1, at + 1))
        if token.type == "link_open":
            yield token
            href = str(token.attrs.get("href", ""))
            if after.type == "link_close":
                yield Token("text", "", 0, content=links.title(href))
            elif token.info == "auto" and _OWN_SCHEME.match(href):  # <project:guide.md>
                after.content = links.title(href) or after.content
        elif token.type == "wiki_link":
            yield from _wiki(token, links)
        elif token.type == "html_inline":
            name = _TAG_NAME.match(token.content)
            if name and (name[1].lower() in _INLINE or (of_mdx and name[1].lower() not in _SWALLOWING)):
                yield token
        else:
            if token.type == "text":
                behind = before.type.endswith("_close") or before.type in ("image", "code_inline")
                content = _OWN_ATTRIBUTES.sub("", token.content) if behind else token.content
                token.content = _ATTRIBUTES.sub("", content)
            yield token


def _wiki(token: Token, links: MarkdownLinks) -> Iterator[Token]:
    """A wiki link as a link; an embedded page by its name."""
    name = token.content
    if token.meta["embedded"]:
        name = name.partition("#")[0].strip()
        links.dropped[EMBEDDED, ""] += not _FILE.search(name)
        if links.targets.named(links.page, name) is None:
            return
    target, anchor = links.wiki(name, token.meta["right"])
    if target is not None:
        yield Token("link_open", "a", 1, attrs={"href": f"{FOUND}{target}"})
    yield Token("text", "", 0, content=anchor)
    if target is not None:
        yield Token("link_close", "a", -1)


_NOTHING = Token("", "", 0)
_MARK = re.compile(
    r"\A\[(?:[ xX~/<>?!*-](?=\]\s)|!(?:[\w|-]+|div [^\]]*)(?=\][+\s-]|\]$))\][+-]?"
)  # "[x]" or "[-]" of a task, "[!note]-" of an alert


def slug_of(heading: str, dialect: str = "") -> str:
    """The words of a heading as its anchor, as the generator of a dialect makes it; else as GitHub."""
    if named := _NAMED.search(heading):
        return named[1]
    rules = DIALECTS["slugs"].get(dialect) or DIALECTS["slugs"]["github"]
    slug = _MARKUP.sub(r"\1\2", _ATTRIBUTES.sub("", heading)).strip().lower()
    slug = normalize(rules["form"], slug)
    for pattern, instead in rules["edits"]:
        slug = re.sub(pattern, instead, slug)
    return str(slug)


def _anchor(heading: str, before: Counter[str], dialect: str) -> str:
    """The anchor of a heading. before: earlier anchors, whose words get a number where they come again."""
    slug = slug_of(heading, dialect)
    before[slug] += not _NAMED.search(heading)
    again, sign = before[slug] - bool(slug or dialect != "mkdocs"), "_" if dialect == "mkdocs" else "-"
    return f"{slug}{sign}{again}" if again > 0 else slug


_NAMED = re.compile(r"\{:?[^{}]*#([\w-]+)[^{}]*\}\s*\Z")
_MARKUP = re.compile(r"`+([^`]*)`+|!?\[([^\[\]]*)\]\([^()]*\)|[*`~]|<[^<>]*>")
_TAG_NAME = re.compile(r"</?([A-Za-z][\w-]*)")
_INLINE = frozenset(("a", "br", "sup"))
"""Elements within a line that matter; of others, pages also write of without closing them."""
_SWALLOWING = frozenset(
    "script style textarea title xmp iframe noembed noframes plaintext select svg".split()
)
_ATTRIBUTES = re.compile(r"\s?(?<!\{)\{:?\s*[#.][\w-][^{}]*\}(?!\})|\s\{-\}\Z")
"""Names and classes as kramdown, Pandoc and MkDocs append them: {#install}, {: .note }, {-}."""
_OWN_ATTRIBUTES = re.compile(r"\A\{(?::[^{}]*|[^{}=]*=[^{}]*)\}")
"""Behind a link or a picture also others: {target=_blank}, {:height 20}."""


def _balanced(source: str) -> str:
    """A block of raw HTML that begins and ends all its elements itself."""
    body = parse_html(_PLAINTEXT.sub("", source)).body
    return f"<div>{body.inner_html}</div>\n" if body else ""


_PLAINTEXT = re.compile(r"</?plaintext\b", re.IGNORECASE)  # which nothing ends
