"""Lines of a web page that are no part of its text: what leads to its neighbours, what most pages repeat.

Generators write them without any mark in the markup. Older ones (makeinfo, texi2html, LaTeX2HTML) write
"Next: Pumps, Previous: Water, Up: Tools [Contents]" as text and links: a line is one of them if nothing but
links and such labels stands in it. In any language, it is one if most pages have it, but for the texts of
links that lead to the page before or after. Menus, footers and notices are found by comparing the pages of a
folder, and cut off only where nothing else comes before or after them.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain, repeat
from typing import NamedTuple

from linkseek.indexer.documents import Link
from linkseek.indexer.readers.html.html_text import navigation_pattern
from linkseek.indexer.wikitext.edits import Edit, PageText, Span, cut

SAMPLE = 40
"""Pages that are compared."""

HIDDEN = "links in navigation, controls or hidden elements"
REPEATED = "lines that stand on most pages"
LINKS = "links in lines that stand on most pages"
_FEWEST = 10  # pages; of fewer, most lines may be alike by chance
_FEWEST_WHOLE = 6  # of which all have a line
_FEWEST_TITLES = 3
_LINES = 12  # at each end
_NEAR = "\ufdd3"
"""In the place of a link to the page before or after."""


Chosen = Callable[[Link], bool]


def ends_of(page: PageText, is_near: Chosen) -> list[str]:
    """The lines at the start and the end of a page; those with links to its neighbours also with `_NEAR`."""
    ends = [pair for pair in zip(_lines(page), _lines(page, is_near), strict=True) if pair[0]]
    ends = ends if len(ends) <= 2 * _LINES else ends[:_LINES] + ends[-_LINES:]
    return [*chain(*map(set, ends))]


def _lines(page: PageText, chosen: Chosen = lambda link: False) -> list[str]:
    """The lines of a page, with `_NEAR` for the texts of the chosen links."""
    spans = [(link.start, link.end) for link in page.links if chosen(link)]
    spans = [span for span in spans if "\n" not in page.text[slice(*span)]]
    return [line.strip() for line in cut(page.text, spans, _NEAR).split("\n")]


class Shared(NamedTuple):
    """What most pages of a folder share: lines, whole titles, and the start of titles ("Manual : ")."""

    lines: frozenset[str] = frozenset()
    titles: frozenset[str] = frozenset()
    start: str = ""


_WORD = re.compile(r"\w")
_START = re.compile(r".*?\s[-–—|:·•»›/]+\s+")


def shared_by(pages: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Shared:
    """What more than half of the pages share, given lines and titles of each."""
    starts = [[match[0]] for _, named in pages if named and (match := _START.match(named[0]))]
    size = len(pages)
    lines, titles, starting = (
        {one: n for one, n in Counter(chain(*map(set, of))).items() if 2 * n > size >= _FEWEST_TITLES}
        for of in ([lines for lines, _ in pages], [titles for _, titles in pages], starts)
    )
    alike = 2 * sum(lines.keys() >= {*of} for of, _ in pages) >= size  # without lines of their own
    sure = [one for one, n in lines.items() if not alike and (_NEAR in one or n == size >= _FEWEST_WHOLE)]
    common = lines if size >= _FEWEST else sure
    return Shared(frozenset(common), frozenset(titles), min(starting, key=len, default=""))


def own_text(page: PageText, common: frozenset[str], is_near: Chosen) -> tuple[PageText, Counter[str]]:
    """A page without navigation and lines that most pages share; how many of each it lost, by reason."""
    shown = _without(page, _navigation_lines(page, common, is_near))
    repeated = _repeated_lines(shown.text, common)
    own = _without(shown, repeated)
    links = [len(one.links) for one in (page, shown, own)]
    return own, Counter({HIDDEN: links[0] - links[1], LINKS: links[1] - links[2], REPEATED: len(repeated)})


def _repeated_lines(text: str, common: frozenset[str]) -> list[Span]:
    """The common lines at the ends of a text; none of a page of them alone."""
    lines = _line_spans(text)
    own = [n for n, span in enumerate(lines) if text[slice(*span)].strip() not in {*common, ""}]
    if not common or not own:
        return []
    first, last = min(own[0], 2 * _LINES), own[-1]
    return [span for n, span in enumerate(lines) if not first <= n <= last and text[slice(*span)].strip()]


def _line_spans(text: str) -> list[Span]:
    """The place of each line, without its line break."""
    ends = accumulate(len(line) + 1 for line in text.split("\n"))
    return [(end - len(line) - 1, end - 1) for line, end in zip(text.split("\n"), ends, strict=True)]


def _without(page: PageText, lines: Sequence[Span]) -> PageText:
    """The page without these lines; one paragraph break is left of the breaks around each."""
    edits: list[Edit] = []
    text = page.text
    for start, end in lines:
        while start and text[start - 1] == "\n":
            start -= 1
        while end < len(text) and text[end] == "\n":
            end += 1
        if edits and start <= edits[-1][1]:
            start = edits.pop()[0]
        edits.append((start, end, "\n\n" if start and end < len(text) else ""))
    shown = page.edited(edits)
    return shown if shown.text.strip() else page


_LABELLED, _LABEL, _MARK, _NEIGHBOUR = (
    re.compile(navigation_pattern(name), re.IGNORECASE) for name in ("labelled", "label", "mark", "neighbour")
)
_LONGEST = 500  # characters of such a line


def _navigation_lines(page: PageText, common: frozenset[str], is_near: Chosen) -> list[Span]:
    """The lines of navigation: those with a label before each link, and rows of marks such as [ < ] [ Up ].

    One link or label is enough at the ends of a page, and next to another such line, as is a common line.
    """
    text, links, _ = page
    if not _NEIGHBOUR.search(text) and not links:
        return []
    starts = [link.start for link in links]
    lines = [span for span in _line_spans(text) if text[slice(*span)].strip()]
    counts = [
        2 * bool(near)
        or _count_navigation(text, start, end, links[bisect_left(starts, start) : bisect_left(starts, end)])
        for (start, end), near in zip(lines, _near_lines(page, common, is_near), strict=False)
    ]
    around = [0, *counts, 0]
    return [
        span
        for n, (span, count) in enumerate(zip(lines, counts, strict=True))
        if count > 1
        or (count and n in (0, len(lines) - 1))
        or (count > 0 and max(around[n], around[n + 2]) > 0)
        or (max(around[n], around[n + 2]) > 1 and text[slice(*span)].strip() in common)
    ]


def _near_lines(page: PageText, common: frozenset[str], is_near: Chosen) -> Iterable[object]:
    """Of each line, whether most pages have it but for links to neighbours, which the first page lacks."""
    if not (marked := {line for line in common if _NEAR in line}):
        return repeat(False)
    forms = zip(_lines(page, is_near), _lines(page, lambda link: True), strict=True)
    return [near in marked or (_WORD.search(all_) and all_ in marked) for near, all_ in forms if near]


def _count_navigation(text: str, start: int, end: int, links: Sequence[Link]) -> int:
    """The links, or labels, of a line in which nothing else stands (-1: a label alone); 0 of any other."""
    if end - start > _LONGEST or (links and links[-1].end > end):
        return 0
    spans = [(link.start - start, link.end - start) for link in links]
    outside = cut(text[start:end], spans, _NEAR).split(_NEAR)
    if not all(map(_LABEL.fullmatch, outside)):
        return 0
    if not links:  # those that generators mark are dropped already
        labels = len(_NEIGHBOUR.findall(text, start, end))
        return -1 if labels == 1 else labels
    unlabelled = [link for link, before in zip(links, outside, strict=False) if not _LABELLED.search(before)]
    marks = all(_MARK.fullmatch(text[link.start : link.end].strip()) for link in unlabelled)
    return len(links) * marks
