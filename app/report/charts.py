"""The charts of an evaluation, as SVG, for the report and the pages.

Colours are custom properties of the page, so that one SVG follows the reader's scheme; `LIGHT` and `DARK` are
the colours of series in the two schemes. Series differ in colour, dash and marker.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any

from linkseek.app.evaluation.results import Binned, Results
from linkseek.app.report import text
from linkseek.app.report.text import clean

Chart = dict[str, Any]
"""A specification of Vega-Lite, or a layer of one."""

MARKED = frozenset(digit * 10**power for power in range(7) for digit in (1, 2, 5))
"""The depths at which curves have markers, besides the last one."""


# Series keep apart under the common kinds of colour blindness (tests/app/report/test_report_charts.py).
LIGHT = ("#1c5fb8", "#d26118", "#3a9a76", "#a8327e", "#624800", "#36373e")
DARK = ("#82a7fa", "#f48c52", "#51d0a3", "#db89c2", "#fcd14f", "#e0e4f0")

_SERIES = tuple(f"var(--c{i})" for i in range(6))
_INK, _QUIET, _GRID = "var(--ink)", "var(--quiet)", "var(--line)"

_DASHES = ([1, 0], [7, 3], [2, 3], [9, 3, 2, 3])
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


WIDTH, HEIGHT = 440, 240
"""Sizes of the whole chart and of the part with the data, in units of the drawing: small enough for a phone.
"""
_LEGEND_COLUMNS = 2
_FEW = 5  # questions of a bin, below which its values are faint


def curves_chart(results: Results) -> Chart:
    """The measure at every depth, on a logarithmic axis. The results must have curves."""
    curves = results.curves
    measure, last = curves.measure, curves.ks[-1]
    rows = [
        {
            "pipeline": clean(name),
            "x": k,
            "y": _plotted(measure, value),
            "marked": k in MARKED or k == last,
            "says": f"{clean(name)}: {text.with_unit(measure, value)} at k = {k:,}",
        }
        for name, values in curves.pipelines.items()
        for k, value in zip(curves.ks, values, strict=True)
    ]
    ticks = [k for k in curves.ks if k in MARKED or k == last]
    title = "k: number of results (logarithmic scale)"
    axis = {"values": ticks, "format": ",d", "title": _wrapped(title), "grid": False}
    scale = {"type": "log", "domain": [1, max(last, 2)], "nice": False}
    places = {"x": _quantity("x", scale=scale, axis=axis), "y": _y(measure, rows)}
    looks = _series(results) | {"description": _nominal("pipeline")}
    lines = {"mark": {"type": "line", "strokeWidth": 2}, "encoding": places | looks}
    points = _points(places, results) | {"transform": [{"filter": "datum.marked"}]}
    return _layered([lines, points], rows, f"{measure}@k")


def bins_chart(results: Results, binned: Binned, *, with_legend: bool = True) -> Chart:
    """The main measure over bins of questions, with 95 % intervals; faint where questions are few."""
    measure = results.main_measure
    heads = [
        f"{ends}|n = {bin_.queries:,}" for bin_, ends in zip(binned.bins, text.bin_ends(binned), strict=True)
    ]
    rows = [
        {
            "pipeline": clean(name),
            "bin": head,
            "y": _plotted(measure, share.mean),
            "low": _plotted(measure, share.low),
            "high": _plotted(measure, share.high),
            "few": bin_.queries < _FEW,
            "says": f"{clean(name)}: {text.with_unit(measure, share.mean)} "
            f"({text.interval(measure, share.low, share.high)})",
        }
        for bin_, head in zip(binned.bins, heads, strict=True)
        for name, share in bin_.pipelines.items()
        if share.mean is not None and share.low is not None and share.high is not None
    ]
    unit = ", %" if text.is_share(binned) else ""
    axis = {"labelExpr": "split(datum.label, '|')", "labelAngle": 0, "title": _wrapped(binned.label + unit)}
    ends = ("low", "high")
    places = {
        "x": _nominal("bin", scale={"domain": heads, "paddingInner": 0.3}, axis=axis),
        "xOffset": _nominal("pipeline", scale={"domain": _names(results)}),
        "y": _y(measure, rows, ends),
        "opacity": {"condition": {"test": "datum.few", "value": 0.35}, "value": 1.0},
    }
    interval = {"y": _y(measure, rows, ends, "low"), "y2": {"field": "high"}}
    looks = interval | {"color": _series(results)["color"]}
    whiskers = {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": places | looks}
    return _layered([whiskers, _points(places, results)], rows, measure, with_legend=with_legend)


def to_svg(chart: Chart, alternative: str) -> str:
    """The chart as an <svg> element. alternative: a sentence for readers who do not see it."""
    import vl_convert  # large, so only for a report with a chart

    svg = vl_convert.vegalite_to_svg(chart)
    head = f'class="chart" role="img" aria-label="{escape(clean(alternative))}"'
    svg = svg.replace('class="marks"', head, 1)
    # Layers without data are symbols without a name to a screen reader.
    svg = re.sub(r'<g class="mark-[^>]*role="graphics-symbol"[^>/]*(?:/>|></g>)', "", svg)
    # The words of a mark as its title, which browsers show when it is pointed at.
    return re.sub(r'(<path\b[^>]*? aria-label="([^"]*)"[^>]*?)/>', r"\1><title>\2</title></path>", svg)


def _names(results: Results) -> list[str]:
    return [clean(name) for name in results.names]


def _wrapped(title: str) -> list[str]:
    return textwrap.wrap(clean(title), WIDTH // 8)


def _plotted(measure: str, value: float) -> float:
    return value * 100 if text.in_percent(measure) else value


def _quantity(field: str, **more: Any) -> Chart:
    return {"field": field, "type": "quantitative", **more}


def _nominal(field: str, **more: Any) -> Chart:
    return {"field": field, "type": "nominal", **more}


def _y(measure: str, rows: Sequence[Chart], keys: Sequence[str] = ("y",), field: str = "y") -> Chart:
    """The axis of values, the same in all charts of a measure that is at most 1."""
    values = [0.0, *(row[key] for row in rows for key in keys)]
    scale = {"domain": [min(values), max(*values, _plotted(measure, 1.0))]}
    return _quantity(field, scale=scale, axis={"title": None, "tickCount": 6})


def _series(results: Results) -> Chart:
    """Colour and dash of each pipeline, the same in all charts of the results."""
    names = _names(results)
    colours = [_SERIES[i % len(_SERIES)] for i in range(len(names))]
    # One further after twelve series, when colours, markers and dashes would begin again together.
    dashes = [_DASHES[(i + i // 12) % len(_DASHES)] for i in range(len(names))]
    return {
        "color": _nominal("pipeline", scale={"domain": names, "range": colours}, title=None),
        "strokeDash": _nominal("pipeline", scale={"domain": names, "range": dashes}, title=None),
    }


def _points(places: Chart, results: Results) -> Chart:
    """Markers with their words."""
    names = _names(results)
    shapes = [_SHAPES[i % len(_SHAPES)] for i in range(len(names))]
    looks = {
        "color": _series(results)["color"],
        "shape": _nominal("pipeline", scale={"domain": names, "range": shapes}, title=None),
        "tooltip": _nominal("says", title=" "),
        "description": _nominal("says"),
    }
    return {"mark": {"type": "point", "size": 60, "filled": True, "opacity": 1}, "encoding": places | looks}


def _layered(
    layers: Sequence[Chart], rows: Sequence[Chart], measure: str, *, with_legend: bool = True
) -> Chart:
    """The layers as one chart of these rows, with the measure above its axis."""
    title = {"text": text.label(measure), "color": _QUIET, "fontSize": 12, "anchor": "start"}
    words = {"labelColor": _QUIET, "titleColor": _QUIET}
    lines = {"gridColor": _GRID, "domainColor": _QUIET, "tickColor": _QUIET}
    sizes = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    limit = WIDTH // _LEGEND_COLUMNS - 60
    legend = {"orient": "bottom", "columns": _LEGEND_COLUMNS, "columnPadding": 24, "symbolSize": 100}
    legend |= {"labelColor": _INK, "labelFontSize": 12, "labelLimit": limit}
    return {
        "layer": layers,
        "data": {"values": rows},
        "width": WIDTH,
        "height": HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "background": "transparent",
        "title": title | {"fontWeight": "normal"},
        "config": {
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": words | lines | sizes,
            "legend": legend if with_legend else {"disable": True},
        },
    }
