"""Text laid out as a browser shows it, with the offsets of its links and sections.

White space within a paragraph is one space, a line break a line break, and a blank line separates
paragraphs. Headings are sections and not part of the text, as in every corpus with links, unless they hold
links. `html_text.render` calls these methods in reading order.

Source: the HTML standard, section 15.3 (https://html.spec.whatwg.org/#flow-content-3).
"""

import re
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from unicodedata import normalize

from linkseek.indexer.documents import Link, Section
from linkseek.indexer.program.text import ZERO_WIDTH
from linkseek.indexer.wikitext.characters import raised

_INVISIBLE: dict[int, str | None] = (
    dict.fromkeys((*range(9), 11, *range(14, 28), *range(127, 133), *range(134, 160)))
    | {ord(c): None for c in ZERO_WIDTH}
    | {ord(c): " " for c in "\xa0\u202f"}
    | {ord(c): normalize("NFKC", c) for c in "ﬀﬁﬂﬃﬄﬅﬆ"}  # as TeX prints them
)
_WIDE = "[\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f\U00020000-\U0003ffff]"
"""Chinese and Japanese, whose lines continue each other; not Korean, which has blanks."""
_WITHIN_WORDS = re.compile(rf"(?<={_WIDE})[ \t\r]*\n\s*(?={_WIDE})")


def joined_lines(text: str) -> str:
    """The text without line breaks between Chinese or Japanese characters, where no blank is meant (CSS
    Text 3, section 4.1.3)."""
    return text if text.isascii() or "\n" not in text else _WITHIN_WORDS.sub("", text)


_PARAGRAPHS = frozenset(
    """p div section article main blockquote pre listing xmp dl table figure hr address details fieldset
    header footer aside nav form center dt body hgroup search""".split()
)
_LINES = frozenset("li dd tr figcaption caption summary legend".split())
_LISTS = frozenset("ul ol menu dir".split())
_VERBATIM = frozenset("pre listing xmp".split())
HEADINGS = {f"h{level}": level for level in range(1, 7)}
_POWER = re.compile(r"\s*[-+−–]?\d*[-+−]?\s*")
_KNOWN = _PARAGRAPHS | _LINES | _LISTS | _VERBATIM | HEADINGS.keys() | {"br", "td", "th", "sup"}


