"""The drawing of the links around a passage: who links to whom.

Four columns: dual links, the passage's article, the articles that co-mentions share, and those that share
them. A node is a link to its article; pointing at one, or reaching it by keyboard, highlights its lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linkseek.app.context.evidence import CoMentionEvidence, LinkEvidence
from linkseek.app.context.titles import ArticleName
from linkseek.app.rendering.html_templates import render

_MAX_ROWS = 6  # of a column
_WIDTH, _HEIGHT = 200, 30  # of a node
_STEP = 44  # from one node to the next below it
_TOP, _BOTTOM = 30, 6  # room for the names of columns, and below the last node
_COLUMNS = (0, 260, 520, 780)
_NAMES = ("links both ways", "this article", "both link to", "its co-mention")
_DUAL, _OWN, _SHARED, _OTHER = range(4)


@dataclass(frozen=True, slots=True)
class Node:
    """An article at its place; x, y: of the upper left corner. named: in the question."""

    number: int
    column: int
    x: float
    y: float
    article: ArticleName
    named: bool

    @property
    def own(self) -> bool:
        """Whether it is the article of the passage."""
        return self.column == _OWN

    def side(self, other: Node) -> tuple[float, float]:
        """The middle of the side that faces another node."""
        return self.x + (_WIDTH if self.column < other.column else 0), self.y + _HEIGHT / 2


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A line between two nodes, and its arrows, as paths. ends: the classes of its nodes' lines."""

    kind: str
    ends: str
    line: str
    arrows: str


def link_graph(links: LinkEvidence, index: str) -> str:
    """The drawing as SVG; empty if there is nothing to draw."""
    dual = [link.article for link in links.dual_links[:_MAX_ROWS]]
    mentions = _drawn_mentions(links.co_mentions, {article.row for article in dual})
    if not dual and not mentions:
        return ""
    shared = list(dict.fromkeys(mention.shared for mention in mentions))
    others = list(dict.fromkeys(mention.article for mention in mentions))
    columns = (dual, [links.article], shared, others)
    rows = max(map(len, columns))
    named = {entity.article.row for entity in links.entities}
    nodes: dict[tuple[int, int], Node] = {}  # by column and document: an article can stand in two columns
    for column, articles in enumerate(columns):
        top = _TOP + (rows - len(articles)) * _STEP / 2 + (_STEP - _HEIGHT) / 2
        for row, article in enumerate(articles):
            nodes[column, article.row] = Node(
                len(nodes), column, _COLUMNS[column], top + row * _STEP, article, article.row in named
            )
    own, bottom = nodes[_OWN, links.article.row], rows * _STEP + _TOP - 2
    edges = [_edge("dual", nodes[_DUAL, article.row], own, both=True) for article in dual]
    edges += [_edge("mention", own, nodes[_SHARED, article.row]) for article in shared]
    for mention in mentions:
        edges.append(_edge("mention", nodes[_OTHER, mention.article.row], nodes[_SHARED, mention.shared.row]))
    for article in others:
        asks = next(mention.asks for mention in mentions if mention.article == article)
        edges.append(_arc(nodes[_OTHER, article.row], own, bottom, towards_own=asks))
    left = _COLUMNS[_DUAL if dual else _OWN]
    right = _COLUMNS[_OTHER if others else _OWN] + _WIDTH
    return render(
        "graph.html",
        index=index,
        heads=[(_COLUMNS[n] + _WIDTH / 2, _NAMES[n]) for n, articles in enumerate(columns) if articles],
        nodes=nodes.values(),
        edges=edges,
        left=left - 2,
        width=right - left + 4,
        height=bottom + 2 + _BOTTOM,
        node_width=_WIDTH,
        node_height=_HEIGHT,
    )


def _drawn_mentions(mentions: Sequence[CoMentionEvidence], dual: set[int]) -> list[CoMentionEvidence]:
    """The co-mentions that fit in the columns; articles that are not dual links come first."""
    drawn: list[CoMentionEvidence] = []
    for mention in sorted(mentions, key=lambda mention: mention.article.row in dual):
        shared = {one.shared for one in drawn} | {mention.shared}
        others = {one.article for one in drawn} | {mention.article}
        if len(shared) <= _MAX_ROWS and len(others) <= _MAX_ROWS:
            drawn.append(mention)
    return drawn


def _edge(kind: str, start: Node, end: Node, both: bool = False) -> DrawnEdge:
    """A line between the facing sides of two nodes, with an arrow at its end, or at both."""
    (x1, y1), (x2, y2) = start.side(end), end.side(start)
    middle = (x1 + x2) / 2
    direction = 1 if x1 < x2 else -1
    arrows = _arrow(x2, y2, direction) + (_arrow(x1, y1, -direction) if both else "")
    line = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
    return DrawnEdge(kind, f"e{start.number} e{end.number}", line, arrows)


def _arc(other: Node, own: Node, bottom: float, *, towards_own: bool) -> DrawnEdge:
    """The link between the two articles of a co-mention, below the articles that they share."""
    x1, y1 = other.x, other.y + _HEIGHT - 6
    x2, y2 = own.x + _WIDTH, own.y + _HEIGHT - 6
    line = f"M{x1} {y1}C{x1 - 40} {bottom} {x2 + 40} {bottom} {x2} {y2}"
    arrow = _arrow(x2, y2, -1) if towards_own else _arrow(x1, y1, 1)
    return DrawnEdge("link", f"e{other.number} e{own.number}", line, arrow)


def _arrow(x: float, y: float, direction: int) -> str:
    """The head of an arrow that points to the right (1) or to the left (-1)."""
    return f"M{x - 7 * direction} {y - 4}L{x} {y}L{x - 7 * direction} {y + 4}"
