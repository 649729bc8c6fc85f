"""HTML of the pages: Jinja templates in which foreign text can only be text.

Titles, passages, questions, names and messages come from outside; `Markup` is only made here, around parts
that were escaped. The look is in `style.css`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markupsafe import Markup

from linkseek.app.rendering import addresses
from linkseek.app.report.charts import DARK, LIGHT
from linkseek.app.report.render import escaping
from linkseek.app.report.text import clean, day, moment, with_unit
from linkseek.app.report.text import excerpt as beginning
from linkseek.indexer.program.text import byte_size, counted, duration, harmless, short_duration
from linkseek.retriever.links.sentences import sentence_spans
from linkseek.retriever.search.explanation import MAX_CHARACTERS
from linkseek.retriever.search.query_words import Span

if TYPE_CHECKING:
    from linkseek.app.answers import AnswerHit

MAX_PASSAGE_CHARACTERS = 2_000
"""The part of a passage that is shown; passages of whole documents can be books."""

_CONTEXT = 200  # characters before the first marked word of a long passage


def render(template: str, **values: Any) -> str:
    """The HTML of a template in `templates/`."""
    return _ENVIRONMENT.get_template(template).render(values).strip()


def compile_templates() -> None:
    """Compile all templates, which the first page would wait for otherwise."""
    for name in _ENVIRONMENT.list_templates():
        _ENVIRONMENT.get_template(name)


@cache
def style() -> str:
    """The style of all pages: `style.css`, and the colours of series in a report's charts."""
    css = Path(__file__).with_name("style.css").read_text("utf-8")
    schemes = enumerate(zip(LIGHT, DARK, strict=True))
    series = " ".join(f"--c{number}: light-dark({light}, {dark});" for number, (light, dark) in schemes)
    return f"<style>{css}.ls-report {{ {series} }}</style>"


