"""Edits of a text, and how its spans move.

All cleaning after the parser is done with `PageText.edited`, so that the spans of links and the starts of
sections stay exact. Before the parser there are no spans: `cut` is enough.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple, Self

from linkseek.indexer.documents import Link, Section

Edit = tuple[int, int, str]
"""text[start:end] becomes the string."""

Span = tuple[int, int]
"""Characters of a text, half-open; a point where both are the same."""


def apply_edits(text: str, edits: Sequence[Edit], spans: Iterable[Span]) -> tuple[str, list[Span]]:
    """The edited text, and the new place of each half-open span of characters.

    `edits` are sorted and do not overlap. A span keeps its characters that are not replaced, and a
    replacement if it held all of the replaced characters. A point (start == end) stays a point, and
    moves after the replacement of the characters around it.
    """
    pieces: list[str] = []
    position = 0
    for start, end, replacement in edits:
        pieces += text[position:start], replacement
        position = end
    pieces.append(text[position:])
    starts = [edit[0] for edit in edits]
    ends = [edit[1] for edit in edits]
    # moved[i]: the shift of the text after the first i edits.
    moved = [0, *accumulate(len(new) - (end - start) for start, end, new in edits)]

    def opening(at: int) -> int:
        edit = bisect_left(starts, at) - 1  # the last edit that starts before
        return (max(at, ends[edit]) if edit >= 0 else at) + moved[edit + 1]

    def closing(at: int) -> int:
        edit = bisect_right(ends, at)  # the first edit that ends after it
        return (min(at, starts[edit]) if edit < len(starts) else at) + moved[edit]

    mapped = [(first := opening(start), max(first, closing(end))) for start, end in spans]
    return "".join(pieces), mapped


def cut(source: str, cuts: Iterable[Span], instead: str) -> str:
    """The source with `instead` for each span. In any order; of spans that overlap one counts."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted(cuts, key=lambda span: (span[0], -span[1])):
        if start >= position:
            pieces += source[position:start], instead
        position = max(position, end)
    pieces.append(source[position:])
    return "".join(pieces)


class PageText(NamedTuple):
    """The text of a page with the places of its links and sections."""

    text: str
    links: tuple[Link, ...] = ()
    sections: tuple[Section, ...] = ()

    def edited(self, edits: Sequence[Edit]) -> Self:
        """The page after these edits; links of which no character is left are dropped."""
        if not edits:
            return self
        points = [(section.start, section.start) for section in self.sections]
        spans = [(link.start, link.end) for link in self.links] + points
        text, moved = apply_edits(self.text, edits, spans)
        placed = zip(self.links, moved, strict=False)
        headed = zip(self.sections, moved[len(self.links) :], strict=True)
        return self._replace(
            text=text,
            links=tuple(Link(start, end, link.target) for link, (start, end) in placed if start < end),
            sections=tuple(replace(one, start=min(start, len(text))) for one, (start, _) in headed),
        )
