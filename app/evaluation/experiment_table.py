"""An experiment's table for people: what was measured, and beside it what the paper printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table as ConsoleTable
from rich.text import Text

from app.report import text
from app.report.document import (
    Bullets,
    Cell,
    Data,
    Document,
    Paragraph,
    Section,
    Table,
    cell,
    names,
    numbers,
)


def table_document(table: Mapping[str, Any]) -> Document:
    """`cells.run_experiment`'s table as a report: a table for each column, and why cells are empty."""
    source = [Paragraph((Data(table["source"]), ". ", Data(_caption(table))))]
    note = [Paragraph((Data(table["note"]),), "note")] if table["note"] else []
    sections = [_section(table, number) for number in range(len(table["columns"]))]
    if why := reasons(table):
        sections.append(Section("empty", "Empty cells", (Bullets(tuple((Data(r),) for r in why)),)))
    return Document((Data(table["title"]),), (*source, *note), tuple(sections))


def _section(table: Mapping[str, Any], number: int) -> Section:
    """One column of the experiment: its measures across, the methods down."""
    column = table["columns"][number]
    grouped = any(row["group"] for row in table["rows"])
    heads = names("", "") if grouped else names("")
    rows = []
    for row in table["rows"]:
        left = (cell(Data(row["group"])),) if grouped else ()
        found = row["cells"][number]
        figures = (_document_cell(m, found["status"], found["measures"][m]) for m in column["measures"])
        rows.append((*left, cell(Data(row["name"])), *figures))
    shown = Table(
        f"{column['test_set']}, with 95 % intervals",
        (*heads, *numbers(*map(text.label, column["measures"]))),
        tuple(rows),
        2 if grouped else 1,
        grouped=grouped,
    )
    return Section(f"column-{number + 1}", text.clean(column["title"]), (shown,))


def _document_cell(measure: str, status: str, figure: Mapping[str, Any]) -> Cell:
    beside = [text.interval(measure, figure.get("low"), figure.get("high"))]
    if figure["expected"] is not None:
        beside.append(f"paper: {_printed(measure, figure['expected'])}")
    return cell(_measured(measure, status, figure), interval="; ".join(part for part in beside if part))


def console_table(table: Mapping[str, Any]) -> ConsoleTable:
    """The same for a terminal, printed figures in brackets."""
    shown = ConsoleTable(title=table["title"], caption=_caption(table), caption_justify="left")
    shown.add_column("", no_wrap=True)
    for title, measure in _columns(table):
        shown.add_column(Text(f"{title}\n{measure}"), justify="right")
    group = ""
    for row in table["rows"]:
        if row["group"] != group:
            group = row["group"]
            shown.add_section()
            shown.add_row(Text(group, style="italic"))
        shown.add_row(Text(row["name"]), *(Text(_figure(*cell)) for cell in _cells(table, row)))
    return shown


def reasons(table: Mapping[str, Any]) -> list[str]:
    """Why cells are empty, each reason once, with the rows that it concerns."""
    rows_of: dict[str, list[str]] = {}
    for row in table["rows"]:
        for found in row["cells"]:
            if found["reason"]:
                concerned = rows_of.setdefault(f"{found['status']}: {found['reason']}", [])
                if row["name"] not in concerned:
                    concerned.append(row["name"])
    every = [row["name"] for row in table["rows"]]
    return [
        f"{reason} ({'all rows' if concerned == every else ', '.join(concerned)})"
        for reason, concerned in rows_of.items()
    ]


def _caption(table: Mapping[str, Any]) -> str:
    some_printed = any(
        figure["expected"] is not None
        for row in table["rows"]
        for found in row["cells"]
        for figure in found["measures"].values()
    )
    parts = [
        "Beside what was measured: what the paper printed" if some_printed else "No figures are expected"
    ]
    limits = {column["title"]: column["limit"] for column in table["columns"] if column["limit"]}
    parts += [f"at most {limit:,} questions of {title}" for title, limit in limits.items()]
    return "; ".join([*parts, f"index {', '.join(table['indexes'].values())}"]) + "."


def _columns(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for column in table["columns"]:
        for measure in column["measures"]:
            yield column["title"], measure


def _cells(table: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for column, found in zip(table["columns"], row["cells"], strict=True):
        for measure in column["measures"]:
            yield measure, found["status"], found["measures"][measure]


def _figure(measure: str, status: str, figure: Mapping[str, Any]) -> str:
    """ "24.0 (43.6)", "no pipeline (51.2)" """
    shown = _measured(measure, status, figure)
    expected = figure["expected"]
    return shown if expected is None else f"{shown} ({_printed(measure, expected)})"


def _measured(measure: str, status: str, figure: Mapping[str, Any]) -> str:
    """ "24.0", "24.0 ±0.3" of several seeds, or why there is none."""
    if "mean" not in figure:
        return "-" if status == "printed only" else status
    shown = text.value(measure, figure["mean"])
    spread = figure["spread_of_seeds"]
    return shown if spread is None else f"{shown} ±{text.value(measure, spread)}"


def _printed(measure: str, expected: float) -> str:
    """A paper's figure, which is in percent already, with as many decimals as it has."""
    if text.in_percent(measure):
        return text.value(measure, expected / 100)
    return text.decimals(expected, max(3, len(str(expected).partition(".")[2])))
