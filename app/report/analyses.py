"""Charts: how a measure grows with depth, and how it depends on the kind of question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from app.report import text
from app.report.document import (
    Block,
    Cell,
    Data,
    Figure,
    Folded,
    Heading,
    Paragraph,
    Section,
    Table,
    cell,
    names,
    numbers,
)
from app.report.line_chart import LineChart, Point, Series
from app.report.results import Bin, Binned, Curves, Group, Results, Share
from indexer.base.text import counted

_SHOWN = frozenset(digit * 10**power for power in range(7) for digit in (1, 2, 5))


def curves_section(results: Results) -> Section | None:
    """The measure at every depth; a table of some depths."""
    curves = results.curves
    if curves is None:
        return None
    lines = {name: _points(curves, values, name) for name, values in curves.pipelines.items()}
    lines = {name: points for name, points in lines.items() if any(points)}
    if not lines:
        return None
    measure = curves.measure or "value"
    depths = sorted({int(point.x) for points in lines.values() for point in points if point})
    shown = [k for k in depths if k in _SHOWN or k == depths[-1]]
    chart = LineChart(
        tuple(
            Series(name, tuple(points), tuple(point for point in points if point and int(point.x) in shown))
            for name, points in lines.items()
        ),
        x_title="k: how many results are looked at (logarithmic scale)",
        y_title=text.label(f"{measure}@k"),
        format_y=_tick(measure),
    )
    at = {name: {int(point.x): point.y for point in points if point} for name, points in lines.items()}
    rows = [
        (cell(Data(name, "name")), *(_value(measure, values.get(k)) for k in shown))
        for name, values in at.items()
    ]
    table = Table(
        f"{text.label(measure)} by the number of results",
        (*names("pipeline"), *numbers(*(f"k = {k:,}" for k in shown))),
        tuple(rows),
    )
    title = f"{measure}@k for k from {depths[0]:,} to {depths[-1]:,}"
    figure = Figure(title, f"Lines of {title}; the table below has the values.", chart, table)
    return Section("curves", "How deep to look", (figure,))


def _points(curves: Curves, values: list[float | None], name: str) -> list[Point | None]:
    measure = curves.measure
    return [
        None if value is None else Point(k, value, title=f"{name}: {_said(measure, value)} at k = {k:,}")
        for k, value in zip(curves.ks, values, strict=False)
        if k >= 1
    ]


def kinds_section(results: Results) -> Section | None:
    """The main measure by overlap, by length, and all measures by groups."""
    if results.analyses is None:
        return None
    blocks: list[Block] = []
    for binned, title, percent in (
        (results.analyses.overlap, "By overlap of question and passage", True),
        (results.analyses.length, "By length of the question", False),
    ):
        if binned is not None:
            blocks += _binned(results, binned, title, percent)
    blocks += _groups(results)
    return Section("kinds", "Kinds of questions", tuple(blocks)) if blocks else None


def _binned(results: Results, binned: Binned, title: str, percent: bool) -> tuple[Block, ...]:
    bins = binned.bins
    lines = {name: [_bin_point(results, b, x, name) for x, b in enumerate(bins)] for name in results.names}
    lines = {name: points for name, points in lines.items() if any(points)}
    if not lines:
        return ()
    measure = results.main
    share = percent and all(0 <= b.low <= b.high <= 1 for b in bins)
    ends = [_ends(b, share) for b in bins]
    unit = ", %" if share else ""
    series = tuple(
        Series(name, tuple(points), tuple(point for point in points if point))
        for name, points in lines.items()
    )
    what = binned.label or title.lower()
    chart = LineChart(
        series,
        x_title=f"{what}{unit}",
        y_title=text.label(measure),
        format_y=_tick(measure),
        categories=tuple(
            (end, "" if b.queries is None else f"n = {b.queries:,}")
            for end, b in zip(ends, bins, strict=True)
        ),
    )
    rows = tuple(
        (cell(Data(name, "name")), *(_shared(measure, b.pipelines.get(name)) for b in bins)) for name in lines
    )
    heads = [f"{end} %" if share else end for end in ends]
    columns = (*names("pipeline"), *numbers(*(_head(*each) for each in zip(heads, bins, strict=True))))
    caption = f"{text.label(measure)} by {what}, with 95 % intervals"
    table = Table(caption, columns, rows)
    said = f"{measure} of each pipeline, {title[:1].lower()}{title[1:]}, with 95 % intervals"
    figure = Figure(title, f"{said}; the table below has the values.", chart, table)
    if not binned.left_out:
        return (figure,)
    of = counted(binned.left_out, "question is", "questions are")
    return (figure, Paragraph((f"{of} in no bin: no passage is known, or no word can be compared.",), "note"))


def _bin_point(results: Results, b: Bin, x: int, name: str) -> Point | None:
    share = b.pipelines.get(name)
    if share is None or share.mean is None:
        return None
    between = text.interval(results.main, share.low, share.high)
    said = f"{name}: {_said(results.main, share.mean)}" + (f" ({between})" if between else "")
    return Point(x, share.mean, share.low, share.high, said)


def _ends(b: Bin, share: bool) -> str:
    low, high = (round(end * 100, 6) if share else end for end in (b.low, b.high))
    return f"{low:g}" if low == high else f"{low:g}–{high:g}"


def _groups(results: Results) -> tuple[Block, ...]:
    groups = results.analyses.groups if results.analyses else {}
    measures = [
        measure
        for measure in results.measured
        if any(measure in found for group in groups.values() for found in group.pipelines.values())
    ]
    if not measures:
        return ()
    tables = {measure: _group_table(groups, results.names, measure) for measure in measures}
    first = results.main if results.main in tables else measures[0]
    blocks: list[Block] = [Heading("By group"), tables.pop(first)]
    for measure, table in tables.items():
        blocks.append(Folded((Data(measure), " by group"), (table,)))
    return tuple(blocks)


def _group_table(groups: Mapping[str, Group], pipelines: Sequence[str], measure: str) -> Table:
    means = {
        name: [group.pipelines.get(name, {}).get(measure) for group in groups.values()] for name in pipelines
    }
    by_group = zip(*means.values(), strict=True)
    best = [max((mean for mean in column if mean is not None), default=None) for column in by_group]
    rows = []
    for name, row in means.items():
        values = [
            _value(measure, mean, best=len(pipelines) > 1 and mean == top)
            for mean, top in zip(row, best, strict=True)
        ]
        rows.append((cell(Data(name, "name")), *values))
    heads = (Data(_head(name, group)) for name, group in groups.items())
    columns = (*names("pipeline"), *numbers(*heads))
    return Table(f"{text.label(measure)} by group", columns, tuple(rows))


def _head(name: str, of: Bin | Group) -> str:
    """The head of a column, with its number of questions."""
    return name if of.queries is None else f"{name}, n = {of.queries:,}"


def _value(measure: str, value: float | None, *, best: bool = False) -> Cell:
    return cell(text.NOTHING if value is None else text.value(measure, value), best=best)


def _shared(measure: str, share: Share | None) -> Cell:
    if share is None or share.mean is None:
        return cell(text.NOTHING)
    return cell(text.value(measure, share.mean), interval=text.interval(measure, share.low, share.high))


def _said(measure: str, value: float) -> str:
    return text.value(measure, value) + (" %" if text.in_percent(measure) else "")


def _tick(measure: str) -> Callable[[float], str]:
    """How the ticks of a measure are written: 20 for an accuracy of .2."""
    if text.in_percent(measure):
        return lambda value: f"{value * 100:.4g}"
    return lambda value: f"{value:.4g}".replace("0.", ".", 1) if 0 < value < 1 else f"{value:.4g}"
