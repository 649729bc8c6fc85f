"""Tables on the terminal: measures down, pipelines and runs across, or transposed; and the test sets."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkseek.app.evaluation.results import SIGNIFICANT, Results
from linkseek.app.report.tables import Cell, scores_table
from linkseek.app.testsets.registry import TestSetRow
from linkseek.indexer.program.text import counted

_STAR = "*"
_WIDTH_OF_LOGS = 160
_MAX_COLUMNS = 6


def results_console(*, stderr: bool) -> Console:
    """A console as wide as the terminal; in a file or pipe wide enough not to fold the table."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_WIDTH_OF_LOGS)


def results_table(results: Results) -> Table:
    """A table with a column for each pipeline, or a row if there are many.

    The best value of a measure is bold (all of them if several are equal). Accuracy is in percent. A
    star marks a value that differs significantly from the baseline's. The main measure has its 95 %
    interval below the value.
    """
    scores = scores_table(results)
    starred = any(cell.mark for row in scores.rows for cell in row)
    heads = [Text(), *(Text(column.text) for column in scores.columns[1:]), Text("questions/s")]
    rows = [heads]
    for line, pipeline in zip(scores.rows, results.pipelines.values(), strict=True):
        speed = pipeline.queries_per_second
        asked = Text("-" if speed is None else f"{speed:,.1f}")
        rows.append([*(_shown(cell, starred=starred) for cell in line), asked])
    if len(results.names) <= _MAX_COLUMNS:
        rows = [[*row] for row in zip(*rows, strict=True)]
    table = Table(caption=Text(_caption(results)), caption_justify="left")
    for number, head in enumerate(rows[0]):
        table.add_column(head, justify="right" if number else "left", no_wrap=number == 0)
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _shown(cell: Cell, *, starred: bool) -> Text:
    """A cell. starred: whether stars have a place of their own, so that the digits line up."""
    text = Text(cell.text, style="bold" if cell.best else "")
    if starred and not cell.kind:
        text.append(_STAR if cell.mark else " ", style="not bold")
    return text.append(f"\n{cell.interval}", style="not bold dim") if cell.interval else text


def _caption(results: Results) -> str:
    parts = [counted(results.counts.queries, "question"), f"{results.depth} results each"]
    if results.judged_level == "documents":
        parts.append("judgements on documents: each has the rank of its best passage")
    lines = ["; ".join([*parts, f"under {results.main_measure} its 95 % interval"])]
    if len(results.names) > 1:
        differs = any(results.significant(n, m) for n in results.names for m in results.measures)
        outcome = f"{_STAR} differs" if differs else "no difference is significant"
        test = f"p < {SIGNIFICANT:g}, paired randomisation test, Holm's correction"
        lines.append(f"{outcome} from {results.baseline} ({test})")
    return "\n".join(lines)


def test_sets_table(rows: Sequence[TestSetRow]) -> Table:
    """All test sets, and the missing files of each."""
    table = Table("name", "questions", "what", "licence", "here")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
