"""A document as one HTML page that asks nobody for anything: style and charts are in it, scripts are not.

All text is escaped, `Data` is also kept to its own direction by <bdi>. A policy in the page forbids every
request and script, should something get through.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import count
from pathlib import Path

from app.report.document import (
    Block,
    Bullets,
    Case,
    Cases,
    Cell,
    Column,
    Data,
    Document,
    Facts,
    Figure,
    Folded,
    Heading,
    Line,
    Paragraph,
    Raised,
    Section,
    Side,
    Strong,
    Table,
)
from app.report.svg import NARROW, WIDE, Drawing, swatch
from app.report.text import clean
from indexer.base.text import harmless

_WHOLE = r'<span class="whole">\g<0></span>'  # not to be broken into lines
_UNBROKEN = re.compile(r"[\d.]+–[\d.]+|\b[nkp] (?:=|&lt;) [\d.,]*\d")
_STYLE = Path(__file__).with_name("report.css")


def to_html(document: Document) -> str:
    """The whole page."""
    plain = "".join(_words(part) for part in document.title)
    links = "".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in document.sections)
    page = _Page()
    opening = "".join(map(page.block, document.opening))
    sections = "".join(map(page.section, document.sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(clean(plain))}</title>\n<style>\n{_STYLE.read_text('utf-8')}</style>\n</head>\n<body>\n"
        f"<header><h1>{_line(document.title)}</h1>{opening}</header>\n"
        f'<nav aria-label="Sections">{links}</nav>\n<main>\n{sections}</main>\n</body>\n</html>\n'
    )


def sections_html(sections: Sequence[Section]) -> str:
    """Sections to be put into another page, which brings a style of its own."""
    return "".join(map(_Page().section, sections))


class _Page:
    """Blocks of one page; tables and figures are numbered, so that labels can name them."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def section(self, section: Section) -> str:
        blocks = "".join(map(self.block, section.blocks))
        return (
            f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-title">'
            f'<h2 id="{section.anchor}-title">{escape(section.title)}</h2>{blocks}</section>\n'
        )

    def block(self, block: Block) -> str:
        match block:
            case Paragraph():
                return f'<p class="{block.kind}">{_line(block.line)}</p>'
            case Heading():
                return f"<h3>{escape(block.text)}</h3>"
            case Bullets():
                return f"<ul>{''.join(f'<li>{_line(line)}</li>' for line in block.lines)}</ul>"
            case Facts():
                return _facts(block)
            case Table():
                return self._table(block)
            case Figure():
                return self._figure(block)
            case Cases():
                return f'<ol class="cases">{"".join(map(_case, block.cases))}</ol>'
            case Folded():
                inner = "".join(map(self.block, block.blocks))
                return f"<details><summary>{_line(block.summary)}</summary>{inner}</details>"

    def _table(self, table: Table) -> str:
        anchor = f"table-{next(self._numbers)}"
        head = "".join(map(_column, table.columns))
        above = (None, *table.rows)
        rows = "".join(f"<tr>{_row(*pair, table)}</tr>" for pair in zip(table.rows, above, strict=False))
        # wider than the page, it scrolls by itself; the keyboard must reach it then
        return (
            f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{anchor}"><table>'
            f'<caption id="{anchor}"><span>{escape(clean(table.caption))}</span></caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
        )

    def _figure(self, figure: Figure) -> str:
        table = self._table(figure.table)
        if figure.folded:
            table = f"<details><summary>The values as a table</summary>{table}</details>"
        wide, narrow = (figure.chart.draw(size, figure.alternative) for size in (WIDE, NARROW))
        return (
            f"<figure><figcaption><h3>{escape(clean(figure.title))}</h3></figcaption>"
            f'<div class="wide">{wide.svg}{_legend(wide)}</div>'
            f'<div class="narrow">{narrow.svg}{_legend(narrow)}</div>'
            f"{table}</figure>\n"
        )


def _line(line: Line) -> str:
    return "".join(map(_part, line))


def _part(part: str | Data | Strong | Raised) -> str:
    match part:
        case str():
            return _UNBROKEN.sub(_WHOLE, escape(harmless(part)))
        case Data():
            words = escape(clean(part.text))
            if part.kind == "code":  # an option is not broken after its hyphens
                words = re.sub(r"(?<!\S)-\S{1,30}(?!\S)", _WHOLE, words)
                return f"<code><bdi>{words}</bdi></code>"
            if part.kind == "name":
                words = re.sub(r"[_./@+]", r"\g<0><wbr>", words)
            return f"<bdi>{words}</bdi>"
        case Strong():
            return f"<strong>{_part(part.text)}</strong>"
        case Raised():
            return f"<sup>{escape(part.text)}</sup>"


def _words(part: str | Data | Strong | Raised) -> str:
    match part:
        case str():
            return part
        case Data() | Raised():
            return part.text
        case Strong():
            return _words(part.text)


def _facts(facts: Facts) -> str:
    rows = "".join(
        f"<div><dt>{escape(clean(name))}</dt>{''.join(f'<dd>{_line(line)}</dd>' for line in lines)}</div>"
        for name, lines in facts.rows
    )
    return f'<dl class="facts">{rows}</dl>'


def _column(column: Column) -> str:
    kind = ' class="number"' if column.numeric else ""
    return f'<th scope="col"{kind}>{_line(column.line)}</th>'


def _row(row: tuple[Cell, ...], above: tuple[Cell, ...] | None, table: Table) -> str:
    cells = []
    for place, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
        is_head = place < table.headers
        # The name of a group is not shown again in its other rows, but still read aloud.
        again = table.grouped and place == 0 and above is not None and above[0] == cell
        kinds = [
            k for k, given in (("number", column.numeric), ("best", cell.best), ("again", again)) if given
        ]
        words = f"<b>{_line(cell.line)}</b>" if cell.best else _line(cell.line)
        words += f' <span class="interval">{escape(cell.interval)}</span>' if cell.interval else ""
        if again:
            words = f'<span class="unseen">{words}</span>'
        tag, scope = ("th", ' scope="row"') if is_head else ("td", "")
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        cells.append(f"<{tag}{scope}{kind}>{words}</{tag}>")
    return "".join(cells)


def _legend(drawing: Drawing) -> str:
    rows = "".join(
        f"<li>{swatch(number)}<bdi>{escape(name)}</bdi></li>" for number, name in enumerate(drawing.legend)
    )
    return f'<ul class="legend">{rows}</ul>' if rows else ""


def _case(case: Case) -> str:
    answers = "; ".join(f"<bdi>{escape(clean(answer))}</bdi>" for answer in case.answers)
    answered = f'<p class="answers">Answers: {answers}</p>' if answers else ""
    return (
        f'<li><p class="question" dir="auto">{escape(clean(case.question))}</p>{answered}'
        f'<div class="sides">{"".join(map(_side, case.sides))}</div></li>'
    )


def _side(side: Side) -> str:
    mark = {True: '<span class="right">✓ right</span>', False: '<span class="wrong">✗ wrong</span>'}
    judged = f"{mark[side.right]} " if side.right is not None else ""
    top = ""
    if side.title or side.text:
        top = f'<p class="top">{judged}<cite><bdi>{escape(clean(side.title))}</bdi></cite></p>'
    text = f'<blockquote dir="auto">{escape(clean(side.text))}</blockquote>' if side.text else ""
    return (
        f'<div class="side"><p class="found"><strong><bdi>{escape(clean(side.pipeline))}</bdi></strong> '
        f"{escape(side.found)}</p>{top}{text}</div>"
    )
