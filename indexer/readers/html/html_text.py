"""The source of an HTML page, and its text without the parts that repeat on every page.

Dropped: navigation and controls (see `parts.toml`), pictures and their alternative texts, and the marks
after headings. Nothing recurses, so depth costs no stack.

Source: the HTML standard, section 13.2.3 (https://html.spec.whatwg.org/#determining-the-character-encoding).
"""

import codecs
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import webencodings
from selectolax.lexbor import LexborHTMLParser, LexborNode

from linkseek.indexer.readers.folder.page_layout import HEADINGS, Layout
from linkseek.indexer.readers.reader import damaged

_DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_name("parts.toml").read_text("utf-8"))
MAIN: list[str] = _DATA["main"]
"""The main part of a page: the first of these selectors that matches one element."""


def navigation_pattern(name: str) -> str:
    """A pattern of `parts.toml` with the words that it is made of."""
    words = _DATA["navigation"]
    return str(re.sub("[A-Z]{3,}", lambda word: f"(?:{words[word[0].lower()]})", words[name]))


_CHARSET = re.compile(
    rb"""<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*["']?\s*([\w.:-]+)""", re.I
)
# Labels mean what browsers read (https://encoding.spec.whatwg.org/#names-and-labels). A page whose
# declaration can be read is not in UTF-16; GBK is the older part of GB 18030; the last two have no codec.
_INSTEAD = {
    "gbk": "gb18030",
    "utf-16le": "utf-8",
    "utf-16be": "utf-8",
    "replacement": "",
    "x-user-defined": "",
}


def _decode(content: bytes) -> str:
    """A page as text: by its byte order mark, by what it declares, as UTF-8, or as windows-1252.

    Never fails: bytes that the encoding does not have become U+FFFD.
    """
    match = _CHARSET.search(content[:4096])
    declared = webencodings.lookup(match[1].decode("ascii", "replace")) if match else None
    label = _INSTEAD.get(declared.name, declared.name) if declared else ""
    if not label:
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            label = "windows-1252"
    return str(webencodings.decode(content, label)[0])


_PANEL = re.compile(r"<!--\s*(End of |)Navigation Panel\s*-->")  # of LaTeX2HTML
_VOID = "area base br col embed hr img input link meta param source track wbr".split()
_EMPTY = re.compile(rf"<(?!(?:{'|'.join(_VOID)})\b)([a-z][\w:.-]*)((?:\s[^<>]*)?)/>", re.I)
"""Elements of XHTML with an end of their own, as the parser of HTML does not read them: <script/>, <a/>."""


def source_of(name: str, content: bytes) -> str:
    """A page as HTML."""
    source = _decode(content)
    if name.lower().endswith(".xhtml") or source.lstrip().startswith("<?xml"):
        source = _EMPTY.sub(r"<\1\2></\1>", source)
    ends = _PANEL.findall(source)
    if ends.count("End of ") == ends.count(""):
        source = _PANEL.sub(lambda mark: "</nav>" if mark[1] else "<nav>", source)
    return source


