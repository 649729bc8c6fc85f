"""Training examples for people: texts with the spans that made them, as a page or a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from linkseek.retriever.links.sentences import Span
from linkseek.retriever.links.source import LinkSource


@dataclass(frozen=True, slots=True)
class Text:
    """A text of an example and its origin; drawn words have none.

    passage_id: empty for a document's beginning. marks: the anchors that made the example. strong: of marks
    that compare two texts, those in favour of the better one. note: the evidence in a few words.
    """

    text: str
    passage_id: str = ""
    document_id: str = ""
    title: str = ""
    marks: tuple[Span, ...] = ()
    strong: tuple[Span, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One training example: the better text for a query, and the worse ones if the objective has any.

    kind: of an objective that makes several. through: the document that both mention, by id and title.
    more_worse: the number of worse texts that are not listed.
    """

    kind: str
    asked: Text
    better: Text
    worse: tuple[Text, ...] = ()
    through: tuple[str, str] | None = None
    more_worse: int = 0


def passage_text(source: LinkSource, row: int, text: str, marks: Iterable[Span] = ()) -> Text:
    """A text that was taken from a passage."""
    table = source.index.passages.table
    id_, document, title = (str(table.value(name, row)) for name in ("id", "document_id", "title"))
    return Text(text, id_, document, title, tuple(marks))


def span_in(sentence: str, text: str, start: int, end: int) -> tuple[Span, ...]:
    """The place of `text[start:end]` in a sentence of the text; none if the sentence does not hold it."""
    shift = text.rfind(sentence, 0, start + len(sentence))
    fits = 0 <= shift <= start and end - shift <= len(sentence)
    return ((start - shift, end - shift),) if fits else ()
