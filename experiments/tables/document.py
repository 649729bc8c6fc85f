"""An experiment's table for people: the measured figures next to the figures that the paper printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table as ConsoleTable
from rich.text import Text

from experiments.tables.definition import ExperimentTable, Figure, Status
from linkseek.app.evaluation.results import Comparison
from linkseek.app.report import text
from linkseek.app.report.render import ReportDocument, ReportSection
from linkseek.app.report.tables import Cell, ReportTable, columns, pairs_table


def table_document(table: ExperimentTable) -> ReportDocument:
    """A section for each column, and why cells are empty."""
    opening = {"source": table.source, "caption": _caption(table), "note": table.note}
    sections = [
        _section(f"column-{number + 1}", column.title, "column.j2", {"table": _column_table(table, number)})
        for number, column in enumerate(table.columns)
    ]
    for number, (column, pairs) in enumerate(zip(table.columns, table.differences, strict=True)):
        if pairs:
            shown = {"others": [_pairs(measure, pairs) for measure in column.measures]}
            title = f"Differences: {column.title}"
            sections.append(_section(f"differences-{number + 1}", title, "row_differences.j2", shown))
    if any(row.processor_hours is not None for row in table.rows):
        sections.append(_section("time", "Processor hours", "column.j2", {"table": _hours_table(table)}))
    if why := reasons(table):
        sections.append(_section("empty", "Empty cells", "reasons.j2", {"reasons": why}))
    return ReportDocument(table.title, _section("", "", "experiment.j2", opening), tuple(sections))


def _section(anchor: str, title: str, template: str, data: dict[str, Any]) -> ReportSection:
    return ReportSection(anchor, title, template, data, Path(__file__).with_name("templates"))


def _column_table(table: ExperimentTable, number: int) -> ReportTable:
    """One column of the experiment: its measures across, the methods down."""
    column = table.columns[number]
    grouped = any(row.group for row in table.rows)
    rows = []
    for row in table.rows:
        names = (row.group, row.name) if grouped else (row.name,)
        cell = row.cells[number]
        figures = (
            _document_cell(measure, cell.status, cell.measures[measure]) for measure in column.measures
        )
        rows.append((*(Cell(name, "data") for name in names), *figures))
    return ReportTable(
        f"{column.test_set}, with 95 % intervals",
        columns(["", ""] if grouped else [""], [text.label(measure) for measure in column.measures]),
        tuple(rows),
        headers=2 if grouped else 1,
        grouped=grouped,
    )


def _hours_table(table: ExperimentTable) -> ReportTable:
    """The processor time that making the models of each row took."""
    spent = [(row, row.processor_hours) for row in table.rows if row.processor_hours is not None]
    return ReportTable(
        "Of mining and training, on this machine; steps that rows share count in each of them",
        columns(["", ""], ["processor hours"]),
        tuple((Cell(row.group, "data"), Cell(row.name, "data"), Cell(f"{h:.2f}")) for row, h in spent),
        headers=2,
    )


def _pairs(measure: str, pairs: Sequence[Comparison]) -> tuple[str, int, ReportTable]:
    """A measure, how many pairs of rows differ by it, and all of them."""
    by_measure = [pair for pair in pairs if pair.measure == measure]
    count = sum(pair.significant for pair in by_measure)
    return measure, count, pairs_table(measure, by_measure, f"Pairs of rows, by {measure}", "row")


def _document_cell(measure: str, status: Status, figure: Figure) -> Cell:
    more = []
    if figure.measured:
        more.append(text.interval(measure, figure.measured.low, figure.measured.high))
    if figure.expected is not None:
        more.append(f"paper: {_printed(measure, figure.expected)}")
    return Cell(_measured(measure, status, figure), interval="; ".join(more))


def console_table(table: ExperimentTable) -> ConsoleTable:
    """The same for a terminal, printed figures in brackets."""
    shown = ConsoleTable(title=table.title, caption=_caption(table), caption_justify="left")
    shown.add_column("", no_wrap=True)
    for column in table.columns:
        for measure in column.measures:
            shown.add_column(Text(f"{column.title}\n{measure}"), justify="right")
    group = ""
    for row in table.rows:
        if row.group != group:
            group = row.group
            shown.add_section()
            shown.add_row(Text(group, style="italic"))
        cells = []
        for measure, status, figure in table.figures(row):
            printed = "" if figure.expected is None else f" ({_printed(measure, figure.expected)})"
            cells.append(Text(_measured(measure, status, figure) + printed))
        shown.add_row(Text(row.name), *cells)
    return shown


def reasons(table: ExperimentTable) -> list[str]:
    """Why cells are empty, each reason once, with the rows that it concerns."""
    rows_of: dict[str, list[str]] = {}
    for row in table.rows:
        for cell in row.cells:
            if cell.reason:
                concerned = rows_of.setdefault(f"{cell.status}: {cell.reason}", [])
                if row.name not in concerned:
                    concerned.append(row.name)
    every = [row.name for row in table.rows]
    return [
        f"{reason} ({'all rows' if concerned == every else ', '.join(concerned)})"
        for reason, concerned in rows_of.items()
    ]


def _caption(table: ExperimentTable) -> str:
    printed = any(figure.expected is not None for row in table.rows for _, _, figure in table.figures(row))
    none = "No figures are published for this corpus"
    parts = ["Next to each measured figure: the paper's" if printed else none]
    limits = {column.title: column.limit for column in table.columns if column.limit}
    parts += [f"At most {limit:,} questions of {title}" for title, limit in limits.items()]
    return ". ".join([*parts, f"Index: {', '.join(table.indexes.values())}"]) + "."


def _measured(measure: str, status: Status, figure: Figure) -> str:
    """The figure, as "24.0" or "24.0 ±0.3" of several seeds, or the reason why it is missing."""
    if figure.measured is None:
        return "-" if status == "printed only" else status
    shown, spread = text.value(measure, figure.measured.mean), figure.measured.spread_of_seeds
    return shown if spread is None else f"{shown} ±{text.value(measure, spread)}"


def _printed(measure: str, expected: float) -> str:
    """A paper's figure, which is in percent already, with as many decimals as it has."""
    if text.in_percent(measure):
        return text.value(measure, expected / 100)
    return text.decimals(expected, max(3, len(str(expected).partition(".")[2])))
