"""The results as a table on the screen: measures down, pipelines and runs across, or turned round."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WITH_INTERVAL = ("accuracy@20", "nDCG@10")
_WIDTH_OF_LOGS = 160
_MOST_COLUMNS = 6


def results_console(*, stderr: bool) -> Console:
    """A console as wide as the terminal; in a file or pipe wide enough not to fold the table."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDTH_OF_LOGS)


def results_table(results: dict[str, Any]) -> Table:
    """A table of what `runner.evaluate` returned: a column a pipeline, or a row if there are many.

    The best value of a measure is bold (all of them if several are equal). Accuracy is in percent.
    The main measures show their 95 % interval below the value.
    """
    pipelines: dict[str, Any] = results["pipelines"]
    measures = list(dict.fromkeys(m for report in pipelines.values() for m in report["measures"]))
    with_interval = [m for m in measures if m in _WITH_INTERVAL] or measures[:1]
    cells: list[list[str | Text]] = [
        [_label(measure), *_row(measure, pipelines, measure in with_interval)] for measure in measures
    ]
    speeds = [report["queries_per_second"] for report in pipelines.values()]
    cells.append(["questions/s", *(Text("-" if speed is None else f"{speed:,.1f}") for speed in speeds)])
    header: list[str | Text] = ["", *map(Text, pipelines)]
    if len(pipelines) > _MOST_COLUMNS:
        header, *cells = ([*row] for row in zip(header, *cells, strict=True))
    table = Table(caption=_caption(results), caption_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=number == 0)
    for row in cells:
        table.add_row(*row)
    return table


def _row(measure: str, pipelines: dict[str, Any], interval: bool) -> list[Text]:
    """The cells of one measure."""
    values = [report["measures"].get(measure) for report in pipelines.values()]
    best = max(value["mean"] for value in values if value is not None)
    row = []
    for value in values:
        if value is None:
            row.append(Text("-"))
            continue
        is_best = len(pipelines) > 1 and value["mean"] == best
        cell = Text(_number(measure, value["mean"]), style="bold" if is_best else "")
        if interval:
            low, high = _number(measure, value["low"]), _number(measure, value["high"])
            cell.append(f"\n{low} - {high}", style="not bold dim")
        row.append(cell)
    return row


def _label(measure: str) -> str:
    return f"{measure} %" if _in_percent(measure) else measure


def _caption(results: dict[str, Any]) -> str:
    parts = [f"{results['counts']['queries']:,} questions", f"{results['depth']} results each"]
    if results["judged_level"] == "documents":
        parts.append("judgements on documents: each counts where its best passage stands")
    return "; ".join([*parts, "below a value: its 95 % interval"])


def _in_percent(measure: str) -> bool:
    return measure.startswith("accuracy@")


def _number(measure: str, value: float) -> str:
    return f"{value * 100:.1f}" if _in_percent(measure) else f"{value:.3f}"