_CONTROL = re.compile(rb"\{%.*?%\}|\{\{[^{}]*\}\}|<%.*?%>|<\?(?:php\b|=).*?(?:\?>|\Z)", re.DOTALL)
_CODE = re.compile(rb"<(script|style|pre|code|textarea)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)
_NAME = re.compile(rb"<(title|h1)\b[^<>]*>(.*?)</\1", re.DOTALL | re.IGNORECASE)
_ANY_TAG = re.compile(rb"<[^<>]*>")
_BYTES_PER_CONTROL = 60  # of text; what pages write about templates has far more, templates have less


def is_template(content: bytes) -> bool:
    """Whether a generator makes pages from this file, rather than that it is one.

    It has control tags ({{...}}, {%...%}, <%...%>, <?php) outside code, and either begins with one, or has
    little text and a title or first heading that is missing or holds one. In doubt it is a page.
    """
    if not _CONTROL.search(content):
        return False
    shown = _CODE.sub(b"", content.removeprefix(codecs.BOM_UTF8)).lstrip()
    if _CONTROL.match(shown):
        return True
    name = _NAME.search(shown)
    text, controls = _CONTROL.subn(b"", shown)
    named = name is not None and not _CONTROL.search(name[2]) and _ANY_TAG.sub(b"", name[2]).strip()
    return bool(controls and not named) and len(_ANY_TAG.sub(b"", text)) < _BYTES_PER_CONTROL * controls


_MAX_DEPTH = 1000  # browsers stop at 512
_MAX_STEPS = 50_000_000  # through open elements, a few nanoseconds each
_MAX_ATTRIBUTES = 1000  # the parser compares each with all
_BLOCKS, _ENDED = (frozenset(_DATA["parser"][kind].split()) for kind in ("blocks", "ended"))
_FORMATTING = re.compile(rf"(</?(?:{'|'.join(_DATA['parser']['formatting'].split())}))(?=[\s/>])", re.I)
_ATTRIBUTE = r"""(?:[\s/]*+=?+[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+)?+)?+)"""
# The next tag that may stay open, or has too many attributes; before it text, comments, and all other tags.
_TAG = re.compile(
    rf"""(?:[^<]++|<(?:!--.*?(?:-->|\Z)|(?!/?[a-z])
    |/?+(?:{"|".join(_ENDED)})(?=[\s/>]){_ATTRIBUTE}{{0,{_MAX_ATTRIBUTES}}}+(?!{_ATTRIBUTE})))*+
    (?:<(/?)([a-z][^\s/>]*+)({_ATTRIBUTE}*+)|\Z)""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_ATTRIBUTES = re.compile(_ATTRIBUTE)


def parse_html(source: str) -> LexborHTMLParser:
    """The tree of a page. Raises `InputError` for one that would take the parser far more than its size.

    Formatting elements have other names (<b:>), as the parser would repeat all that are open (<b>, <font>) in
    each paragraph after them. It looks for a tag's element among all that are open.
    """
    opened: Counter[str] = Counter()
    depth = blocks = steps = 0
    for match in _TAG.finditer(source):
        ends, name, attributes = match.groups(default="")
        name = name.lower()
        if len(attributes) > 2 * _MAX_ATTRIBUTES and len(_ATTRIBUTES.findall(attributes)) > _MAX_ATTRIBUTES:
            raise damaged(f"a tag has more than {_MAX_ATTRIBUTES:,} attributes", "page")
        if ends and not opened[name]:
            steps += depth
        elif not (source.startswith("/", match.end()) and (opened["svg"] or opened["math"])):
            step = -1 if ends else 1
            depth += step
            opened[name] += step
            blocks += step * (name in _BLOCKS)
        if blocks > _MAX_DEPTH or steps > _MAX_STEPS:
            raise damaged(f"elements are nested more than {_MAX_DEPTH:,} deep", "page")
    return LexborHTMLParser(_FORMATTING.sub(r"\1:", source))


_INVISIBLE = ", ".join(_DATA["dropped"]["invisible"])
_IDS = ", ".join(_DATA["dropped"].pop("ids"))
_DROPPED = ", ".join(chain(*_DATA["dropped"].values()))
_MARKS = ".headerlink, .permalink, .hash-link, a.anchor"
_NO_LETTER = re.compile(r"[\W\d_]+")


def without(root: LexborNode, *, everything: bool) -> frozenset[int]:
    """The `mem_id` of each element to drop below `root`; with `everything`, only of invisible ones."""
    if everything:
        return frozenset(node.mem_id for node in root.css(_INVISIBLE))
    dropped = {node.mem_id for node in root.css(_DROPPED)}
    whole = {node.mem_id for node in root.css(_MARKS) if _is_whole(node)}
    of_layout = {node.mem_id for node in root.css(_IDS) if not is_named_by_heading(node)}
    return frozenset(dropped - whole | of_layout)


def is_named_by_heading(node: LexborNode) -> bool:
    """Whether an element is a heading, or a section, whose id is made of the heading's words."""
    attributes = node.attrs
    heading = node if node.tag in HEADINGS else node.css_first("h1, h2, h3, h4, h5, h6")
    if heading is None or not (
        node.tag in (*HEADINGS, "section") or "section" in (attributes.get("class") or "").split()
    ):
        return False
    words, named = (_NO_LETTER.sub("", text or "").casefold() for text in (heading.text(), attributes["id"]))
    return words == named


def _is_whole(link: LexborNode) -> bool:
    """Whether a link is all words of a heading or term (mandoc, blogs), not a mark after them."""
    text, above = link.text().strip(), link.parent
    if above is None or above.tag not in (*HEADINGS, "dt"):
        return False
    return any(map(str.isalnum, text)) and text == above.text().strip()


_LINKS = "a[href], area[href]"
_NOTES = "note tip caution warning important danger hint alert admonition example figure sidebar".split()
_NOTE = (
    ":is(div, aside, blockquote, section):is([class*='callout' i], [role='alert'], [role='note'], "
    f"{', '.join(f'[class~={name} i]' for name in _NOTES)})"
)
_LABELS = (
    f"[class*='tab'] > label, {_NOTE} > :is(h2, h3, h4, h5, h6), "
    f"{_NOTE} :is(.title, [class*='head']) > :is(h2, h3, h4, h5, h6), "
    ".titlepage :is(h2, h3, h4, h5):is(.author, .subtitle, .editor, .corpauthor), .ltx_note_content"
)
"""Names of tabs, notes and figures, which are lines of text."""


def count_links(root: LexborNode | None) -> int:
    """The number of links below an element."""
    return len(root.css(_LINKS)) if root is not None else 0


def render(
    root: LexborNode, layout: Layout, dropped: frozenset[int], resolve: Callable[[str], str | None]
) -> None:
    """Add the text below `root`. resolve: the target of an <a href>; None: the link is dropped.

    It is called for each link that is not in a dropped element.
    """
    of_layout, labels, raised, denominators, named = (
        {node.mem_id for node in root.css(selector)} for selector in (_TABLES_OF_LAYOUT, *_SPECIAL)
    )
    opened: list[tuple[LexborNode, str]] = []
    before = ""  # the name of an element, until there is text
    node = root.first_child
    while True:
        if node is None:
            if not opened:
                return
            node, tag = opened.pop()
            if tag == "a":
                layout.close_link()
            else:
                layout.close(tag)
        elif node.is_text_node:
            text = node.text_content or ""
            if text.strip():
                before = ""
            if text.strip() or not opened or opened[-1][1] not in _FORMULAS:
                layout.add(text)
        elif node.is_element_node and (id_ := node.mem_id) not in dropped:
            tag = "li" if id_ in labels else "sup" if id_ in raised else node.tag or ""
            if id_ in denominators:
                layout.add("/")
            if id_ in named:
                before = _name(node)
            href = (node.attrs["href"] or "") if tag == "a" and "href" in node.attrs else None
            if href is None:
                anchor = _anchor(node, before) if tag in HEADINGS else ""
                layout.open(tag, in_rows=id_ not in of_layout, anchor=anchor)
            elif (target := resolve(href)) is not None:
                layout.open_link(target)
            if href is None or not _is_mark(node, href):
                opened.append((node, tag))
                node = node.first_child
                continue
        elif node.tag == "a":  # an anchor that is hidden
            before = _name(node) or before
        node = node.next


_PARTS = "table, h1, h2, h3, h4, pre, p:not(:empty) + p:not(:empty)"
_TABLES_OF_LAYOUT = f"table:not([data-rows]):is([role='presentation'], [role='none'], :has({_PARTS}))"
"""Their cells hold whole parts of a page, so rows are not lines; never of a table in Markdown (data-rows)."""
_FORMULAS = ("msup", "msubsup", "mfrac")
_SPECIAL = (_LABELS, ":is(msup, msubsup) > :last-child", "mfrac > :last-child", "[id], a[name]")
"""Names of parts, exponents and denominators of MathML (10⁶ is not 106, nor 1/2 12), what a link can name."""


def _name(node: LexborNode) -> str:
    """The name of an element for links to it."""
    return node.attrs.get("id") or node.attrs.get("name") or ""


def _anchor(heading: LexborNode, before: str) -> str:
    """The anchor of a heading: its own name, one inside it, or the last one before it (rustdoc, DocBook)."""
    return next(filter(None, map(_name, heading.css("[id], a[name]"))), before)


def _is_mark(link: LexborNode, href: str) -> bool:
    """Whether a link is only the anchor mark of a heading, or the way back from a footnote."""
    return href.startswith("#") and link.text().strip() in ("¶", "§", "#", "🔗", "↩", "↩︎", "^")


def heading_text(node: LexborNode, dropped: frozenset[int]) -> str:
    """The text of a heading, on one line."""
    layout = Layout()
    layout.open_heading()
    render(node, layout, dropped, lambda href: None)
    return layout.close_heading(1)
