"""How long a question takes, stage by stage."""

from __future__ import annotations

from app.report import text
from app.report.bar_chart import Bar, BarChart
from app.report.document import (
    Block,
    Data,
    Figure,
    Paragraph,
    Section,
    Table,
    cell,
    names,
    numbers,
)
from app.report.results import Percentiles, Results

TOTAL = "total"


def latency_section(results: Results) -> Section | None:
    """Percentiles of every stage, and a bar for each pipeline's total. Run files have none."""
    measured = {name: p.latency for name, p in results.pipelines.items() if p.latency}
    if not measured:
        return None
    rows = tuple(
        (
            cell(Data(name, "name")),
            cell(Data(stage)),
            *(cell(text.milliseconds(seconds)) for seconds in (found.p50, found.p95, found.p99)),
            cell(text.NOTHING if found.questions is None else f"{found.questions:,}"),
        )
        for name, stages in measured.items()
        for stage, found in stages.items()
    )
    columns = (*names("pipeline", "stage"), *numbers("p50, ms", "p95, ms", "p99, ms", "questions"))
    table = Table("Milliseconds a question: median, 95th and 99th percentile", columns, rows, 2, grouped=True)
    blocks: list[Block] = []
    totals = {name: stages.get(TOTAL) for name, stages in measured.items()}
    bars = tuple(_bar(name, total) for name, total in totals.items() if total and (total.p50 or 0) > 0)
    if bars:
        x_title = "milliseconds a question: median (bar) / 95th percentile (line)"
        chart = BarChart(bars, x_title, lambda tick: f"{tick:,.4g}")
        said = "Bars of the median time of a question, with lines to the 95th percentile"
        alternative = f"{said}; the table below has the values."
        blocks.append(Figure("Time of a question", alternative, chart, table, folded=False))
    else:
        blocks.append(table)
    missing = [name for name in results.names if name not in measured]
    if missing:
        without = ", ".join(missing)
        blocks.append(Paragraph(("Not measured, such as run files are: ", Data(without), "."), "note"))
    return Section("latency", "Latency", tuple(blocks))


def _bar(name: str, total: Percentiles) -> Bar:
    p50, p95, p99 = map(text.milliseconds, (total.p50, total.p95, total.p99))
    return Bar(
        name,
        (total.p50 or 0) * 1000,
        None if total.p95 is None else total.p95 * 1000,
        f"{p50} / {p95} ms",
        f"{name}: p50 {p50} ms, p95 {p95} ms, p99 {p99} ms",
    )
