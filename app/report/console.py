"""Tables on the terminal: measures down, pipelines and runs across, or transposed; and the test sets."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkseek.app.evaluation.results import SIGNIFICANT, Results
from linkseek.app.report import text
from linkseek.app.testsets.listing import TestSetRow
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
    cells: list[list[str | Text]] = [[text.label(m), *_row(results, m)] for m in results.measures]
    speeds = [pipeline.queries_per_second for pipeline in results.pipelines.values()]
    cells.append(["questions/s", *(Text("-" if speed is None else f"{speed:,.1f}") for speed in speeds)])
    header: list[str | Text] = ["", *map(Text, results.names)]
    if len(results.names) > _MAX_COLUMNS:
        header, *cells = ([*row] for row in zip(header, *cells, strict=True))
    table = Table(caption=Text(_caption(results)), caption_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", no_wrap=number == 0)
    for row in cells:
        table.add_row(*row)
    return table


def _row(results: Results, measure: str) -> list[Text]:
    """The cells of one measure. Stars have a place of their own, so that the digits line up."""
    scores = results.scores(measure)
    best = max(score.mean for score in scores.values())
    starred = [name for name in scores if results.significant(name, measure)]
    row = []
    for name in results.names:
        if name not in scores:
            row.append(Text("-"))
            continue
        score = scores[name]
        is_best = len(results.names) > 1 and score.mean == best
        cell = Text(text.value(measure, score.mean), style="bold" if is_best else "")
        if starred:
            cell.append(_STAR if name in starred else " ", style="not bold")
        if measure == results.main_measure:
            low, high = text.value(measure, score.low), text.value(measure, score.high)
            cell.append(f"\n{low} - {high}", style="not bold dim")
        row.append(cell)
    return row


def _caption(results: Results) -> str:
    parts = [counted(results.counts.queries, "question"), f"{results.depth} results each"]
    if results.judged_level == "documents":
        parts.append("judgements on documents: each has the rank of its best passage")
    lines = ["; ".join([*parts, f"under {results.main_measure} its 95 % interval"])]
    if len(results.names) > 1:
        differs = any(results.significant(n, m) for n in results.names for m in results.measures)
        outcome = f"{_STAR} differs" if differs else "nothing differs significantly"
        test = f"p < {SIGNIFICANT:g}, paired randomisation test, Holm's correction"
        lines.append(f"{outcome} from {results.baseline} ({test})")
    return "\n".join(lines)


def test_sets_table(rows: Sequence[TestSetRow]) -> Table:
    """All test sets, and what each one needs to be used here."""
    table = Table("name", "questions", "what", "licence", "here")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
