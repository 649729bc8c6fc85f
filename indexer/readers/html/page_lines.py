"""Lines of a web page that are no part of its text: what leads to its neighbours, what most pages repeat.

Generators write them without any mark in the markup. Older ones (makeinfo, texi2html, LaTeX2HTML) write
"Next: Pumps, Previous: Water, Up: Tools [Contents]" as text and links: a line is one of them if nothing but
links and such labels stands in it. Menus, footers and notices are found by comparing the pages of a folder,
and cut off only where nothing else comes before or after them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
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


_WORD = (
    r"(?:next|prev(?:ious)?|up|top|back|forward|home|contents|(?:table of )?contents|toc|index|first|last)"
)
_LABELLED = re.compile(rf"\b{_WORD}(?: (?:page|chapter|section|node))?\s*:", re.IGNORECASE)
_LABEL = re.compile(rf"\bnode:[^,\n]*|{_LABELLED.pattern}|\b{_WORD}\b|\(dir\)|[\W_]+", re.IGNORECASE)
_MARK = re.compile(rf"(?:{_WORD}|return to main contents|[<>?«»‹›←→↑^\s]+)", re.IGNORECASE)
_NEIGHBOUR = re.compile(r"\b(?:next|prev(?:ious)?|up|node)\s*:", re.IGNORECASE)
_LONGEST = 500  # characters of such a line


def navigation_lines(text: str, links: Sequence[Link]) -> list[Span]:
    """The lines of navigation in a text."""
    if not _NEIGHBOUR.search(text) and not links:
        return []
    cuts: list[Span] = []
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    starts = [link.start for link in links]
    for start, end in line_spans(text):
        own = links[bisect_left(starts, start) : bisect_left(starts, end)]
        if _is_navigation(text, start, end, own, at_end=start <= first or end >= last):
            cuts.append((start, end))
    return cuts


def _is_navigation(text: str, start: int, end: int, links: Sequence[Link], *, at_end: bool) -> bool:
    """Whether a line has a label before each link, or is a row of marks such as [ < ] [ Up ] [ > ].

    One link is enough at the ends of a page (at_end).
    """
    if end - start > _LONGEST or (links and links[-1].end > end):
        return False
    outside, position = [], start
    for link in links:
        outside.append(text[position : link.start])
        position = link.end
    outside.append(text[position:end])
    if any(_LABEL.sub("", piece) for piece in outside):
        return False
    if not links:  # those that generators mark are dropped already
        labels = len(_NEIGHBOUR.findall(text, start, end))
        return labels >= 2 or (labels == 1 and at_end)
    unlabelled = [link for link, before in zip(links, outside, strict=False) if not _LABELLED.search(before)]
    marks = all(_MARK.fullmatch(text[link.start : link.end].strip()) for link in unlabelled)
    return marks and (len(links) >= 2 or at_end)
