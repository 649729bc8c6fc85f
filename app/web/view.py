"""What all HTML of the application is made of: pure functions, text in, safe HTML out.

Titles, passages, questions, names and messages come from outside and are never markup: all text goes
through `safe_text` or `marked_text`, and the only tags are those written here. Direction overrides,
which can make a text read as another one, are removed; what else there is of right-to-left text is
kept to its own place by <bdi>. The look is in `style.css`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import urlsplit

from app.around.query_words import Span
from app.web.state import link_to
from indexer.base.text import harmless

MAX_PASSAGE_CHARACTERS = 2_000
"""What is shown of a passage; passages of whole documents can be books."""

_CONTEXT = 200  # characters before the first marked word of a long passage


def safe_text(text: str) -> str:
    """Any text as HTML that shows it and does nothing else."""
    return escape(harmless(text))


def safe_url(url: str) -> str:
    """The address if it is one of the web; empty for any other, such as `javascript:`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    plain = not re.search(r"[\s\x00-\x1f\x7f]", url)
    return url if plain and parts.scheme in ("http", "https") and parts.netloc else ""


def marked_text(
    text: str, marks: Sequence[Span], answers: Sequence[Span] = (), limit: int = MAX_PASSAGE_CHARACTERS
) -> str:
    """A text with its marked spans in <mark>, answers in one of another class that wins over the others.

    Of a text longer than `limit`, the part around its first answer, or else around its first mark.
    """
    start, end = excerpt(len(text), answers or marks, limit)
    start, end = _whole_words(text, start, end)
    free = [span for span in marks if not any(low < span[1] and span[0] < high for low, high in answers)]
    tags = dict.fromkeys(free, "<mark>") | dict.fromkeys(answers, '<mark class="ls-said">')
    pieces, at = ["… " if start else ""], start
    for (low, high), tag in sorted(tags.items()):
        if start <= low and high <= end:
            pieces += [safe_text(text[at:low]), tag, safe_text(text[low:high]), "</mark>"]
            at = high
    pieces += [safe_text(text[at:end]), " …" if end < len(text) else ""]
    return "".join(pieces)


def _whole_words(text: str, start: int, end: int) -> Span:
    """The same part of a text, shorter by the words that it would cut; not by very long ones."""
    if start and (space := text.find(" ", start, start + 30)) >= 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", end - 30, end)) > start:
        end = space
    return start, end


def linked_text(
    text: str, marks: Sequence[Span], answers: Sequence[Span], anchors: Sequence[tuple[int, int, str]]
) -> str:
    """A text with its marks, and anchors (start, end, address) as links; of overlapping ones the first."""
    pieces, at = [], 0

    def piece(low: int, high: int) -> str:
        said, found = (
            [(max(a, low) - low, min(b, high) - low) for a, b in spans if a < high and low < b]
            for spans in (marks, answers)
        )
        return marked_text(text[low:high], said, found, high - low)

    for start, end, address in anchors:
        if start >= at:
            pieces += [piece(at, start), f'<a href="{escape(address)}">{piece(start, end)}</a>']
            at = end
    return "".join([*pieces, piece(at, len(text))])


def excerpt(length: int, marks: Sequence[Span], limit: int = MAX_PASSAGE_CHARACTERS) -> Span:
    """Which characters of a text to show: at most `limit`, from its start if a mark is in them."""
    if length <= limit:
        return 0, length
    start = 0
    if marks and marks[0][1] > limit:
        start = max(min(marks[0][0] - min(_CONTEXT, limit // 3), length - limit), 0)
    return start, start + limit


def unseen(text: str) -> str:
    """Words for screen readers alone."""
    return f'<span class="ls-unseen">{safe_text(text)}</span>'


def title_html(title: str, document_id: str, address: str) -> str:
    """An article's title as a link to its page; its id stands for a blank title."""
    return f'<a href="{escape(address)}"><bdi>{safe_text(title.strip() or document_id)}</bdi></a>'


def source_html(url: str, title: str) -> str:
    """A small link to where an article comes from; nothing if that is no address of the web."""
    url = safe_url(url)
    if not url:
        return ""
    return (
        f'<a class="ls-source" href="{escape(url)}" target="_blank" rel="noopener noreferrer" '
        f'aria-label="Source of {safe_text(title)}, in a new tab">source'
        '<span aria-hidden="true"> ↗</span></a>'
    )


def heading_html(
    pages: Mapping[str, str],
    current: str,
    index: str = "",
    counts: Sequence[tuple[str, int]] = (),
    *,
    named: bool = True,
) -> str:
    """The head of every page: what this is, where one can go, and what is searched.

    pages: name -> what it is called. current: the name of the page that is shown. named: whether the
    index's name is part of it.
    """
    params = {"index": [index]} if index else {}
    links = "".join(
        f'<a href="{escape(link_to(name, params))}"{_CURRENT if name == current else ""}>'
        f"{safe_text(title)}</a>"
        for name, title in pages.items()
    )
    facts = "".join(f"<span><b>{count:,}</b> {safe_text(name)}</span>" for name, count in counts)
    name = f"<span><bdi>{safe_text(index)}</bdi></span>" if named else ""
    searched = f'<p class="ls-index">{name}{facts}</p>' if index else ""
    return (
        '<header class="ls-page"><div><h1><a href="./">Linkseek</a></h1>'
        f'<nav aria-label="Pages">{links}</nav></div>{searched}</header>'
    )


_CURRENT = ' aria-current="page"'


def invitation_html(title: str, text: str) -> str:
    """What stands where results will be."""
    return f'<div class="ls-invitation"><h2>{safe_text(title)}</h2><p>{safe_text(text)}</p></div>'


def section_html(title: str) -> str:
    """The title of a part of a page."""
    return f'<h2 class="ls-section"><bdi>{safe_text(title)}</bdi></h2>'


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
    return _PUNCTUATION.sub(r"\\\1", " ".join(harmless(text).split())).replace(":", ":\u2060")
