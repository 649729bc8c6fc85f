"""The results as a table on the screen: measures down, pipelines and runs across, or turned round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.report import text
from app.testsets.listing import TestSetRow
from indexer.base.text import counted

SIGNIFICANT = 0.05
_STAR = "*"
_WIDTH_OF_LOGS = 160
_MOST_COLUMNS = 6


def results_console(*, stderr: bool) -> Console:
    """A console as wide as the terminal; in a file or pipe wide enough not to fold the table."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDTH_OF_LOGS)


def results_table(results: dict[str, Any]) -> Table:
    """A table of what `runner.evaluate` returned: a column a pipeline, or a row if there are many.

    The best value of a measure is bold (all of them if several are equal). Accuracy is in percent. A
    star says that a value differs significantly from the baseline's. The main measure shows its 95 %
    interval below the value.
    """
    pipelines: dict[str, Any] = results["pipelines"]
    starred = _significant(results)
    cells: list[list[str | Text]] = [
        [text.label(measure), *_row(measure, pipelines, starred, measure == results["main_measure"])]
        for measure in results["measures"]
    ]
    speeds = [report["queries_per_second"] for report in pipelines.values()]
    cells.append(["questions/s", *(Text("-" if speed is None else f"{speed:,.1f}") for speed in speeds)])
    header: list[str | Text] = ["", *map(Text, pipelines)]
    if len(pipelines) > _MOST_COLUMNS:
        header, *cells = ([*row] for row in zip(header, *cells, strict=True))
    table = Table(caption=Text(_caption(results)), caption_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=number == 0)
    for row in cells:
        table.add_row(*row)
    return table


def _significant(results: dict[str, Any]) -> set[tuple[str, str]]:
    """(pipeline, measure) whose difference from the baseline is significant."""
    baseline = results["baseline"]
    return {
        (comparison["b"] if comparison["a"] == baseline else comparison["a"], comparison["measure"])
        for comparison in results["comparisons"]
        if baseline in (comparison["a"], comparison["b"]) and comparison["p_randomisation_holm"] < SIGNIFICANT
    }


def _row(
    measure: str, pipelines: dict[str, Any], starred: set[tuple[str, str]], interval: bool
) -> list[Text]:
    """The cells of one measure. Stars stand in a place of their own, so that the digits line up."""
    values = {name: report["measures"].get(measure) for name, report in pipelines.items()}
    best = max(value["mean"] for value in values.values() if value is not None)
    any_star = any((name, measure) in starred for name in values)
    row = []
    for name, value in values.items():
        if value is None:
            row.append(Text("-"))
            continue
        is_best = len(pipelines) > 1 and value["mean"] == best
        cell = Text(text.value(measure, value["mean"]), style="bold" if is_best else "")
        if any_star:
            cell.append(_STAR if (name, measure) in starred else " ", style="not bold")
        if interval:
            low, high = text.value(measure, value["low"]), text.value(measure, value["high"])
            cell.append(f"\n{low} - {high}", style="not bold dim")
        row.append(cell)
    return row


def _caption(results: dict[str, Any]) -> str:
    parts = [counted(results["counts"]["queries"], "question"), f"{results['depth']} results each"]
    if results["judged_level"] == "documents":
        parts.append("judgements on documents: each counts where its best passage stands")
    lines = ["; ".join([*parts, f"under {results['main_measure']} its 95 % interval"])]
    if len(results["pipelines"]) > 1:
        what = f"{_STAR} differs" if _significant(results) else "nothing differs significantly"
        how = f"p < {SIGNIFICANT:g}, paired randomisation test, Holm's correction"
        lines.append(f"{what} from {results['baseline']} ({how})")
    return "\n".join(lines)


def test_sets_table(rows: Sequence[TestSetRow]) -> Table:
    """The test sets that there are, and what each one needs to be used here."""
    table = Table("name", "questions", "what", "licence", "here")
    for row in rows:
        table.add_row(*map(Text, (row.name, row.queries, row.title, row.licence, row.state)))
    return table
