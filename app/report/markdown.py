"""A document as GitHub's Markdown: the same content, charts as their tables, nothing folded, no HTML.

What Markdown would read as markup in a foreign text is escaped; a text that runs from right to left stands
between isolating characters.
"""

from __future__ import annotations

import re
import unicodedata

from app.report.document import (
    Block,
    Bullets,
    Case,
    Cases,
    Cell,
    Data,
    Document,
    Facts,
    Figure,
    Folded,
    Heading,
    Line,
    Paragraph,
    Raised,
    Side,
    Strong,
    Table,
)
from app.report.text import clean
from indexer.base.text import harmless

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$&#!])")
_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_LIST = re.compile(r"^([-+=]|\d{1,9}(?=[.)]))")
_PLAIN_NAME = re.compile(r"[\w.:/@=+-]+", re.ASCII)  # others would break a table, or its direction
_ISOLATE, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


def to_markdown(document: Document) -> str:
    """The whole text."""
    blocks = [f"# {_line(document.title)}", *_blocks(document.opening, 2)]
    for section in document.sections:
        blocks += [f"## {section.title}", *_blocks(section.blocks, 3)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    """A foreign text as one line of Markdown that shows it and is nothing else."""
    text = _SPECIAL.sub(r"\\\1", clean(text))
    text = _LINK.sub(r"\\", text)  # else it becomes a link without being written as one
    text = _LIST.sub(lambda match: f"\\{match[1]}" if match[1] in "-+=" else f"{match[1]}\\", text)
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        return f"{_ISOLATE}{text}{_POP}"
    return text


def _blocks(blocks: tuple[Block, ...], level: int) -> list[str]:
    """Blocks under headings of this level."""
    written: list[str] = []
    for block in blocks:
        match block:
            case Paragraph():
                written.append(_line(block.line).strip())
            case Heading():
                written.append(f"{'#' * level} {escape(block.text)}")
            case Bullets():
                written.append("\n".join(f"- {_line(line)}" for line in block.lines))
            case Facts():
                written.append(_facts(block))
            case Table():
                written.append(_table(block))
            case Figure():
                written += [f"{'#' * level} {escape(block.title)}", _table(block.table)]
            case Cases():
                written.append(_cases(block))
            case Folded():
                written += [f"{'#' * level} {_line(block.summary)}", *_blocks(block.blocks, level + 1)]
    return written


def _line(line: Line) -> str:
    return "".join(map(_part, line))


def _part(part: str | Data | Strong | Raised) -> str:
    match part:
        case str():
            return _SPECIAL.sub(r"\\\1", harmless(part))
        case Data():
            if part.kind == "code" or (part.kind == "name" and _PLAIN_NAME.fullmatch(part.text)):
                return _code(clean(part.text))
            return escape(part.text)
        case Strong():
            return f"**{_part(part.text)}**"
        case Raised():
            return part.text


def _code(text: str) -> str:
    """A text between more backticks than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def _facts(facts: Facts) -> str:
    rows = []
    for name, lines in facts.rows:
        if len(lines) == 1:
            rows.append(f"- {escape(name)}: {_line(lines[0])}")
        else:
            rows += [f"- {escape(name)}:", *(f"  - {_line(line)}" for line in lines)]
    return "\n".join(rows)


def _table(table: Table) -> str:
    head = [_line(column.line) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
    return f"{escape(table.caption)}:\n\n{lines}"


def _cell(cell: Cell) -> str:
    text = _line(cell.line)
    if cell.interval:
        text += f" ({cell.interval})"
    return f"**{text}**" if cell.best else text


def _cases(cases: Cases) -> str:
    if not cases.cases:
        return ""
    head = ["", "question", "answers", *(escape(side.pipeline) for side in cases.cases[0].sides)]
    rows = [
        [str(number), escape(case.question), _answers(case), *map(_side, case.sides)]
        for number, case in enumerate(cases.cases, 1)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---:", *["---"] * 4], *rows))


def _answers(case: Case) -> str:
    return "; ".join(map(escape, case.answers)) or "-"


def _side(side: Side) -> str:
    mark = {True: "✓ right: ", False: "✗ wrong: ", None: ""}[side.right] if side.title or side.text else ""
    title = f"**{escape(side.title)}**" if side.title.strip() else ""
    parts = [side.found + ".", f"{mark}{title}", escape(side.text)]
    return " ".join(part for part in parts if part)
