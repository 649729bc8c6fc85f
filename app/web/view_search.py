"""The HTML of answers: a column for each pipeline, with ranks, marks, scores and times."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from app.service import Answer, Hit
from app.web.state import View, article_address, why_address
from app.web.view import marked_text, safe_text, source_html, title_html, unseen
from indexer.base.text import counted, short_duration

_WIDE_CHARACTERS, _NARROW_CHARACTERS = 2_000, 420
"""How much of a passage is shown, in one or two columns and in more."""


def answer_html(
    answer: Answer,
    description: str,
    view: View | None = None,
    index: str = "",
    others: Sequence[Answer] = (),
) -> str:
    """One pipeline's column: its name, how long it took, and its passages in an ordered list.

    view: what is shown, for links to each passage's evidence. others: the answers that ranks are compared
    with.
    """
    view = view or View(answer.question, (answer.pipeline,))
    name = safe_text(answer.pipeline)
    heading = (
        f'<header><h2><bdi>{name}</bdi></h2><span class="ls-time">'
        f"{counted(len(answer.hits), 'passage')} in {short_duration(answer.seconds)}</span>"
        f'<p class="ls-about"><bdi>{safe_text(description)}</bdi></p>{_stages_html(answer)}'
        f"{_verdict_html(answer)}</header>"
    )
    waiting = ""
    if answer.waiting:
        first = safe_text(answer.first_stage or "")
        waiting = f'<p class="ls-waiting" role="status">The order of {first}; the re-ranked one follows…</p>'
    if not answer.hits:
        body = '<p class="ls-nothing">Nothing found: no passage holds a word of this question.</p>'
    elif view.grouped:
        body = _grouped_html(answer, view, index, others)
    else:
        items = "".join(hit_html(hit, answer, view, index, others) for hit in answer.hits)
        body = f"<ol>{items}</ol>"
    return f'<section class="ls-answer" aria-label="Found by {name}">{heading}{waiting}{body}</section>'


def hit_html(hit: Hit, answer: Answer, view: View, index: str, others: Sequence[Answer]) -> str:
    """One passage: rank, title, score, text, and where the other pipelines have it."""
    title = title_html(hit.title, hit.document_id, article_address(hit.document_id, index))
    return (
        f"<li{_right_class(hit)}>"
        f'<div class="ls-head">{_rank_html(hit)}<h3>{title}</h3>{_score_html(hit)}</div>'
        f"{_passage_html(hit, answer, view, index, others)}</li>"
    )


def _grouped_html(answer: Answer, view: View, index: str, others: Sequence[Answer]) -> str:
    """The same passages by article: each stands where its best passage stands."""
    articles: dict[str, list[Hit]] = {}
    for hit in answer.hits:
        articles.setdefault(hit.document_id, []).append(hit)
    items = []
    for number, hits in enumerate(articles.values(), start=1):
        best = hits[0]
        title = title_html(best.title, best.document_id, article_address(best.document_id, index))
        passages = "".join(
            f'<li{_right_class(hit)}><div class="ls-head ls-part">{_rank_html(hit)}'
            f"<span>passage</span>{_score_html(hit)}</div>"
            f"{_passage_html(hit, answer, view, index, others)}</li>"
            for hit in hits
        )
        count = f"{len(hits)} passages" if len(hits) > 1 else "1 passage"
        items.append(
            f'<li><div class="ls-head"><span class="ls-rank">{unseen("Article ")}'
            f"{number}</span><h3>{title}</h3><span class='ls-score'>{count}</span></div>"
            f"<ol>{passages}</ol></li>"
        )
    return f'<ol class="ls-grouped">{"".join(items)}</ol>'


# --- parts of a passage ---------------------------------------------------------------------------


def _passage_html(hit: Hit, answer: Answer, view: View, index: str, others: Sequence[Answer]) -> str:
    limit = _WIDE_CHARACTERS if len(view.pipelines) <= 2 else _NARROW_CHARACTERS
    text = marked_text(hit.text, hit.marks, hit.answers, limit)
    why = why_address(view, index, hit.passage_id)
    label = safe_text(f"Why {hit.title.strip() or hit.document_id}, rank {hit.rank} of {answer.pipeline}")
    ranks = "".join(_other_rank_html(hit, other) for other in others if other.pipeline != answer.pipeline)
    return (
        f'<p class="ls-text" dir="auto">{text}</p>'
        f'<div class="ls-more"><a class="ls-why" href="{escape(why)}" aria-label="{label}">Why?</a>'
        f"{source_html(hit.url, hit.title)}{ranks}</div>"
    )


def _rank_html(hit: Hit) -> str:
    rank = f'<span class="ls-rank">{unseen("Rank ")}{hit.rank}'
    if hit.right is None:
        return f"{rank}</span>"
    verdict, sign = ("right", "✓") if hit.right else ("wrong", "✗")
    return (
        f'{rank}<b class="ls-{verdict}" title="{_VERDICTS[verdict]}"><span aria-hidden="true">{sign}</span>'
        f"{unseen(f', {verdict}')}</b></span>"
    )


_VERDICTS = {"right": "Right: it holds an answer", "wrong": "Wrong: it holds no answer"}


def _right_class(hit: Hit) -> str:
    return ' class="ls-is-right"' if hit.right else ""


def _score_html(hit: Hit) -> str:
    before = hit.before
    if before is None:
        return f'<span class="ls-score">{unseen("Score ")}{hit.score:.4f}</span>'
    label = f"Rank {before.rank} and score {before.score:.4f} before re-ranking"
    shown = f"<s>{before.score:.4f}</s> {hit.score:.4f} {_arrow_html(before.rank - hit.rank)}"
    spoken = f"Score {hit.score:.4f}, {moved(before.rank, hit.rank)}. {label}"
    return (
        f'<span class="ls-score" title="{label}"><span aria-hidden="true">{shown}</span>'
        f"{unseen(spoken)}</span>"
    )


def _other_rank_html(hit: Hit, other: Answer) -> str:
    """Where another pipeline has this passage, and how far that is from here."""
    place = other.places.get(hit.row)
    if place is None:
        label = f"Not among the first {len(other.places)} of {other.pipeline}"
        shown = f"{safe_text(other.pipeline)} –"
    else:
        label = f"Rank {place.rank} in {other.pipeline}, {moved(hit.rank, place.rank)}"
        shown = f"{safe_text(other.pipeline)} {place.rank} {_arrow_html(hit.rank - place.rank)}"
    return (
        f'<span class="ls-other" title="{safe_text(label)}"><span aria-hidden="true">{shown}</span>'
        f"{unseen(label)}</span>"
    )


def _arrow_html(up: int) -> str:
    """How many ranks something goes up (down if negative), as a sign."""
    if up == 0:
        return '<i class="ls-same">=</i>'
    kind, sign = ("up", "▲") if up > 0 else ("down", "▼")
    return f'<i class="ls-{kind}">{sign}{abs(up)}</i>'


def moved(before: int, after: int) -> str:
    """How far something stands from where it stood, in words."""
    if before == after:
        return "the same"
    distance = abs(before - after)
    return f"{distance} {'higher' if after < before else 'lower'}"


# --- parts of the heading -------------------------------------------------------------------------


def _stages_html(answer: Answer) -> str:
    """What each stage took."""
    if not answer.stages:
        return ""
    parts = "".join(
        f"<div><dt>{safe_text(name)}</dt><dd>{short_duration(seconds)}</dd></div>"
        for name, seconds in answer.stages.items()
    )
    return f'<dl class="ls-stages" aria-label="Time of each stage">{parts}</dl>'


def _verdict_html(answer: Answer) -> str:
    """Where the first right passage stands, if that is known."""
    known = [hit for hit in answer.hits if hit.right is not None]
    if not known:
        return ""
    right = [hit.rank for hit in known if hit.right]
    if not right:
        return f'<p class="ls-verdict"><b class="ls-wrong">✗</b> none of {len(known)} holds an answer</p>'
    return f'<p class="ls-verdict"><b class="ls-right">✓</b> first answer at rank {right[0]}</p>'
