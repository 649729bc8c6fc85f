"""The HTML and the drawing of evidence: a passage with its links, and who links to whom around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.around.evidence import Article, CoMention, DualLink, Entity, LinkEvidence
from app.report.scales import shorten
from app.report.svg import at, element, image, path, title, words
from app.service import Answer, Reason
from app.web.state import article_address
from app.web.view import linked_text, safe_text, source_html, title_html, unseen
from app.web.view_search import moved

_MOST_SHOWN = 4_000  # characters of a passage
_MOST_LISTED = 12
_MOST_DRAWN = 6  # of each kind

_RELATIONS = {
    "own": "the passage is part of this article",
    "linked": "the passage links to it as",
    "linking": "its article links here as",
}


def passage_html(reason: Reason, index: str) -> str:
    """The passage: title, source, and its text with marks, where its anchors lead to articles."""
    hit = reason.hit
    text = hit.text[:_MOST_SHOWN]
    anchors = [
        (anchor.start, anchor.end, article_address(anchor.article.id, index))
        for anchor in reason.links.anchors
        if anchor.end <= len(text)
    ]
    cut = " …" if len(hit.text) > len(text) else ""
    name = title_html(hit.title, hit.document_id, article_address(hit.document_id, index))
    right = ""
    if hit.right is not None:
        right = _verdict(hit.right)
    return (
        f'<section class="ls-reason"><div class="ls-head ls-plain"><h3>{name}</h3>{right}'
        f"{source_html(hit.url, hit.title)}</div>"
        f'<p class="ls-text ls-linked" dir="auto">'
        f"{linked_text(text, hit.marks, hit.answers, anchors)}{cut}</p></section>"
    )


def _verdict(right: bool) -> str:
    if right:
        return '<span class="ls-verdict"><b class="ls-right">✓</b> holds an answer</span>'
    return '<span class="ls-verdict"><b class="ls-wrong">✗</b> holds no answer</span>'


def scores_html(row: int, answers: Sequence[Answer]) -> str:
    """A table: rank and score of the passage in every pipeline, before and after re-ranking."""
    two_stages = any(answer.first_stage for answer in answers)
    head = "<th scope='col'>Pipeline</th><th scope='col'>Rank</th><th scope='col'>Score</th>"
    if two_stages:
        head += "<th scope='col'>Before: rank</th><th scope='col'>score</th><th scope='col'>Moved</th>"
    rows = "".join(_score_row(row, answer, two_stages) for answer in answers)
    if not rows:
        return ""
    return (
        f'<div class="ls-scroll" tabindex="0" role="region" aria-label="Ranks and scores">'
        f'<table class="ls-scores"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _score_row(row: int, answer: Answer, two_stages: bool) -> str:
    place = answer.places.get(row)
    hit = next((hit for hit in answer.hits if hit.row == row), None)
    cells = [f"<th scope='row'><bdi>{safe_text(answer.pipeline)}</bdi></th>"]
    if place is None:
        cells.append(f"<td>–{unseen(f'not among the first {len(answer.places)}')}</td><td>–</td>")
    else:
        cells.append(f"<td>{place.rank}</td><td>{place.score:.4f}</td>")
    if two_stages:
        before = hit.before if hit else None
        if before is None or place is None:
            cells.append("<td></td><td></td><td></td>")
        else:
            change = moved(before.rank, place.rank)
            cells.append(f"<td>{before.rank}</td><td>{before.score:.4f}</td><td>{change}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def evidence_html(links: LinkEvidence, index: str) -> str:
    """What the question names, dual links and co-mentions, in words."""
    parts = [
        _list("The question names", (_entity_html(entity, index) for entity in links.entities)),
        _list(
            "Dual links: articles that this passage links to, and that link back",
            (_dual_html(dual, index) for dual in links.dual_links),
        ),
        _list(
            "Co-mentions: articles joined to this one by a rare third that both link to",
            (_co_mention_html(shared, index) for shared in links.co_mentions),
        ),
    ]
    found = "".join(parts)
    if not found:
        return (
            '<p class="ls-nothing">No hyperlink speaks for this passage: the question names no article near '
            "it, and nothing that it links to links back.</p>"
        )
    return f'<div class="ls-evidence">{found}</div>'


def _list(heading: str, items: Iterable[str]) -> str:
    shown = list(items)
    if not shown:
        return ""
    listed = "".join(f"<li>{item}</li>" for item in shown[:_MOST_LISTED])
    if len(shown) > _MOST_LISTED:
        listed += f'<li class="ls-quiet">and {len(shown) - _MOST_LISTED:,} more</li>'
    return f"<section><h4>{heading}</h4><ul>{listed}</ul></section>"


def _article_html(article: Article, index: str) -> str:
    return title_html(article.title, article.id, article_address(article.id, index))


def _quoted(anchor: str) -> str:
    return f"“<bdi>{safe_text(anchor)}</bdi>”" if anchor else "a link"


def _entity_html(entity: Entity, index: str) -> str:
    quoted = "" if entity.relation == "own" else f" {_quoted(entity.anchor)}"
    relation = _RELATIONS[entity.relation]
    return f"{_article_html(entity.article, index)} <span>{relation}{quoted}</span>"


def _dual_html(dual: DualLink, index: str) -> str:
    there = _quoted(dual.there)
    return f"{_article_html(dual.article, index)} <span>here {_quoted(dual.here)}, there {there}</span>"


def _co_mention_html(shared: CoMention, index: str) -> str:
    direction = "links here too" if shared.asks else "is linked from here too"
    through = _article_html(shared.shared, index)
    return f"{_article_html(shared.article, index)} <span>by {through}; it {direction}</span>"


# --- the graph ------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _FONT = 200.0, 30.0, 13.0  # of a node, and its letters
_STEP = 44.0  # from one node to the next below it
_COLUMNS = (0.0, 260.0, 520.0, 780.0)  # dual links, the passage's article, shared ones, their other side


def graph_svg(links: LinkEvidence, index: str) -> str:
    """Who links to whom around the passage; empty if there is nothing to draw.

    Four columns: dual links, the passage's article, what co-mentions share, and who shares it. A node is a
    link to its article; pointing at one, or coming to it by keyboard, brings out its lines.
    """
    dual = [found.article for found in links.dual_links[:_MOST_DRAWN]]
    mentions = _drawn_mentions(links.co_mentions, {article.row for article in dual})
    if not dual and not mentions:
        return ""
    shared = list(dict.fromkeys(mention.shared for mention in mentions))
    others = list(dict.fromkeys(mention.article for mention in mentions))
    tallest = max(len(dual), len(shared), len(others), 1)
    height = tallest * _STEP + 36
    named = {entity.article.row for entity in links.entities}
    columns = (dual, [links.article], shared, others)
    # (column, document) -> number and upper edge; an article can stand in two columns
    place: dict[tuple[int, int], tuple[int, float]] = {}
    for column, articles in enumerate(columns):
        top = 30 + (tallest - len(articles)) * _STEP / 2 + (_STEP - _HEIGHT) / 2
        for number, article in enumerate(articles):
            place[column, article.row] = (len(place), top + number * _STEP)
    own = place[1, links.article.row]
    edges = [_edge(place[0, article.row], 0, own, 1, both=True) for article in dual]
    for article in shared:
        edges.append(_edge(own, 1, place[2, article.row], 2))
    for mention in mentions:
        other = place[3, mention.article.row]
        edges.append(_edge(other, 3, place[2, mention.shared.row], 2))
    for other_article in others:
        asks = next(mention.asks for mention in mentions if mention.article == other_article)
        edges.append(_arc(place[3, other_article.row], own, height, towards_own=asks))
    nodes = [
        _node(article, column, place[column, article.row], index, article.row in named, column == 1)
        for column, articles in enumerate(columns)
        for article in articles
    ]
    names = ("links both ways", "this article", "both link to", "its co-mention")
    heads = [
        words(name, x + _WIDTH / 2, 10, 12, "head", anchor="middle")
        for name, x, articles in zip(names, _COLUMNS, columns, strict=True)
        if articles
    ]
    drawn = "".join([*heads, *edges, *nodes])
    left = 0.0 if dual else _COLUMNS[1]
    right = _COLUMNS[3] + _WIDTH if others else _COLUMNS[1] + _WIDTH
    svg = image(right - left, height, drawn, "ls-graph", "Links around this passage; the lists say the same")
    box = f'viewBox="{at(left - 2)} 0 {at(right - left + 4)} {at(height)}"'
    before, _, after = svg.partition('viewBox="')
    return f"{before}{box}{after.partition(chr(34))[2]}".replace(' role="img"', ' role="group"')


def _drawn_mentions(mentions: Sequence[CoMention], dual: set[int]) -> list[CoMention]:
    """A few co-mentions, those of articles that are no dual links first; at most so many of each column."""
    kept: list[CoMention] = []
    for mention in sorted(mentions, key=lambda mention: mention.article.row in dual):
        shared = {one.shared for one in kept} | {mention.shared}
        others = {one.article for one in kept} | {mention.article}
        if len(shared) <= _MOST_DRAWN and len(others) <= _MOST_DRAWN:
            kept.append(mention)
    return kept


_Place = tuple[int, float]


def _node(article: Article, column: int, place: _Place, index: str, named: bool, own: bool) -> str:
    number, top = place
    x = _COLUMNS[column]
    box = {
        "x": at(x), "y": at(top), "width": at(_WIDTH), "height": at(_HEIGHT), "rx": "6",
    }  # fmt: skip
    label = words(
        shorten(article.title, _WIDTH - 20, _FONT), x + _WIDTH / 2, top + _HEIGHT / 2, _FONT, anchor="middle"
    )
    kind = f"node n{number}{' named' if named else ''}{' own' if own else ''}"
    link = {"href": article_address(article.id, index), "class": kind}
    told = f"{article.title}, named in the question" if named else article.title
    return element("a", link, title(told) + element("rect", box) + label)


def _edge(left: _Place, from_column: int, right: _Place, to_column: int, both: bool = False) -> str:
    """A line between the facing sides of two nodes, with an arrow at its end, or at both."""
    forward = from_column < to_column
    x1 = _COLUMNS[from_column] + (_WIDTH if forward else 0)
    x2 = _COLUMNS[to_column] + (0 if forward else _WIDTH)
    y1, y2 = left[1] + _HEIGHT / 2, right[1] + _HEIGHT / 2
    middle = (x1 + x2) / 2
    line = f"M{at(x1)} {at(y1)}C{at(middle)} {at(y1)} {at(middle)} {at(y2)} {at(x2)} {at(y2)}"
    arrows = _arrow(x2, y2, 1 if forward else -1)
    if both:
        arrows += _arrow(x1, y1, -1 if forward else 1)
    return _line("dual" if both else "mention", left, right, line, arrows)


def _arc(other: _Place, own: _Place, height: float, *, towards_own: bool) -> str:
    """The link between the two articles of a co-mention, below what they share."""
    x1, y1 = _COLUMNS[3], other[1] + _HEIGHT - 6
    x2, y2 = _COLUMNS[1] + _WIDTH, own[1] + _HEIGHT - 6
    low = height - 8
    line = f"M{at(x1)} {at(y1)}C{at(x1 - 40)} {at(low)} {at(x2 + 40)} {at(low)} {at(x2)} {at(y2)}"
    arrow = _arrow(x2, y2, -1) if towards_own else _arrow(x1, y1, 1)
    return _line("link", other, own, line, arrow)


def _line(kind: str, one: _Place, other: _Place, line: str, arrows: str) -> str:
    ends = f"e{one[0]} e{other[0]}"
    return path(f"edge {kind} {ends}", line) + path(f"edge {ends}", arrows)


def _arrow(x: float, y: float, towards: int) -> str:
    """The head of an arrow that points to the right (1) or to the left (-1)."""
    return f"M{at(x - 7 * towards)} {at(y - 4)}L{at(x)} {at(y)}L{at(x - 7 * towards)} {at(y + 4)}"
