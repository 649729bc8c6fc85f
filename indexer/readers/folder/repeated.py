"""Lines that stand at the start or the end of most pages of a folder: menus, footers, notices.

Generators write them without any mark that tells them from text. They are found by comparing pages, and cut
off only where nothing else comes before or after them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from linkseek.indexer.documents import Link, Section

SAMPLE = 40
"""Pages that are compared."""

REPEATED = "lines that stand on most pages"
LINKS = "links in lines that stand on most pages"
_FEWEST = 10  # pages; of fewer, most may be alike by chance
_LINES = 12  # at each end

_Trimmed = tuple[str, tuple[Link, ...], tuple[Section, ...], int]


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


def trim(
    text: str, links: tuple[Link, ...], sections: tuple[Section, ...], common: frozenset[str]
) -> _Trimmed:
    """(text, links, sections, lines cut off): without common lines at its ends; a page of them alone
    stays."""
    lines = text.split("\n")
    first, last = 0, len(lines)
    while (
        first < last and (not lines[first].strip() or lines[first].strip() in common) and first < 2 * _LINES
    ):
        first += 1
    while last > first and (not lines[last - 1].strip() or lines[last - 1].strip() in common):
        last -= 1
    if not common or first == last or (first == 0 and last == len(lines)):
        return text, links, sections, 0
    start = sum(len(line) + 1 for line in lines[:first])
    shown = "\n".join(lines[first:last])
    kept = tuple(
        Link(link.start - start, link.end - start, link.target)
        for link in links
        if start <= link.start and link.end <= start + len(shown)
    )
    moved = tuple(
        replace(section, start=min(max(section.start - start, 0), len(shown))) for section in sections
    )
    cut = sum(bool(line.strip()) for line in [*lines[:first], *lines[last:]])
    return shown, kept, moved, cut