def web_address(url: str) -> str:
    """The address if it is one of the web; empty for any other, such as `javascript:`.

    Names that RFC 2606 reserves lead nowhere, and so do the addresses of the sample's articles.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    plain = not re.search(r"[\s\x00-\x1f\x7f]", url)
    reserved = (parts.hostname or "").rpartition(".")[2] in ("example", "invalid", "test")
    return url if plain and parts.scheme in ("http", "https") and parts.netloc and not reserved else ""


_Layer = Sequence[tuple[int, int, Callable[[Markup], Markup]]]
"""Spans of a text, and the element that each becomes; the first of overlapping ones counts."""


def _annotated(text: str, low: int, high: int, layers: Sequence[_Layer]) -> Markup:
    """A part of a text, in which spans are elements. layers: the outermost elements first."""
    if not layers:
        return Markup.escape(harmless(text[low:high]))
    parts, at = [], low
    for start, end, element in sorted(layers[0], key=lambda span: span[:2]):
        start, end = max(start, low), min(end, high)
        if at <= start < end:
            inside = _annotated(text, start, end, layers[1:])
            parts += [_annotated(text, at, start, layers[1:]), element(inside)]
            at = end
    return Markup("").join([*parts, _annotated(text, at, high, layers[1:])])


def _spans(html: str, spans: Iterable[Span]) -> _Layer:
    return [(*span, Markup(html).format) for span in spans]


def _marks(marks: Sequence[Span], answers: Sequence[Span]) -> list[_Layer]:
    """Marks in <mark>, answers in one of another class that wins over the others."""
    free = [span for span in marks if not any(low < span[1] and span[0] < high for low, high in answers)]
    return [_spans('<mark class="ls-said">{}</mark>', answers), _spans("<mark>{}</mark>", free)]


def passage_text(hit: AnswerHit, limit: int) -> tuple[Markup, bool]:
    """The text of a passage with its marks, and whether a part of it is folded.

    For a text longer than `limit`, whole sentences around its first answer or mark are shown, and the rest is
    in a <span> that the style sheet hides. Where nothing is marked, the sentence nearest to the question is.
    """
    best = (hit.nearest,) if hit.nearest and not (hit.marks or hit.answers) else ()
    text, around = hit.text, hit.answers or hit.marks or best
    low, high = excerpt(len(text), around, MAX_PASSAGE_CHARACTERS)
    start, end = _whole_sentences(text, *excerpt(len(text), around, limit))
    folded, dots = '<span class="ls-folded">{}</span>', Markup('<span class="ls-dots">{}</span>')
    folds = _spans(folded, ((low, start), (end, high)))
    layers = [folds, _spans('<b class="ls-nearest">{}</b>', best), *_marks(hit.marks, hit.answers)]
    pieces = [_annotated(text, low, high, layers)]
    if hit.cut[0]:
        pieces.insert(0, Markup(folded).format("… ") if start else Markup("… "))
    if hit.cut[1]:
        pieces.append(Markup(folded).format(" …") if end < len(text) else Markup(" …"))
    if start:
        pieces.insert(0, dots.format("… "))
    if end < len(text):
        pieces.append(dots.format(" …"))
    return Markup("").join(pieces), (start, end) != (low, high)


def linked(
    text: str, marks: Sequence[Span], answers: Sequence[Span], anchors: Sequence[tuple[int, int, str]]
) -> Markup:
    """A text with its marks, and anchors (start, end, address) as links; the first of overlapping ones."""
    link = Markup('<a href="{}">{}</a>').format
    links = [(start, end, partial(link, address)) for start, end, address in anchors]
    return _annotated(text, 0, len(text), [links, *_marks(marks, answers)])


def excerpt(length: int, marks: Sequence[Span], limit: int = MAX_PASSAGE_CHARACTERS) -> Span:
    """Which characters of a text to show: at most `limit`, from its start if a mark is in them."""
    if length <= limit:
        return 0, length
    start = 0
    if marks and marks[0][1] > limit:
        start = max(min(marks[0][0] - min(_CONTEXT, limit // 3), length - limit), 0)
    return start, start + limit


def _whole_sentences(text: str, start: int, end: int) -> Span:
    """The same part of a text without the sentences that it would cut; without words, if none is whole."""
    spans = [span for span in sentence_spans(text[:MAX_CHARACTERS]) if start <= span[0] and span[1] <= end]
    if spans and (start or end < len(text)):
        return spans[0][0], spans[-1][1]
    return _whole_words(text, start, end)


def _whole_words(text: str, start: int, end: int) -> Span:
    """The same part of a text without words that it would cut, unless they are very long."""
    if start and (space := text.find(" ", start, start + 30)) >= 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", max(end - 30, 0), end)) > start:
        end = space
    return start, end


def passage_number(passage_id: str) -> str:
    """The number of a passage in its document, from 1; 1 where documents are passages."""
    number = passage_id.rpartition("#")[2]
    return str(int(number) + 1) if number.isascii() and number.isdecimal() and len(number) < 10 else "1"


_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def plain_label(text: str) -> str:
    """A text as the label of a Streamlit widget, which would be read as Markdown.

    Shortcodes such as `:smile:` are replaced after Markdown has been read, so a backslash does not stop
    them; an invisible word joiner behind the colon does.
    """
    return _PUNCTUATION.sub(r"\\\1", plain_option(text)).replace(":", ":\u2060")


def plain_option(text: str) -> str:
    """A text as an option of `st.selectbox`, which Streamlit does not read as Markdown."""
    return " ".join(harmless(text).split())


def moved(before: int, after: int) -> str:
    """The difference of two ranks, in words."""
    distance = abs(before - after)
    return f"{distance} {'higher' if after < before else 'lower'}" if distance else "the same"


def _sentence(message: str) -> str:
    """A message with a capital, unless it begins with the name of a file or another that would change."""
    word = message.partition(" ")[0]
    return message if re.search(r"[._/]", word) else message[:1].upper() + message[1:]


_ENVIRONMENT = escaping(Path(__file__).with_name("templates"))
_ENVIRONMENT.globals |= {
    "article_address": addresses.article_address,
    "index_address": addresses.index_address,
    "link_to": addresses.link_to,
    "why_address": addresses.why_address,
    "moved": moved,
    "passage_number": passage_number,
}
_ENVIRONMENT.filters |= {
    "beginning": beginning,
    "bytes": byte_size,
    "clean": clean,
    "count": counted,
    "day": day,
    "duration": duration,
    "linked": linked,
    "moment": moment,
    "number": "{:,}".format,
    "passage_text": passage_text,
    "sentence": _sentence,
    "short_time": short_duration,
    "web_address": web_address,
    "with_unit": with_unit,
}
