"""How the elements of a page affect its layout: which begin a paragraph, which a line, which nothing.

Renderers call it for each element in reading order, by HTML's names.

Source: the HTML standard, section 15.3 (https://html.spec.whatwg.org/#flow-content-3).
"""

from __future__ import annotations

from indexer.readers.layout import Layout
from indexer.wikitext.characters import raised

_PARAGRAPHS = frozenset(
    """p div section article main blockquote pre listing xmp dl table figure hr address details fieldset
    header footer aside nav form center dt body hgroup search""".split()
)
_LINES = frozenset("li dd tr figcaption caption summary legend".split())
_LISTS = frozenset("ul ol menu dir".split())
_VERBATIM = frozenset("pre listing xmp".split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_KNOWN = _PARAGRAPHS | _LINES | _LISTS | _VERBATIM | _HEADINGS.keys() | {"br", "td", "th", "sup"}


class Blocks:
    """The elements that are open at a point of the walk."""

    def __init__(self, layout: Layout, title: str = "") -> None:
        """title: the first heading with this text is the document's title and begins no section."""
        self.layout = layout
        self._title = title
        self._verbatim = 0
        self._raised = 0
        self._lists = 0
        self._tables: list[bool] = []  # whether a row of each open table is a line
        self._cells = 0  # open cells of such tables

    def text(self, text: str) -> None:
        """Text as the page has it."""
        if self._raised and text.strip().isdecimal():
            text = raised(text)
        if self._verbatim and not self._cells:
            self.layout.verbatim(text)
        else:
            self.layout.words(text)

    def open(self, tag: str, *, in_rows: bool = True) -> None:
        """An element begins. in_rows: whether a row of this table is a line."""
        if tag not in _KNOWN:
            return
        if tag == "br":
            if self._cells:
                self.layout.space()
            else:
                self.layout.new_line()
        elif tag in _HEADINGS:
            self.layout.open_heading()
        elif tag in ("td", "th"):
            self._between_cells()
            self._cells += self._is_in_rows()
        else:
            self._boundary(tag)
            self._count(tag, 1)
            if tag == "table":
                self._tables.append(in_rows)

    def close(self, tag: str) -> None:
        """The element that was opened last ends."""
        if tag not in _KNOWN or tag == "br":
            return
        if tag in _HEADINGS:
            self._close_heading(_HEADINGS[tag])
        elif tag in ("td", "th"):
            self._cells -= self._is_in_rows()
            self._between_cells()
        else:
            self._count(tag, -1)
            if tag == "table":
                self._tables.pop()
            self._boundary(tag)

    def _count(self, tag: str, step: int) -> None:
        self._lists += step * (tag in _LISTS)
        self._verbatim += step * (tag in _VERBATIM)
        self._raised += step * (tag == "sup")

    def _is_in_rows(self) -> bool:
        return bool(self._tables and self._tables[-1])

    def _between_cells(self) -> None:
        if self._is_in_rows():
            self.layout.space()
        else:
            self.layout.paragraph()

    def _boundary(self, tag: str) -> None:
        """The break at the start or the end of an element."""
        if tag not in _PARAGRAPHS and tag not in _LINES and tag not in _LISTS:
            return
        if self._cells:
            self.layout.space()
        elif tag in _LINES or self._lists:
            self.layout.line()
        else:
            self.layout.paragraph()

    def _close_heading(self, level: int) -> None:
        heading = self.layout.close_heading(level)
        if heading and heading == self._title:
            self.layout.drop_heading()
            self._title = ""
