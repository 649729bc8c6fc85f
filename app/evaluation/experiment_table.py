"""An experiment's table for people: what was measured, and in brackets what the paper printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

_MARKS = {"not built": "not built yet", "missing": "missing", "failed": "failed", "printed only": "-"}


def markdown_table(table: Mapping[str, Any]) -> str:
    """`cells.run_experiment`'s table as Markdown, with the reasons of empty cells below it."""
    header = ["", *(f"{title} {measure}" for title, measure in _columns(table))]
    lines = [_line(header), _line(["---"] + ["---:"] * (len(header) - 1))]
    group = ""
    for row in table["rows"]:
        if row["group"] != group:
            group = row["group"]
            lines.append(_line([f"*{_escaped(group)}*"] + [""] * (len(header) - 1)))
        lines.append(_line([_escaped(row["name"]), *(_figure(*cell) for cell in _cells(table, row))]))
    parts = [
        f"# {_escaped(table['title'])}",
        f"{_escaped(table['source'])}. {_caption(table)}",
        _escaped(table["note"]),
        "\n".join(lines),
        "\n".join(f"- {_escaped(reason)}" for reason in reasons(table)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def console_table(table: Mapping[str, Any]) -> Table:
    """The same for a terminal."""
    shown = Table(title=table["title"], caption=_caption(table), caption_justify="left")
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
        for cell in row["cells"]:
            if cell["reason"]:
                names = rows_of.setdefault(f"{_MARKS[cell['status']]}: {cell['reason']}", [])
                if row["name"] not in names:
                    names.append(row["name"])
    every = [row["name"] for row in table["rows"]]
    return [
        f"{reason} ({'all rows' if names == every else ', '.join(names)})"
        for reason, names in rows_of.items()
    ]


def _caption(table: Mapping[str, Any]) -> str:
    some_printed = any(
        figure["expected"] is not None
        for row in table["rows"]
        for cell in row["cells"]
        for figure in cell["measures"].values()
    )
    parts = ["In brackets: what the paper printed" if some_printed else "No figures are expected"]
    if table["limit"]:
        parts.append(f"the first {table['limit']:,} questions of each set")
    return "; ".join([*parts, f"index {', '.join(table['indexes'].values())}"]) + "."


def _columns(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for column in table["columns"]:
        for measure in column["measures"]:
            yield column["title"], measure


def _cells(table: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for column, cell in zip(table["columns"], row["cells"], strict=True):
        for measure in column["measures"]:
            yield measure, cell["status"], cell["measures"][measure]


def _figure(measure: str, status: str, figure: Mapping[str, Any]) -> str:
    """ "24.0 (43.6)", "not built yet (51.2)", "24.0 ±0.3" """
    percent = measure.startswith(("accuracy@", "all@"))

    def shown(value: float) -> str:
        return f"{value * 100:.1f}" if percent else f"{value:.3f}"

    text = shown(figure["mean"]) if "mean" in figure else _MARKS[status]
    if figure.get("spread_of_seeds") is not None:
        text += f" ±{shown(figure['spread_of_seeds'])}"
    if figure["expected"] is not None:
        printed = figure["expected"]
        text += f" ({printed:.1f})" if percent else f" ({printed:.3f})"
    return text


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