@dataclass
class Layout:
    """Builds a text from elements by HTML's names: which begin a paragraph, which a line, which nothing.

    Breaks at the end of the text leave no trace.
    """

    links: list[Link] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    without_text: int = 0
    """How many links had no text and were dropped."""
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0
    _between: str = ""
    _heading: list[tuple[str, str | None]] | None = None  # pieces, each with the target of its link
    _target: str | None = None
    _anchor: tuple[int, int] | None = None
    _has_text: bool = False  # the open link, also in a heading
    _waiting: list[tuple[str, int, str]] = field(default_factory=list)
    _name: str = ""  # of the open heading
    _verbatim: int = 0
    _raised: int = 0
    _lists: int = 0
    _tables: list[bool] = field(default_factory=list)  # whether a row of each open table is a line
    _cells: int = 0  # open cells of such tables

    def add(self, text: str) -> None:
        """Text as the page has it."""
        if self._raised and _POWER.fullmatch(text):
            text = raised(text)
        verbatim = self._verbatim and not self._cells and self._heading is None
        (self.verbatim if verbatim else self.words)(text)

    def words(self, text: str) -> None:
        """Inline text; its white space collapses."""
        text = joined_lines(text.translate(_INVISIBLE))
        shown = " ".join(text.split())
        if text and (text[0].isspace() or not shown):
            self._space()
        if shown:
            self._add(shown)
            if text[-1].isspace():
                self._space()

    def verbatim(self, text: str) -> None:
        """Text whose spaces and lines are kept."""
        text = text.translate(_INVISIBLE).replace("\r\n", "\n").replace("\r", "\n")
        shown = text.strip()
        lead = len(text) - len(text.lstrip()) if shown else len(text)
        self._between += text[:lead]
        if shown:
            self._add(shown)
            self._between = text[lead + len(shown) :]

    def open(self, tag: str, *, in_rows: bool = True, anchor: str = "") -> None:
        """An element begins. in_rows: whether a row of this table is a line. anchor: of a heading."""
        if tag not in _KNOWN:
            return
        if tag == "br":  # two of them end a paragraph
            self._break(0 if self._cells else self._between.count("\n") + 1)
        elif tag in HEADINGS:
            self.open_heading(anchor)
        elif tag in ("td", "th"):
            self._break(0 if self._is_in_rows() else 2)
            self._cells += self._is_in_rows()
        else:
            self._boundary(tag, 1)
            if tag == "table":
                self._tables.append(in_rows)

    def close(self, tag: str) -> None:
        """The element that was opened last ends."""
        if tag not in _KNOWN or tag == "br":
            return
        if tag in HEADINGS:
            self.close_heading(HEADINGS[tag])
        elif tag in ("td", "th"):
            self._cells -= self._is_in_rows()
            self._break(0 if self._is_in_rows() else 2)
        else:
            if tag == "table":
                self._tables.pop()
            self._boundary(tag, -1)

    def open_link(self, target: str) -> None:
        """Begin the anchor of a link."""
        self.close_link()
        self._target, self._has_text = target, False

    def close_link(self) -> None:
        """End the anchor; a link without text is dropped."""
        if self._target is not None:
            if self._anchor is not None:
                self.links.append(Link(*self._anchor, self._target))
            elif not self._has_text:
                self.without_text += 1
        self._target = self._anchor = None

    def open_heading(self, name: str = "") -> None:
        """Begin a heading; a link around it goes on. name: the anchor of its section."""
        if self._anchor is not None:
            self.close_link()
        self._heading, self._name = [], name

    def close_heading(self, level: int) -> str:
        """End the heading and begin a section, unless it is empty. Returns the heading.

        A heading that holds a link is also the first paragraph of its section.
        """
        pieces, self._heading = self._heading or [], None
        self.close_link()
        heading = " ".join("".join(piece for piece, _ in pieces).split())
        self._break(2)
        if heading:
            self._waiting.append((heading, level, self._name))
        if heading and any(target for _, target in pieces):
            for target, group in groupby(pieces, itemgetter(1)):
                self._target, self._has_text = target, True  # one without text is counted already
                self.words("".join(piece for piece, _ in group))
                self.close_link()
            self._break(2)
        return heading

    def text(self) -> str:
        """The text so far; ends an open link."""
        self.close_link()
        self._begin_sections(self._length)
        return "".join(self._pieces)

    def sections_below(self, *titles: str) -> tuple[Section, ...]:
        """The sections without the first whose heading is one of the document's titles, for each."""
        below = {section.heading: section for section in reversed(self.sections) if section.heading in titles}
        return tuple(section for section in self.sections if section is not below.get(section.heading))

    def _add(self, shown: str) -> None:
        self._has_text = True
        if self._heading is not None:
            self._heading.append((shown, self._target))
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

    def _space(self) -> None:
        if self._heading is not None:
            self._heading.append((" ", self._target))
        elif not self._between:
            self._between = " "

    def _break(self, lines: int) -> None:
        """Begin a line, or with 2 a paragraph; a space with 0, or in a heading."""
        if not lines or self._heading is not None:
            self._space()
        else:
            self._between = "\n" * min(2, max(lines, self._between.count("\n")))

    def _boundary(self, tag: str, step: int) -> None:
        """The break at the start (1) or the end (-1) of an element."""
        inside = self._lists if step > 0 else self._lists - (tag in _LISTS)
        self._lists += step * (tag in _LISTS)
        self._verbatim += step * (tag in _VERBATIM)
        self._raised += step * (tag == "sup")
        if tag != "sup":
            self._break(0 if self._cells else 1 if tag in _LINES or inside else 2)

    def _is_in_rows(self) -> bool:
        return bool(self._tables and self._tables[-1])

    def _begin_sections(self, start: int) -> None:
        self.sections += [Section(start, *waiting) for waiting in self._waiting]
        self._waiting.clear()


def _narrowed(white: str) -> str:
    """White space with at most one blank line, without spaces at the ends of lines."""
    breaks = white.count("\n")
    return white if not breaks else "\n" * min(2, breaks) + white.rpartition("\n")[2]
