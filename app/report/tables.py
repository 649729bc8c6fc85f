"""Tables of results: cells with their marks, before they are HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from linkseek.app.evaluation.by_question import QuestionRow
from linkseek.app.evaluation.results import Binned, Comparison, Group, Results, Share
from linkseek.app.report import text

BETTER, WORSE = "†", "‡"
_NONE = Share(mean=None, low=None, high=None)


class Cell(NamedTuple):
    """A cell of a table. kind: a "name" is of a pipeline, "data" any foreign text.

    best: in bold. interval: shown below or after the text. bar: the interval, drawn. mark: one that is
    explained below the table.
    """

    text: str
    kind: Literal["", "name", "data"] = ""
    best: bool = False
    interval: str = ""
    bar: str = ""
    mark: str = ""


class ReportColumn(NamedTuple):
    """The head of a column. numeric: its cells are aligned to the right."""

    text: str
    numeric: bool = True


class ReportTable(NamedTuple):
    """Rows with a cell for each column.

    headers: how many cells at the left name their row. grouped: rows with the same first cell belong
    together.
    """

    caption: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    headers: int = 1
    grouped: bool = False


def columns(names: Sequence[str], numbers: Sequence[str]) -> tuple[ReportColumn, ...]:
    """Columns of text, then columns of numbers."""
    return (*(ReportColumn(name, numeric=False) for name in names), *map(ReportColumn, numbers))


def scores_table(results: Results) -> ReportTable:
    """Pipelines down, measures across; the main measure with intervals, marks of significance."""
    several = len(results.names) > 1
    rows = []
    for name, pipeline in results.pipelines.items():
        row = [Cell(name, "name")]
        for measure in results.measures:
            score = pipeline.measures.get(measure)
            if score is None:
                row.append(Cell(text.NOTHING))
                continue
            best = several and score.mean == max(other.mean for other in results.scores(measure).values())
            is_main = measure == results.main_measure
            interval = text.interval(measure, score.low, score.high) if is_main else ""
            shown, mark = text.value(measure, score.mean), baseline_mark(results, name, measure)
            bar = text.bar(score.low, score.mean, score.high) if interval else ""
            row.append(Cell(shown, best=best, interval=interval, bar=bar, mark=mark))
        rows.append(tuple(row))
    caption = "Measures of each pipeline" + ("; the best of a column is bold" if several else "")
    return ReportTable(caption, columns(["pipeline"], [text.label(m) for m in results.measures]), tuple(rows))


def baseline_mark(results: Results, name: str, measure: str) -> str:
    """The mark of a significant difference from the baseline, or ""."""
    pair = results.significant(name, measure)
    return "" if pair is None else BETTER if pair.difference > 0 else WORSE


def pairs_table(
    measure: str, pairs: Sequence[Comparison], caption: str, compared: str = "pipeline"
) -> ReportTable:
    """One measure: a row for each pair, b compared with a. compared: the word for the compared values."""
    unit = "points" if text.in_percent(measure) else "difference"
    heads = columns(
        [compared, "compared with"], [unit, "p", "p, t-test", "p, level", "wins/ties/losses", "d"]
    )
    rows = tuple(
        (
            Cell(pair.b, "name"),
            Cell(pair.a, "name"),
            Cell(
                text.difference(measure, pair.difference),
                best=pair.significant,
                interval=text.difference_interval(measure, pair.low, pair.high),
            ),
            Cell(text.probability(pair.p), best=pair.significant),
            Cell(text.probability(pair.p_t_holm)),
            Cell(text.probability(pair.p_equivalence)),
            Cell(f"{pair.wins:,}/{pair.ties:,}/{pair.losses:,}"),
            Cell(text.decimals(pair.effect_size, 2)),
        )
        for pair in pairs
    )
    return ReportTable(caption, heads, rows, headers=2)


def curves_table(results: Results, depths: Sequence[int]) -> ReportTable:
    """The measure of the curves at some depths."""
    curves = results.curves
    rows = []
    for name, values in curves.pipelines.items():
        at = dict(zip(curves.ks, values, strict=True))
        rows.append((Cell(name, "name"), *(Cell(text.value(curves.measure, at[k])) for k in depths)))
    caption = f"{text.label(curves.measure)} by the number of results"
    return ReportTable(caption, columns(["pipeline"], [f"k = {k:,}" for k in depths]), tuple(rows))


def bins_table(results: Results, binned: Binned) -> ReportTable:
    """The main measure over bins of questions, with intervals."""
    measure, unit = results.main_measure, " %" if text.is_share(binned) else ""
    named = zip(text.bin_ends(binned), binned.bins, strict=True)
    heads = [f"{ends}{unit}, n = {bin_.queries:,}" for ends, bin_ in named]
    rows = []
    for name in results.names:
        shares = [bin_.pipelines.get(name, _NONE) for bin_ in binned.bins]
        cells = [
            Cell(text.NOTHING)
            if share.mean is None
            else Cell(text.value(measure, share.mean), interval=text.interval(measure, share.low, share.high))
            for share in shares
        ]
        if any(share.mean is not None for share in shares):
            rows.append((Cell(name, "name"), *cells))
    caption = f"{text.label(measure)} by {binned.label}, with 95 % intervals"
    return ReportTable(caption, columns(["pipeline"], heads), tuple(rows))


def groups_table(results: Results, groups: dict[str, Group], measure: str) -> ReportTable:
    """One measure over groups of questions; the best of each group is bold."""
    rows = []
    for name in results.names:
        row = [Cell(name, "name")]
        for group in groups.values():
            means = {n: measures.get(measure) for n, measures in group.pipelines.items()}
            best = max((mean for mean in means.values() if mean is not None), default=None)
            mean = means.get(name)
            shown = text.NOTHING if mean is None else text.value(measure, mean)
            row.append(Cell(shown, best=len(results.names) > 1 and mean is not None and mean == best))
        rows.append(tuple(row))
    heads = [f"{name}, n = {group.queries:,}" for name, group in groups.items()]
    return ReportTable(f"{text.label(measure)} by group", columns(["pipeline"], heads), tuple(rows))


def questions_table(measure: str, a: str, b: str, rows: Sequence[QuestionRow]) -> ReportTable:
    """The values of two pipelines for some questions."""
    shown = tuple(
        (Cell(row.text or row.id, "data"), *(Cell(text.value(measure, row.values[name])) for name in (a, b)))
        for row in rows
    )
    return ReportTable(f"{text.label(measure)}, question by question", columns(["question"], [a, b]), shown)


def latency_table(results: Results) -> ReportTable:
    """Percentiles of every stage of the pipelines that were timed."""
    rows = tuple(
        (
            Cell(name, "name"),
            Cell(stage, "data"),
            *(Cell(text.milliseconds(seconds)) for seconds in (latency.p50, latency.p95, latency.p99)),
            Cell(f"{latency.questions:,}"),
        )
        for name, pipeline in results.pipelines.items()
        for stage, latency in (pipeline.latency or {}).items()
    )
    heads = columns(["pipeline", "stage"], ["p50, ms", "p95, ms", "p99, ms", "questions"])
    caption = "Milliseconds for a question: median, 95th and 99th percentile"
    return ReportTable(caption, heads, rows, headers=2, grouped=True)
