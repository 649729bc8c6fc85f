"""The results as a table on the screen: a row for each pipeline or run, a column a measure."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WITH_INTERVAL = ("accuracy@20", "nDCG@10")
_WIDTH_OF_LOGS = 160


def results_console(*, stderr: bool) -> Console:
    """A console as wide as the terminal; in a file or pipe wide enough not to fold the table."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDTH_OF_LOGS)


def results_table(results: dict[str, Any]) -> Table:
    """A table of what `runner.evaluate` returned.

    The best value of a column is bold (all of them if several are equal). Accuracy is in percent.
    The main measures show their 95 % interval below the value.
    """
    pipelines: dict[str, Any] = results["pipelines"]
    measures = list(dict.fromkeys(m for report in pipelines.values() for m in report["measures"]))
    table = Table(caption=_caption(results), caption_justify="left")
    table.add_column("pipeline", no_wrap=True)
    for measure in measures:
        table.add_column(f"{measure} %" if _in_percent(measure) else measure, justify="right")
    table.add_column("questions/s", justify="right")
    with_interval = [m for m in measures if m in _WITH_INTERVAL] or measures[:1]
    best = {
        m: max(r["measures"][m]["mean"] for r in pipelines.values() if m in r["measures"]) for m in measures
    }
    for name, report in pipelines.items():
        cells = [Text(name)]
        for measure in measures:
            value = report["measures"].get(measure)
            if value is None:
                cells.append(Text("-"))
                continue
            is_best = len(pipelines) > 1 and value["mean"] == best[measure]
            cell = Text(_number(measure, value["mean"]), style="bold" if is_best else "")
            if measure in with_interval:
                low, high = _number(measure, value["low"]), _number(measure, value["high"])
                cell.append(f"\n{low} - {high}", style="not bold dim")
            cells.append(cell)
        speed = report["queries_per_second"]
        cells.append(Text("-" if speed is None else f"{speed:,.1f}"))
        table.add_row(*cells)
    return table


def _caption(results: dict[str, Any]) -> str:
    parts = [f"{results['counts']['queries']:,} questions", f"{results['depth']} results each"]
    if results["judged_level"] == "documents":
        parts.append("judgements on documents: each counts where its best passage stands")
    return "; ".join([*parts, "below a value: its 95 % interval"])


def _in_percent(measure: str) -> bool:
    return measure.startswith("accuracy@")


def _number(measure: str, value: float) -> str:
    return f"{value * 100:.1f}" if _in_percent(measure) else f"{value:.3f}"
