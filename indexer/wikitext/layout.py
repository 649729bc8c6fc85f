"""From what a page shows to the text of its document: paragraphs, list items, no debris.

Between paragraphs stands a blank line, between list items a line break, and lines of one paragraph
are joined. Every step is edits, which carry the links and sections along. Left out on purpose:
headings, which are sections and not part of the text, and the marks of lists, which say nothing that
the lines do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from indexer.documents import Link, Section
from indexer.wikitext.characters import GAP, ITEM, KEPT, KEPT_END, MARKS
from indexer.wikitext.debris import debris
from indexer.wikitext.edits import Edit, Span, apply_edits

_WORD = re.compile(r"\w")
_STRAY = re.compile(r"[ ,;:.]+[ ](?=[\w(])")  # what a template before it left: ", born 1950"
_KEPT_MARK = re.compile(rf"{KEPT}(\d+){KEPT_END}")


def lay_out(
    text: str, links: Sequence[Link], sections: Sequence[Section], kept: Sequence[str] = ()
) -> tuple[str, tuple[Link, ...], tuple[Section, ...]]:
    """Text, links and sections, cleaned. `kept`: what `extensions` put aside."""
    spans: list[Span] = [(link.start, link.end) for link in links]
    spans += [(section.start, section.start) for section in sections]
    text, spans = apply_edits(text, _lines_to_paragraphs(text), spans)
    for _ in range(8):  # "( ( ) )": what is empty can stand in what is empty
        edits = debris(text)
        if not edits:
            break
        text, spans = apply_edits(text, edits, spans)
    if kept:
        edits = [(match.start(), match.end(), kept[int(match[1])]) for match in _KEPT_MARK.finditer(text)]
        text, spans = apply_edits(text, edits, spans)
    shown = text.rstrip()
    placed = [
        Section(min(start, len(shown)), section.heading, section.level)
        for (start, _), section in zip(spans[len(links) :], sections, strict=True)
    ]
    return shown, tuple(_trimmed(text, spans, links)), tuple(placed)


def _trimmed(text: str, spans: Sequence[Span], links: Sequence[Link]) -> list[Link]:
    """The links at their new places, without white space at the ends, nor those that show nothing."""
    trimmed = []
    for (start, end), link in zip(spans, links, strict=False):
        anchor = text[start:end]
        start += len(anchor) - len(anchor.lstrip())
        end = start + len(anchor.strip())
        if start < end:
            trimmed.append(Link(start, end, link.target))
    return trimmed


def _lines_to_paragraphs(text: str) -> list[Edit]:
    """Lines to paragraphs (a blank line between them) and list items (a line each).

    Lines that show nothing but punctuation, and the rows of tables that were never opened, go.
    """
    edits: list[Edit] = []
    position = previous_end = 0
    first, previous_item, blank, heading = True, False, False, False
    for line in text.split("\n"):
        content = line.strip(MARKS)
        start = position + (line.index(content[0]) if content else 0)
        item = ITEM in line[: start - position]
        position += len(line) + 1
        if not _WORD.search(content) or content[0] == "|":
            blank = True
            heading = heading or GAP in line
            continue
        if first:
            between = ""
        elif item and not heading and (previous_item or not blank):
            between = "\n"
        else:
            between = "\n\n" if blank or previous_item else " "
        end = start + len(content)
        if between != " " and (stray := _STRAY.match(text, start)):
            start = stray.end()
        edits.append((previous_end, start, between))
        previous_end, previous_item = end, item
        first = blank = heading = False
    edits.append((previous_end, len(text), ""))
    return edits
