"""Lines of a web page that only lead to its neighbours: "Next: Pumps, Previous: Water, Up: Tools [Contents]".

Older generators (makeinfo, texi2html, LaTeX2HTML) write them as text and links, without a mark in the markup.
A line is one of them if nothing but links and such labels stands in it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from linkseek.indexer.documents import Link
from linkseek.indexer.readers.folder.repeated import line_spans
from linkseek.indexer.wikitext.edits import Span

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
