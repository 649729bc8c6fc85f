"""What a report says, before it is HTML or Markdown: sections of paragraphs, tables, charts and lists.

A builder makes these records, `html.py` and `markdown.py` write them: both hold the same content in the
same order. A text that comes from files or people stands in `Data`, whatever it holds; all other text is
our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.report.bar_chart import BarChart
from app.report.line_chart import LineChart


@dataclass(frozen=True, slots=True)
class Data:
    """A text from outside: a title, a question, a name. code: such as is typed or compared."""

    text: str
    kind: Literal["text", "name", "code"] = "text"


@dataclass(frozen=True, slots=True)
class Strong:
    """Words that stand out."""

    text: str | Data


@dataclass(frozen=True, slots=True)
class Raised:
    """A mark that is explained below."""

    text: str


Line = tuple[str | Data | Strong | Raised, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph. kind: a "summary" is larger, a "note" smaller than the rest."""

    line: Line
    kind: Literal["text", "note", "summary"] = "text"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list without an order."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and what they stand for; several lines each."""

    rows: tuple[tuple[str, tuple[Line, ...]], ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table. best: in bold. interval: from where to where, beside or below the value."""

    line: Line
    best: bool = False
    interval: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column. numeric: its cells are set to the right."""

    line: Line
    numeric: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of as many cells as there are columns.

    headers: how many cells at the left name their row. grouped: rows with the same first cell belong
    together.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    headers: int = 1
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart and the same numbers as a table, which is shown on demand if it is folded.

    alternative: what the chart shows, in a sentence.
    """

    title: str
    alternative: str
    chart: LineChart | BarChart
    table: Table
    folded: bool = True


@dataclass(frozen=True, slots=True)
class Side:
    """What one pipeline found for a question: its first passage, and how that was judged."""

    pipeline: str
    found: str
    title: str
    text: str
    right: bool | None


@dataclass(frozen=True, slots=True)
class Case:
    """A question that two pipelines answer differently."""

    question: str
    answers: tuple[str, ...]
    sides: tuple[Side, Side]


@dataclass(frozen=True, slots=True)
class Cases:
    """Cases in their order."""

    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Folded:
    """What is shown on demand; all of it in print and in Markdown."""

    summary: Line
    blocks: tuple[Block, ...]


Block = Paragraph | Bullets | Facts | Table | Figure | Cases | Heading | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report. anchor: what links within the page call it."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A report: its title, blocks that stand before the first section, and the sections."""

    title: Line
    opening: tuple[Block, ...]
    sections: tuple[Section, ...]


def cell(text: str | Data, *, best: bool = False, interval: str = "", mark: str = "") -> Cell:
    """A cell of one text, with a mark or without."""
    return Cell((text, Raised(mark)) if mark else (text,), best, interval)


def names(*texts: str) -> tuple[Column, ...]:
    """Columns of text."""
    return tuple(Column((text,), numeric=False) for text in texts)


def numbers(*texts: str | Data) -> tuple[Column, ...]:
    """Columns of numbers."""
    return tuple(Column((text,)) for text in texts)
