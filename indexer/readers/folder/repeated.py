"""Lines that stand at the start or the end of most pages of a folder: menus, footers, notices.

Generators write them without any mark that tells them from text. They are found by comparing pages, and cut
off only where nothing else comes before or after them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from linkseek.indexer.documents import Link, Section
from linkseek.indexer.wikitext.edits import Edit, Span, edit_page

SAMPLE = 40
"""Pages that are compared."""

REPEATED = "lines that stand on most pages"
LINKS = "links in lines that stand on most pages"
_FEWEST = 10  # pages; of fewer, most may be alike by chance
_LINES = 12  # at each end


def ends_of(text: str) -> list[str]:
    """The lines at the start and the end of a page."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines if len(lines) <= 2 * _LINES else lines[:_LINES] + lines[-_LINES:]


def common_lines(pages: Sequence[Sequence[str]]) -> frozenset[str]:
    """The lines of more than half of the pages, given the ends of each."""
    if len(pages) < _FEWEST:
        return frozenset()
    counts = Counter(line for lines in pages for line in set(lines))
    return frozenset(line for line, count in counts.items() if 2 * count > len(pages))


def repeated_lines(text: str, common: frozenset[str]) -> list[Span]:
    """The common lines at the ends of a text; none of a page of them alone."""
    lines = line_spans(text)
    own = [n for n, span in enumerate(lines) if text[slice(*span)].strip() not in {*common, ""}]
    if not common or not own:
        return []
    first, last = min(own[0], 2 * _LINES), own[-1]
    return [span for n, span in enumerate(lines) if not first <= n <= last and text[slice(*span)].strip()]


def line_spans(text: str) -> list[Span]:
    """The place of each line, without its line break."""
    ends = accumulate(len(line) + 1 for line in text.split("\n"))
    return [(end - len(line) - 1, end - 1) for line, end in zip(text.split("\n"), ends, strict=True)]


def cut_lines(
    text: str, links: tuple[Link, ...], sections: tuple[Section, ...], cuts: Sequence[Span]
) -> tuple[str, tuple[Link, ...], tuple[Section, ...]]:
    """The text without these lines; one paragraph break is left of the breaks around each."""
    edits: list[Edit] = []
    for start, end in cuts:
        while start and text[start - 1] == "\n":
            start -= 1
        while end < len(text) and text[end] == "\n":
            end += 1
        if edits and start <= edits[-1][1]:
            start = edits.pop()[0]
        edits.append((start, end, "\n\n" if start and end < len(text) else ""))
    shown, kept, placed = edit_page(text, edits, links, sections)
    return (shown, kept, placed) if shown.strip() else (text, links, sections)
