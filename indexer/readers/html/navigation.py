"""Lines of a web page that only lead to its neighbours: "Next: Pumps, Previous: Water, Up: Tools [Contents]".

Older generators (makeinfo, texi2html, LaTeX2HTML) write them as text and links, without a mark in the markup.
A line is one of them if nothing but links and such labels stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from linkseek.indexer.documents import Link, Section
from linkseek.indexer.wikitext.edits import Edit, apply_edits

_WORD = (
    r"(?:next|prev(?:ious)?|up|top|back|forward|home|contents|(?:table of )?contents|toc|index|first|last)"
)
_LABELLED = re.compile(rf"\b{_WORD}(?: (?:page|chapter|section|node))?\s*:", re.IGNORECASE)
_LABEL = re.compile(rf"\bnode:[^,\n]*|{_LABELLED.pattern}|\b{_WORD}\b|\(dir\)|[\W_]+", re.IGNORECASE)
_MARK = re.compile(rf"(?:{_WORD}|return to main contents|[<>?«»‹›←→↑^\s]+)", re.IGNORECASE)
_NEIGHBOUR = re.compile(r"\b(?:next|prev(?:ious)?|up|node)\s*:", re.IGNORECASE)
_LONGEST = 500  # characters of such a line


def without_navigation(
    text: str, links: tuple[Link, ...], sections: tuple[Section, ...]
) -> tuple[str, tuple[Link, ...], tuple[Section, ...], int]:
    """(text, links, sections, links dropped): without lines of navigation; a page of them alone stays."""
    if not _NEIGHBOUR.search(text) and not links:
        return text, links, sections, 0
    cuts: list[tuple[int, int]] = []
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    start = at = 0
    for line in text.split("\n"):
        end = start + len(line)
        own: list[Link] = []
        while at < len(links) and links[at].start < end:
            own.append(links[at])
            at += 1
        if _is_navigation(text, start, end, own, at_end=start <= first or end >= last):
            cuts.append((start, end))
        start = end + 1
    return _cut(text, links, sections, cuts) if cuts else (text, links, sections, 0)


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


def _cut(
    text: str, links: tuple[Link, ...], sections: tuple[Section, ...], cuts: Sequence[tuple[int, int]]
) -> tuple[str, tuple[Link, ...], tuple[Section, ...], int]:
    edits: list[Edit] = []
    for start, end in cuts:  # with the breaks around it, up to one blank line
        while start and text[start - 1] == "\n":
            start -= 1
        while end < len(text) and text[end] == "\n":
            end += 1
        start = max(start, edits[-1][1]) if edits else start
        edits.append((start, end, "\n\n" if start and end < len(text) else ""))
    spans = [(link.start, link.end) for link in links] + [(one.start, one.start) for one in sections]
    shown, moved = apply_edits(text, edits, spans)
    if not shown.strip():
        return text, links, sections, 0
    placed = [replace(link, start=a, end=b) for link, (a, b) in zip(links, moved, strict=False) if a < b]
    headed = [
        replace(one, start=min(a, len(shown)))
        for one, (a, _) in zip(sections, moved[len(links) :], strict=True)
    ]
    return shown, tuple(placed), tuple(headed), len(links) - len(placed)
