"""Text laid out as a browser shows it, with the offsets of its links and sections.

White space within a paragraph is one space, a line break a line break, and a blank line separates
paragraphs. Headings are sections and not part of the text, as in every corpus with links. The renderers of
HTML and Markdown call these methods in reading order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from indexer.base.text import ZERO_WIDTH
from indexer.documents import Link, Section

_INVISIBLE: dict[int, str | None] = (
    dict.fromkeys((*range(9), 11, *range(14, 28), *range(127, 133), *range(134, 160)))
    | {ord(c): None for c in ZERO_WIDTH}
    | {ord(c): " " for c in "\xa0\u202f"}
)


@dataclass
class Layout:
    """Builds a text. Breaks at its end leave no trace."""

    links: list[Link] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0
    _between: str = ""
    _heading: list[str] | None = None
    _target: str | None = None
    _anchor: tuple[int, int] | None = None
    _waiting: list[tuple[str, int]] = field(default_factory=list)

    def words(self, text: str) -> None:
        """Inline text; its white space collapses."""
        text = text.translate(_INVISIBLE)
        shown = " ".join(text.split())
        if not shown:
            if text:
                self.space()
            return
        if text[0].isspace():
            self.space()
        self._add(shown)
        if text[-1].isspace():
            self.space()

    def verbatim(self, text: str) -> None:
        """Text whose spaces and lines are kept."""
        if self._heading is not None:
            self.words(text)
            return
        text = text.translate(_INVISIBLE).replace("\r\n", "\n").replace("\r", "\n")
        shown = text.strip()
        lead = len(text) - len(text.lstrip()) if shown else len(text)
        self._between += text[:lead]
        if shown:
            self._add(shown)
            self._between = text[lead + len(shown) :]

    def space(self) -> None:
        """Add a space, unless there is a break already."""
        if self._heading is not None:
            self._heading.append(" ")
        elif not self._between:
            self._between = " "

    def new_line(self) -> None:
        """A line break in the page; two of them end a paragraph."""
        self._break(self._between.count("\n") + 1)

    def line(self) -> None:
        """Begin a line."""
        self._break(1)

    def paragraph(self) -> None:
        """Begin a paragraph."""
        self._break(2)

    def open_link(self, target: str) -> None:
        """Begin the anchor of a link."""
        self.close_link()
        if self._heading is None:
            self._target = target

    def close_link(self) -> None:
        """End the anchor; a link without text is dropped."""
        if self._target is not None and self._anchor is not None:
            self.links.append(Link(*self._anchor, self._target))
        self._target = self._anchor = None

    def open_heading(self) -> None:
        """Begin a heading."""
        self.close_link()
        self._heading = []

    def close_heading(self, level: int) -> str:
        """End the heading and begin a section, unless it is empty. Returns the heading."""
        heading = " ".join("".join(self._heading or ()).split())
        self._heading = None
        self.paragraph()
        if heading:
            self._waiting.append((heading, level))
        return heading

    def drop_heading(self) -> None:
        """Make the last closed heading begin no section: it is the title."""
        self._waiting.pop()

    def text(self) -> str:
        """The text so far; ends an open link."""
        self.close_link()
        self._begin_sections(self._length)
        return "".join(self._pieces)

    def _add(self, shown: str) -> None:
        if self._heading is not None:
            self._heading.append(shown)
            return
        if self._length:
            self._append(_narrowed(self._between))
        self._between = ""
        self._begin_sections(self._length)
        start = self._length
        self._append(shown)
        if self._target is not None:
            self._anchor = (self._anchor[0] if self._anchor else start, self._length)

    def _append(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def _break(self, lines: int) -> None:
        if self._heading is not None:
            self._heading.append(" ")
        else:
            self._between = "\n" * min(2, max(lines, self._between.count("\n")))

    def _begin_sections(self, start: int) -> None:
        for heading, level in self._waiting:
            self.sections.append(Section(start, heading, level))
        self._waiting.clear()


def _narrowed(white: str) -> str:
    """White space with at most one blank line, without spaces at the ends of lines."""
    breaks = white.count("\n")
    return white if not breaks else "\n" * min(2, breaks) + white.rpartition("\n")[2]
