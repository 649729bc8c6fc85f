"""The HTML of an article: its text by passages, its neighbours, and what is mined from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from app.around.article import PAGE, Article, Neighbour, Neighbours, ReadPassage
from app.around.titles import Found
from app.around.training_data import Mined
from app.web.state import ArticleView, article_address, article_view_address, passage_address
from app.web.view import linked_text, marked_text, safe_text, source_html, title_html, unseen
from indexer.base.text import counted
from retriever.objectives.examples import Example, Text

_EXCERPT, _SHORT = 360, 180  # characters of a text in an example, and of one that is not what is to be found


# --- finding --------------------------------------------------------------------------------------


def found_html(text: str, found: Sequence[Found], total: int, index: str) -> str:
    """The articles that somebody may mean."""
    if not found:
        return (
            f'<p class="ls-nothing">No title holds “<bdi>{safe_text(text[:100])}</bdi>”. '
            "A part of a title is enough; text is found by Search.</p>"
        )
    items = "".join(f"<li>{_link(each, index)}</li>" for each in found)
    more = ""
    if total > len(found):
        more = f'<p class="ls-quiet">The first {len(found)} of {total:,}. Type more of the title.</p>'
    return f'<nav class="ls-found" aria-label="Articles found"><ul>{items}</ul>{more}</nav>'


def starts_html(found: Sequence[Found], index: str) -> str:
    """Articles to start with."""
    items = "".join(f"<li>{_link(each, index)}</li>" for each in found)
    return (
        '<section class="ls-found" aria-label="Articles to start with">'
        f"<h3>Most linked to</h3><ul>{items}</ul></section>"
    )


def _link(found: Found, index: str) -> str:
    return title_html(found.title, found.id, article_address(found.id, index))


# --- reading --------------------------------------------------------------------------------------


def article_heading_html(article: Article) -> str:
    """Title, source, and how much there is."""
    facts = [
        counted(article.count, "passage"),
        counted(article.links, "link"),
        f"linked with {counted(_linked(article), 'article')}",
    ]
    return (
        f'<header class="ls-article-head"><h2><bdi>{safe_text(article.title)}</bdi></h2>'
        f"<p>{' · '.join(facts)} {source_html(article.url, article.title)}</p></header>"
    )


def _linked(article: Article) -> int:
    return article.mutual.count + article.incoming.count + article.outgoing.count


def article_html(article: Article, view: ArticleView, index: str) -> str:
    """The text by passages, and the neighbours beside it."""
    passages = "".join(_passage_html(passage, view, index) for passage in article.passages)
    if not passages:
        passages = '<li class="ls-nothing">This article has no text.</li>'
    pages = _pages_html(article, view, index)
    return (
        '<div class="ls-article"><article aria-label="Text by passages">'
        f'{pages}<ol class="ls-passages">{passages}</ol>{pages}</article>'
        f"{_neighbours_html(article, index)}</div>"
    )


def _passage_html(passage: ReadPassage, view: ArticleView, index: str) -> str:
    here = ' class="ls-here" aria-current="true"' if passage.id == view.passage else ""
    cut = '<p class="ls-quiet">The rest of this passage is not shown.</p>' if passage.cut else ""
    return (
        f'<li{here} id="passage-{passage.number}"><span class="ls-number" title="{safe_text(passage.id)}">'
        f"{unseen('Passage ')}{passage.number}</span><div>{_text_html(passage, index)}{cut}"
        f"{_duals_html(passage, index)}</div></li>"
    )


def _text_html(passage: ReadPassage, index: str) -> str:
    """The text in pieces, with the headings of sections between them."""
    starts = [0, *(heading.start for heading in passage.headings), len(passage.text)]
    headings = ["", *(f'<h3 dir="auto">{safe_text(each.text)}</h3>' for each in passage.headings)]
    pieces = []
    for heading, low, high in zip(headings, starts[:-1], starts[1:], strict=True):
        anchors = [
            (anchor.start - low, anchor.end - low, article_address(anchor.target.id, index))
            for anchor in passage.anchors
            if low <= anchor.start and anchor.end <= high
        ]
        text = passage.text[low:high]
        shown = (
            f'<p class="ls-text" dir="auto">{linked_text(text, (), (), anchors)}</p>' if text.strip() else ""
        )
        pieces.append(heading + shown)
    return "".join(pieces)


def _duals_html(passage: ReadPassage, index: str) -> str:
    """The passages elsewhere that link back to this article, by article."""
    if not passage.duals:
        return ""
    items = []
    for dual in passage.duals:
        back = " ".join(
            f'<a href="{escape(passage_address(dual.target.id, id_, index))}" '
            f'aria-label="passage {_number(id_)} of {safe_text(dual.target.title)}">{_number(id_)}</a>'
            for id_ in dual.passages
        )
        items.append(f"<li>{_link(dual.target, index)} <span>{back}</span></li>")
    more = f"<li>and {passage.more_duals:,} more</li>" if passage.more_duals else ""
    return (
        f'<div class="ls-duals"><span>{unseen("Passage ")}{passage.number} has dual links with</span>'
        f"<ul>{''.join(items)}{more}</ul></div>"
    )


def _number(passage_id: str) -> str:
    """The number of a passage in its document, from 1; 1 where documents are passages."""
    number = passage_id.rpartition("#")[2]
    return str(int(number) + 1) if number.isascii() and number.isdecimal() and len(number) < 10 else "1"


def _pages_html(article: Article, view: ArticleView, index: str) -> str:
    """Where one is in a long article, and links to what is before and behind."""
    if article.count <= PAGE:
        return ""
    last = article.first + len(article.passages) - 1
    links = []
    for name, first in (("Earlier", max(article.first - PAGE, 1)), ("Later", last + 1)):
        if first != article.first and first <= article.count:
            address = article_view_address(replace(view, first=first, passage="", find=""), index)
            links.append(f'<a href="{escape(address)}">{name}</a>')
    return (
        '<nav class="ls-pages" aria-label="Passages of this article">'
        f"<span>Passages {article.first:,} to {last:,} of {article.count:,}</span>{''.join(links)}</nav>"
    )


_KINDS = {
    "mutual": ("Linked both ways", "Articles that link here and are linked from here"),
    "incoming": ("Linked from", "Articles that link here"),
    "outgoing": ("Links to", "Articles that are linked from here"),
}


def _neighbours_html(article: Article, index: str) -> str:
    lists = [
        _list_html(*_KINDS[kind], kind, getattr(article, kind), index)
        for kind in _KINDS
        if getattr(article, kind).count
    ]
    body = "".join(lists) or '<p class="ls-nothing">No links lead here or from here.</p>'
    return f'<aside class="ls-neighbours" aria-label="Neighbours">{body}</aside>'


def _list_html(title: str, label: str, kind: str, of: Neighbours, index: str) -> str:
    items = "".join(_neighbour_html(neighbour, kind, index) for neighbour in of.first)
    more = of.count - len(of.first)
    rest = f'<p class="ls-quiet">and {more:,} more</p>' if more else ""
    return (
        f'<section aria-label="{label}"><h3>{title} <span>{of.count:,}</span></h3>'
        f"<ul>{items}</ul>{rest}</section>"
    )


def _neighbour_html(neighbour: Neighbour, kind: str, index: str) -> str:
    """The number of links is told where it is more than one in a direction."""
    to, from_ = neighbour.links_to, neighbour.links_from
    if max(to, from_) < 2:
        count = ""
    elif kind == "mutual":
        count = (
            f'<span class="ls-count" aria-hidden="true">→ {to:,} · ← {from_:,}</span>'
            f"{unseen(f', {to} links to it, {from_} from it')}"
        )
    else:
        count = f'<span class="ls-count">{counted(max(to, from_), "link")}</span>'
    return f"<li>{_link(neighbour.target, index)}{count}</li>"


# --- what is mined --------------------------------------------------------------------------------


def mined_html(mined: Sequence[Mined], document_id: str, index: str) -> str:
    """A column for each objective."""
    columns = "".join(_objective_html(each, document_id, index) for each in mined)
    return f'<div class="ls-mined">{columns}</div>'


def _objective_html(mined: Mined, document_id: str, index: str) -> str:
    name = safe_text(mined.objective)
    total = sum(mined.count.values())
    amount = counted(total, mined.unit)
    if mined.unit != "pair":
        amount = f"up to {amount}"  # some candidates give nothing
    if len(mined.count) > 1:
        amount += ": " + ", ".join(f"{count:,} {safe_text(kind)}" for kind, count in mined.count.items())
    several = len(mined.count) > 1
    items = "".join(_example_html(example, several, document_id, index) for example in mined.examples)
    nothing = f'<p class="ls-nothing">Nothing is mined from this article. {safe_text(mined.why)}</p>'
    body = f"<ol>{items}</ol>" if items else nothing
    if 0 < len(mined.examples) < total:
        more = f"Shown: {len(mined.examples)} of {amount}. {mined.why}"
        body += f'<p class="ls-quiet">{safe_text(more)}</p>'
    label = f"Mined by {name}" if mined.unit == "pair" else f"Contrasts of {name}"
    return (
        f'<section aria-label="{label}"><header><h3>{name}</h3><span class="ls-time">{amount}</span>'
        f'<p class="ls-about">{safe_text(mined.summary)}</p></header><div>{body}</div></section>'
    )


def _example_html(example: Example, several: bool, document_id: str, index: str) -> str:
    kind = f'<span class="ls-kind">{safe_text(example.kind)}</span>' if several else ""
    through = ""
    if example.through is not None:
        id_, title = example.through
        third = title_html(title, id_, article_address(id_, index))
        through = f'<p class="ls-from">Both mention {third}.</p>'
    worse = "".join(
        _side_html("than with", text, document_id, index, "ls-less", _SHORT) for text in example.worse
    )
    if example.more_worse:
        worse += f'<p class="ls-from">and than with {example.more_worse:,} more like it</p>'
    verb, side = ("should score more with", "ls-more-than") if example.worse else ("should find", "")
    asked = example.asked
    is_long = len(asked.text) > _EXCERPT  # a passage or a document, no sentence
    shape, limit = ("ls-asked ls-long", _SHORT) if is_long else ("ls-asked", _EXCERPT)
    where = f'<p class="ls-from">from {_where(asked, document_id, index)}</p>' if asked.document_id else ""
    return (
        f'<li>{kind}<p class="{shape}" dir="auto">'
        f"{marked_text(asked.text, asked.marks, asked.strong, limit)}</p>{where}"
        f"{_side_html(verb, example.better, document_id, index, side)}{worse}{through}</li>"
    )


def _side_html(
    verb: str, text: Text, document_id: str, index: str, side: str = "", limit: int = _EXCERPT
) -> str:
    """A text that is to be found, or to be preferred, or that another one is to be preferred to."""
    where = _where(text, document_id, index) if text.document_id else "these words"
    about = ", ".join(filter(None, [where, safe_text(text.note)]))
    return (
        f'<div class="ls-side {side}"><p class="ls-from">{verb} {about}</p>'
        f'<p class="ls-text" dir="auto">{marked_text(text.text, text.marks, text.strong, limit)}</p></div>'
    )


def _where(text: Text, document_id: str, index: str) -> str:
    """A link to where a text is from: its passage, or the document that it begins."""
    address = passage_address(text.document_id, text.passage_id, index)
    number = f"passage {_number(text.passage_id)}" if text.passage_id else ""
    title = text.title.strip() or text.document_id
    here = text.document_id == document_id
    name = (number or "its beginning") if here else ", ".join(filter(None, [title, number]))
    return f'<a href="{escape(address)}"><bdi>{safe_text(name)}</bdi></a>'
