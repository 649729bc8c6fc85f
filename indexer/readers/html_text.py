"""The text of an HTML tree, without what surrounds it on every page.

Dropped: navigation and controls (see `_DROPPED`), pictures and their alternative texts, and the marks
after headings. Nothing recurses, so depth costs no stack.
"""

from __future__ import annotations

from collections.abc import Callable

from selectolax.lexbor import LexborNode

from indexer.readers.blocks import Blocks
from indexer.readers.layout import Layout

_INVISIBLE = (
    "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas", "audio",
    "video", "map", "dialog", "datalist", "annotation", "annotation-xml", "[hidden]",
    "[style*='display:none']", "[style*='display: none']",
)  # fmt: skip
_DROPPED = (
    *_INVISIBLE, "nav", "header", "footer", "form", "button", "select", "input", "textarea",
    "aside:not(.footnote, .footnote-list, .topic, .admonition)",  # which docutils writes into the text
    "[aria-hidden='true']", "[role='navigation']", "[role='banner']", "[role='contentinfo']",
    "[role='search']", "[role='complementary']", "[role='doc-toc']", "[role='menu']", "[role='dialog']",
    ".headerlink", ".permalink", ".hash-link", ".viewcode-link", ".viewcode-back", ".mw-editsection",
    ".mw-jump-link", ".noprint", ".navbox", ".catlinks",
    ".printfooter", ".sidebar", ".sphinxsidebar", ".related", ".breadcrumb", ".breadcrumbs", ".toc",
    ".contents.topic", ".contents.local", ".table-of-contents", ".pagination", ".prev-next-area",
    ".sr-only", ".visually-hidden", ".skip-link", ".linenos", ".lineno", ".linenodiv", ".menu", ".nav",
    ".navbar", "#toc", "#header", "#footer", "#sidebar", "#nav", "#navigation", "#menu",
)  # fmt: skip


def without(root: LexborNode, *, everything: bool) -> frozenset[int]:
    """The `mem_id` of each element to drop below `root`; with `everything`, only of invisible ones."""
    selectors = _INVISIBLE if everything else _DROPPED
    return frozenset(node.mem_id for node in root.css(", ".join(selectors)))


def render(
    root: LexborNode, blocks: Blocks, dropped: frozenset[int], resolve: Callable[[str], str | None]
) -> None:
    """Add the text below `root`. resolve: the target of an <a href>; None: the link is dropped."""
    of_layout = _tables_of_layout(root)
    opened: list[tuple[LexborNode, str]] = []
    node = root.first_child
    while True:
        if node is None:
            if not opened:
                return
            node, tag = opened.pop()
            if tag == "a":
                blocks.layout.close_link()
            else:
                blocks.close(tag)
        elif node.is_text_node:
            blocks.text(node.text_content or "")
        elif node.is_element_node and node.mem_id not in dropped:
            tag = node.tag or ""
            href = node.attrs.get("href") if tag == "a" else None
            if not href:
                blocks.open(tag, in_rows=node.mem_id not in of_layout)
            elif (target := resolve(href)) is not None:
                blocks.layout.open_link(target)
            if not href or not _is_mark(node, href):
                opened.append((node, tag))
                node = node.first_child
                continue
        node = node.next


def _is_mark(link: LexborNode, href: str) -> bool:
    """Whether a link is only the anchor mark of a heading, or the way back from a footnote."""
    return href.startswith("#") and link.text().strip() in ("¶", "§", "#", "🔗", "↩", "↩︎", "^")


def heading_text(node: LexborNode, dropped: frozenset[int]) -> str:
    """The text of a heading, on one line."""
    layout = Layout()
    layout.open_heading()
    render(node, Blocks(layout), dropped, lambda href: None)
    return layout.close_heading(1)


def _tables_of_layout(root: LexborNode) -> set[int]:
    """Tables used for layout: their cells hold whole parts of a page, so rows are not lines."""
    tables = {table.mem_id for table in root.css("table[role='presentation'], table[role='none']")}
    nearest: dict[int, int] = {}  # node -> the table that it is or is in; 0: none
    if root.css_first("table") is None:
        return tables
    for node in root.css("table, h1, h2, h3, h4, pre, p + p"):
        above, path = node.parent, []
        while above is not None and above.mem_id not in nearest:
            path.append(above.mem_id)
            if above.tag == "table":
                nearest[above.mem_id] = above.mem_id
                break
            above = above.parent
        table = 0 if above is None else nearest[above.mem_id]
        nearest.update(dict.fromkeys(path, table))
        tables.add(table)
    return tables
