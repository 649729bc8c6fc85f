"""The HTML of what was found: pure functions, text in, safe HTML out.

Titles, passages, questions, names and messages come from outside and are never markup: all text goes
through `safe_text` or `marked_text`, and the only tags are those written here. Direction overrides,
which can make a text read as another one, are removed; what else there is of right-to-left text is
kept to its own place by <bdi>. The look is in `style.css`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from urllib.parse import urlsplit

from app.marking import Span
from app.service import Answer, Hit

MAX_PASSAGE_CHARACTERS = 2_000
"""What is shown of a passage; passages of whole documents can be books."""

_CONTEXT = 200  # characters before the first marked word of a long passage

# Embeddings, overrides and isolates of direction; line, paragraph and other control characters.
_INVISIBLE = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "")
_INVISIBLE |= dict.fromkeys([*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029], " ")


def safe_text(text: str) -> str:
    """Any text as HTML that shows it and does nothing else."""
    return escape(text.translate(_INVISIBLE))


def safe_url(url: str) -> str:
    """The address if it is one of the web; empty for any other, such as `javascript:`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    plain = not re.search(r"[\s\x00-\x1f\x7f]", url)
    return url if plain and parts.scheme in ("http", "https") and parts.netloc else ""


def marked_text(text: str, marks: Sequence[Span]) -> str:
    """A text with its marked spans in <mark>; of a long one the part around its first mark."""
    start, end = excerpt(len(text), marks)
    pieces, at = ["… " if start else ""], start
    for low, high in marks:
        if start <= low and high <= end:
            pieces += [safe_text(text[at:low]), "<mark>", safe_text(text[low:high]), "</mark>"]
            at = high
    pieces += [safe_text(text[at:end]), " …" if end < len(text) else ""]
    return "".join(pieces)


def excerpt(length: int, marks: Sequence[Span], limit: int = MAX_PASSAGE_CHARACTERS) -> Span:
    """Which characters of a text to show: at most `limit`, from its start if a mark is in them."""
    if length <= limit:
        return 0, length
    start = 0
    if marks and marks[0][1] > limit:
        start = min(marks[0][0] - _CONTEXT, length - limit)
    return start, start + limit


def answer_html(answer: Answer, description: str) -> str:
    """One pipeline's column: its name, how long it took, and its passages in an ordered list."""
    name = safe_text(answer.pipeline)
    count = len(answer.hits)
    passages = f"{count} passage{'s' if count != 1 else ''}"
    heading = (
        f'<header><h2><bdi>{name}</bdi></h2><span class="ls-time">'
        f"{passages} in {answer.seconds * 1000:.0f} ms</span>"
        f'<p class="ls-about"><bdi>{safe_text(description)}</bdi></p></header>'
    )
    body = "".join(hit_html(hit) for hit in answer.hits)
    if answer.hits:
        body = f"<ol>{body}</ol>"
    else:
        body = '<p class="ls-nothing">Nothing found: no passage holds a word of this question.</p>'
    return f'<section class="ls-answer" aria-label="Found by {name}">{heading}{body}</section>'


def hit_html(hit: Hit) -> str:
    """One passage: rank, title linked to its source, score, text."""
    title = f"<bdi>{safe_text(hit.title.strip() or hit.document_id)}</bdi>"
    url = safe_url(hit.url)
    if url:
        title = f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{title}</a>'
    return (
        f'<li><div class="ls-head"><span class="ls-rank" aria-label="Rank {hit.rank}">{hit.rank}</span>'
        f'<h3>{title}</h3><span class="ls-score" aria-label="Score {hit.score:.4f}">'
        f'{hit.score:.4f}</span></div><p class="ls-text" dir="auto">{marked_text(hit.text, hit.marks)}</p>'
        "</li>"
    )


def heading_html(index: str = "", counts: Sequence[tuple[str, int]] = ()) -> str:
    """The head of the page: what this is, and what is searched."""
    facts = "".join(f"<span><b>{count:,}</b> {safe_text(name)}</span>" for name, count in counts)
    searched = f'<p class="ls-index"><span><bdi>{safe_text(index)}</bdi></span>{facts}</p>' if index else ""
    return (
        '<header class="ls-page"><div><h1>Linkseek</h1>'
        f'<p class="ls-tagline">Search that learns from hyperlinks</p></div>{searched}</header>'
    )


def invitation_html(title: str, text: str) -> str:
    """What stands where results will be."""
    return f'<div class="ls-invitation"><h2>{safe_text(title)}</h2><p>{safe_text(text)}</p></div>'


def paragraph_html(text: str) -> str:
    """A sentence between other things."""
    return f'<p class="ls-quiet">{safe_text(text)}</p>'


def notice_html(message: str, hint: str = "") -> str:
    """Something that went wrong, and what to do about it."""
    message = message[:1].upper() + message[1:]
    hint = f"<p>{safe_text(hint)}</p>" if hint else ""
    return f'<div class="ls-notice" role="alert"><p><b>{safe_text(message)}</b></p>{hint}</div>'


_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def plain_label(text: str) -> str:
    """A text as the label of a Streamlit widget, which would be read as Markdown.

    Shortcodes such as `:smile:` are replaced after Markdown has been read, so a backslash does not stop
    them; an invisible word joiner behind the colon does.
    """
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.translate(_INVISIBLE).split())).replace(":", ":\u2060")
