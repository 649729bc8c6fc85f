"""python docs/plots.py: draw the plots of docs/results from the records that the tables rest on.

A plot is an SVG file that is readable in light and dark. Its points have their figures as words, by which a
test compares the files with the records: layouts differ with the fonts of a machine.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape, unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scipy import stats

from benchmarks.report import speeds
from linkseek.app.report import charts

ROOT = Path(__file__).parents[1]
PICTURES = Path(__file__).parent / "pictures" / "results"
RECORDS = ROOT / "experiments" / "records"

_LIGHT = {"ink": "#1f2328", "quiet": "#57606a", "line": "#d8dee4"}
_DARK = {"ink": "#e6edf3", "quiet": "#9da7b3", "line": "#30363d"}

Row = dict[str, Any]


def _style() -> str:
    """The colours of charts, which are properties of the page in a report."""

    def properties(words: dict[str, str], series: Sequence[str]) -> str:
        colours = words | {f"c{number}": colour for number, colour in enumerate(series)}
        return "svg{" + ";".join(f"--{name}:{colour}" for name, colour in colours.items()) + "}"

    dark = properties(_DARK, charts.DARK)
    return f"{properties(_LIGHT, charts.LIGHT)}@media (prefers-color-scheme:dark){{{dark}}}"


# --- figures of records ---------------------------------------------------------------------------


@cache
def record(name: str) -> Any:
    """A record of a table."""
    return json.loads((RECORDS / f"{name}.json").read_text("utf-8"))


def label(row: Row) -> str:
    """A row's name, after its group where the name alone says too little."""
    return row["name"] if row["name"] not in {"dense", "with BM25"} else f"{row['group']}, {row['name']}"


def measured(name: str, measure: str, sets: dict[str, str], rows: Sequence[str] = ()) -> list[Row]:
    """A measure of rows of a record, by their pipelines; of all rows if none are named, in per cent.

    sets: columns of the record, each with its words below the axis; "SET, MEASURE" has its own measure.
    """
    points = []
    for number, column in enumerate(record(name)["columns"]):
        for title, shown in sets.items():
            own = title.removeprefix(f"{column['title']}, ")
            if title != column["title"] and own == title:
                continue
            for row in record(name)["rows"]:
                figure = row["cells"][number]["measures"].get(
                    measure if title == column["title"] else own, {}
                )
                if "mean" in figure and (not rows or row["pipeline"] in rows):
                    points.append(_point((rows and row["pipeline"]) or label(row), shown, figure, 100))
    return points


def difference(name: str, column: str, measure: str, a: str, b: str) -> tuple[float, float, float]:
    """b less a in percentage points, with its interval."""
    [number] = [n for n, each in enumerate(record(name)["columns"]) if each["title"] == column]
    for found in record(name)["differences"][number]:
        if found["measure"] == measure and {found["a"], found["b"]} == {a, b}:
            values = [100 * found[key] for key in ("difference", "low", "high")]
            mean, low, high = values if found["b"] == b else (-values[0], -values[2], -values[1])
            return mean, low, high
    raise KeyError(f"{name}: {column}, {measure}: {a}, {b}")


def _point(series: str, group: str, figure: dict[str, float], scale: float = 1, places: int = 1) -> Row:
    mean, low, high = (scale * figure[key] for key in ("mean", "low", "high"))
    figures = f"{mean:.{places}f} ({low:.{places}f} to {high:.{places}f})"
    return _row(series, group, (mean, low, high), f"{group.replace('|', ' ')}, {series}: {figures}")


def _row(series: str, group: str, values: tuple[float, float, float], words: str) -> Row:
    """A point with its interval; the mean at all three where there is none."""
    mean, low, high = values
    return {"pipeline": series, "group": group, "v": mean, "low": low, "high": high, "says": words}


def _gain(series: str, group: str, values: tuple[float, float, float]) -> Row:
    return _point(series, group, dict(zip(("mean", "low", "high"), values, strict=True)))


# --- charts ---------------------------------------------------------------------------------------


def _names(rows: Iterable[Row]) -> SimpleNamespace:
    """The series of the rows, as the charts of a report take them."""
    return SimpleNamespace(names=list(dict.fromkeys(row["pipeline"] for row in rows)))


def _groups(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["group"] for row in rows))


def _interval(places: dict[str, Any], rows: list[Row], **ends: Any) -> charts.Chart:
    looks = {"color": charts._series(_names(rows))["color"]}
    return {"mark": {"type": "rule", "opacity": 0.75, "strokeWidth": 2}, "encoding": places | ends | looks}


def by_set(rows: list[Row], measure: str) -> charts.Chart:
    """Points with intervals above the names of sets, series next to each other."""
    scale = {"domain": _groups(rows), "paddingInner": 0.2}
    axis = {"labelExpr": "split(datum.label, '|')", "labelAngle": 0, "title": None}
    zero = {"zero": False, "nice": True}
    places = {
        "x": charts._nominal("group", scale=scale, axis=axis),
        "xOffset": charts._nominal("pipeline", scale={"domain": _names(rows).names}),
        "y": charts._quantity("v", scale=zero, axis={"title": None, "tickCount": 6}),
    }
    low = charts._quantity("low", scale=zero, axis={"title": None})
    whiskers = _interval(places, rows, y=low, y2={"field": "high"})
    return charts._layered([whiskers, charts._points(places, _names(rows))], rows, measure)


def by_gain(rows: list[Row], measure: str, line: float = 0, log: bool = False) -> charts.Chart:
    """Differences with intervals next to their names, and the line of no effect."""
    groups = _groups(rows)
    scale = {"type": "log", "nice": False, "padding": 6} if log else {"zero": False, "padding": 6}
    axis = {"title": None, "tickCount": 6, "labelOverlap": "greedy"}
    names = {"title": None, "labelLimit": 175, "grid": True}
    places = {
        "y": charts._nominal("group", scale={"domain": groups}, axis=names),
        "yOffset": charts._nominal("pipeline", scale={"domain": _names(rows).names}),
        "x": charts._quantity("v", scale=scale, axis=axis),
    }
    low = charts._quantity("low", scale=scale, axis=axis)
    whiskers = _interval(places, rows, x=low, x2={"field": "high"})
    none = {
        "mark": {"type": "rule", "color": "var(--quiet)", "strokeDash": [4, 3]},
        "encoding": {"x": {"datum": line}},
    }
    chart = charts._layered([none, whiskers, charts._points(places, _names(rows))], rows, measure)
    chart["config"]["legend"] = {
        "columns": 1, "orient": "bottom", "labelLimit": 400, "labelColor": "var(--ink)",
    }  # fmt: skip
    height = max(16, 11 * len(_names(rows).names)) * len(groups)
    return chart | {"height": height, "padding": {"left": 30, "right": 8, "top": 5, "bottom": 5}}


def by_number(rows: list[Row], measure: str, title: str, *, lines: bool, log: bool) -> charts.Chart:
    """Points at numbers on a logarithmic axis, with intervals; joined where lines are asked for."""
    ticks = sorted({row["x"] for row in rows}) if lines else [5, 10, 20, 50, 100, 200, 500]
    axis = {"values": ticks, "format": "~d", "title": title, "grid": False}
    values: dict[str, Any] = {"values": [1, 10, 100, 1000]} if log else {}
    scale = {"type": "log"} if log else {"zero": False, "nice": True}
    up = {"scale": scale, "axis": values | {"title": None, "tickCount": 6}}
    across = {"type": "log", "nice": False, "padding": 12}
    places = {
        "x": charts._quantity("x", scale=across, axis=axis),
        "y": charts._quantity("v", **up),
    }
    layers = [_interval(places, rows, y=charts._quantity("low", **up), y2={"field": "high"})]
    if lines:
        looks = charts._series(_names(rows)) | {"description": charts._nominal("pipeline")}
        layers.append({"mark": {"type": "line", "strokeWidth": 2}, "encoding": places | looks})
    return charts._layered([*layers, charts._points(places, _names(rows))], rows, measure)


# --- the plots ------------------------------------------------------------------------------------

_OPEN = {"NQ": "NQ", "WebQuestions": "WebQuestions", "TriviaQA dev": "TriviaQA"}
_PIPELINES = ("bm25", "hybrid-static", "best-static", "dense", "hybrid-weighted", "best")
_ACCURACY = "An answer in the first 20 passages, %, with 95 % intervals"
_POINTS = "Difference in percentage points, with 95 % intervals"


def pipelines() -> tuple[str, list[Row], charts.Chart]:
    """Accuracy@20 of pipelines by set."""
    rows = measured("best", "accuracy@20", _OPEN, _PIPELINES)
    return "Accuracy@20 of six pipelines on three sets of questions", rows, by_set(rows, _ACCURACY)


def texts() -> tuple[str, list[Row], charts.Chart]:
    """nDCG@10 of pipelines where relevant texts are known."""
    sets = {"SQuAD dev": "SQuAD", "SciFact": "SciFact", "Cranfield": "Cranfield"}
    shown = ("bm25", "dense", "hybrid-weighted", "static", "hybrid-static")
    rows = measured("wikispeedia", "nDCG@10", sets, shown)
    chart = by_set(rows, "nDCG@10, in hundredths, with 95 % intervals")
    return "nDCG@10 of five pipelines on SQuAD, SciFact and Cranfield", rows, chart


def quality_and_time() -> tuple[str, list[Row], charts.Chart]:
    """Accuracy@5 on TriviaQA against the time of a question."""
    times = {figure["name"]: figure["ours"] for figure in _benchmark("question", "best-both")}
    shown = ("bm25", "hybrid-static", "best-static", "hybrid-weighted", "best", "e5-weighted")
    rows = measured("shelf", "accuracy@5", {"TriviaQA dev": "TriviaQA"}, shown)
    for row in rows:
        row["x"] = times[f"{row['pipeline']}, p50"]
        row["says"] += f", {row['x']:.0f} ms"
    chart = by_number(
        rows,
        "An answer in the first 5 passages, %, with 95 % intervals",
        "ms a question, median (logarithmic scale)",
        lines=False,
        log=False,
    )
    return "Accuracy@5 on TriviaQA against the median time of a question", rows, chart


def links() -> tuple[str, list[Row], charts.Chart]:
    """What links add over the same thing without links, by use and set."""
    rows = [
        _gain("learned fusion: links over similar articles", f"{shown} @20", found)
        for title, shown in _OPEN.items()
        for found in [difference("learned", title, "accuracy@20", "similar articles", "links")]
    ]
    for series, name in (("static encoder: HLP over BFS", "hlp-static"), ("BERT: HLP over BFS", "hlp-bert")):
        rows += [
            _gain(series, f"{shown} @20", difference(name, title, "accuracy@20", "BFS", "HLP"))
            for title, shown in _OPEN.items()
        ]
    rows += [
        _gain(
            "hops: trees over links, over similar passages", f"{title.removesuffix('MultihopQA')} R@5", found
        )
        for title in ("HotpotQA", "2WikiMultihopQA", "MuSiQue")
        for found in [difference("hops", title, "R@5", "trees over similar passages", "trees over links")]
    ]
    title = "What links add to four uses over a control without them, with the line of no effect"
    return title, rows, by_gain(rows, _POINTS)


def teaching() -> tuple[str, list[Row], charts.Chart]:
    """HLP and dual-link over BFS in four trainings."""
    rows = []
    for shown, name in (
        ("distilled", "hlp-static"),
        ("random vectors", "hlp-static-random"),
        ("BERT", "hlp-bert"),
    ):
        for title, words in _OPEN.items():
            for objective in ("dual-link", "HLP"):
                found = difference(name, title, "accuracy@20", "BFS", objective)
                rows.append(_gain(objective, f"{shown}: {words}", found))
    for title in ("ArchWiki, anchors", "ArchWiki, headings", "LibreOffice, anchors", "LibreOffice, headings"):
        for objective, named in (("dual-link", "dual-link"), ("HLP", "vectors: HLP")):
            found = difference("true-anchors-static", title, "R@20", "BFS", named)
            rows.append(_gain(objective, title, found))
    title = "Dual links and HLP over passages of the same article (BFS) at 20, by start and set"
    return title, rows, by_gain(rows, _POINTS)


def hops() -> tuple[str, list[Row], charts.Chart]:
    """Supporting passages among the first five, by set."""
    sets = {
        f"{name}{where}": f"{name}{words}"
        for where, words in (("", ""), (", all in one corpus", "|in one|corpus"))
        for name in ("HotpotQA", "2WikiMultihopQA", "MuSiQue")
    }
    shown = {title: words.replace("2WikiMultihopQA", "2Wiki") for title, words in sets.items()}
    rows = measured("hops", "R@5", shown)
    chart = by_set(rows, "Supporting passages in the first five, %, with 95 % intervals")
    return "Recall of supporting passages at 5 on three sets of questions of several steps", rows, chart


def reranking() -> tuple[str, list[Row], charts.Chart]:
    """What re-ranking adds to its first stage, by set and depth."""
    rows = [
        _gain(f"{b} over {a}", f"{shown} @{k}", difference("best", title, measure, a, b))
        for title, shown in {**_OPEN, "SQuAD dev": "SQuAD"}.items()
        for k in (1, 5, 20)
        if (measure := f"accuracy@{k}" if title in _OPEN else f"R@{k}") in _measures("best", title)
        for a, b in (("hybrid-static", "best-static"), ("hybrid-weighted", "best"))
    ]
    title = "What re-ranking by answers adds to two first stages, with the line of no effect"
    return title, rows, by_gain(rows, _POINTS)


def families() -> tuple[str, list[Row], charts.Chart]:
    """What late interaction adds to its first stage, by set and depth."""
    rows = [
        _gain(series, f"{shown} @{k}", difference("late", title, measure, "hybrid-weighted", series))
        for title, shown in {**_OPEN, "SQuAD dev": "SQuAD"}.items()
        for k in (1, 5, 20)
        if (measure := f"accuracy@{k}" if title in _OPEN else f"R@{k}") in _measures("late", title)
        for series in ("all-MiniLM-L6-v2", "linkseek-late")
    ]
    title = "What late interaction adds to hybrid-weighted, with the line of no effect"
    return title, rows, by_gain(rows, _POINTS)


def _measures(name: str, title: str) -> dict[str, Any]:
    """The measures of a column of a record."""
    [number] = [n for n, column in enumerate(record(name)["columns"]) if column["title"] == title]
    return record(name)["rows"][0]["cells"][number]["measures"]


def languages() -> tuple[str, list[Row], charts.Chart]:
    """P@1 in eight languages."""
    names = ("Arabic", "Chinese", "English", "German", "Russian", "Spanish", "Thai", "Turkish")
    rows = measured("languages", "P@1", {name: name for name in names}, ("bm25", "dense", "hybrid-weighted"))
    chart = by_set(rows, "Questions whose paragraph is first, %, with 95 % intervals")
    return "P@1 of BM25, multilingual-e5-small and both in eight languages", rows, chart


def known_items() -> tuple[str, list[Row], charts.Chart]:
    """How alike an index's own questions order pipelines."""
    study = json.loads((ROOT / "experiments/studies/known-items.json").read_text("utf-8"))
    rows = []
    for row in study["rows"]:
        group = {"wikispeedia": "Schools", "musique": "MuSiQue"}.get(row["index"], row["index"])
        asked = row["questions"].partition("-")[0] if row["index"] == "wikispeedia" else ""
        for kind in ("headings", "anchors", "titles"):
            if kind in row:
                values = {"mean": row[kind]["tau"], "low": row[kind]["low"], "high": row[kind]["high"]}
                rows.append(_point(kind, f"{group} {asked}".strip(), values, places=2))
    for row in rows:
        row["says"] = (
            f"{row['group']}, {row['pipeline']}: {row['v']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        )
    chart = by_gain(rows, "Kendall's tau with people's questions, with 95 % intervals")
    return "How alike questions of an index and of people order eight pipelines", rows, chart


def read() -> tuple[str, list[Row], charts.Chart]:
    """What a reader said of mined pairs and contrasts."""
    with (ROOT / "experiments/studies/read.csv").open(encoding="utf-8", newline="") as file:
        judged = list(csv.DictReader(file))
    rows = []
    for objective in dict.fromkeys(row["objective"] for row in judged):
        verdicts = [row["verdict"] == "yes" for row in judged if row["objective"] == objective]
        low, high = stats.binomtest(sum(verdicts), len(verdicts)).proportion_ci(method="wilson")
        values = {"mean": sum(verdicts) / len(verdicts), "low": low, "high": high}
        kind = "pairs with a common fact" if len(verdicts) == 50 else "contrasts in the right order"
        rows.append(_point(kind, objective, values, 100))
    chart = by_gain(rows, "Share that a reader accepted, %, with 95 % intervals (Wilson)", 50)
    return "Shares of mined pairs and contrasts that one reader accepted", rows, chart


def plans() -> tuple[str, list[Row], charts.Chart]:
    """Plans of builds next to the builds, from the table of speed.md."""
    page = (Path(__file__).parent / "results" / "speed.md").read_text("utf-8")
    rows = []
    for line in page.partition("## Plans and builds")[2].partition("\n## ")[0].splitlines():
        build, *cells = [cell.strip() for cell in line.replace("`", "").strip("|").split("|")]
        if not line.startswith("|") or not re.search(r"\d", "".join(cells)):
            continue
        for kind, cell in zip(("disk", "memory", "time"), cells, strict=True):
            number = re.match(r"[+-]?\d+ %", cell)
            planned = [float(value) for value in re.findall(r"(\d+) s", cell)]
            percent = float(number[0][:-2]) if number else 100 * (planned[0] / planned[1] - 1)
            words = f"{build}, {kind}: {percent:+.0f} %"
            rows.append(
                {
                    "pipeline": kind,
                    "group": build,
                    "v": percent,
                    "low": percent,
                    "high": percent,
                    "says": words,
                }
            )
    return "Plans of six builds next to the builds", rows, by_gain(rows, "Plan less build, % of the build")


def clients() -> tuple[str, list[Row], charts.Chart]:
    """Latency of the service against the number of clients."""
    found = {figure["name"]: figure["ours"] for figure in _benchmark("serving", "hybrid-static", "static")}
    rows = []
    for name in ("bm25", "static", "hybrid-static"):
        for number in (1, 16, 64, 256):
            middle, slow = (found[f"{name}, {number} clients, {p}"] for p in ("p50", "p99"))
            words = f"{name}, {number} clients: {middle:.0f} ms, 99th percentile {slow:.0f} ms"
            rows.append(
                {"pipeline": name, "x": number, "v": middle, "low": middle, "high": slow, "says": words}
            )
    measure = "ms a question, median to 99th percentile"
    chart = by_number(rows, measure, "clients that ask at the same time", lines=True, log=True)
    return "Latency of the service against the number of clients", rows, chart


def peers() -> tuple[str, list[Row], charts.Chart]:
    """Rates of Linkseek as multiples of the peers'."""
    rows = []
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.jsonl")):
        for name, times in speeds(path.stem, json.loads(path.read_text("utf-8").splitlines()[-1])).items():
            group = f"{path.stem}: {name}"
            for long, short in (("gpu_", ""), ("MiniLM-L6, ", ""), ("top 100, ", ""), ("1024,SQfp16", "")):
                group = group.replace(long, short)
            kind = "on an H100" if path.stem.startswith("gpu") else "on two cores"
            rows.append(_row(kind, group, (times,) * 3, f"{group}: {times:.2f} times as fast"))
    chart = by_gain(rows, "Times as fast as the peer (logarithmic scale)", 1, log=True)
    return "Speed of Linkseek as a multiple of the peers', with the line of equal speed", rows, chart


def _benchmark(name: str, *pipelines: str) -> list[dict[str, Any]]:
    """The figures of the last record of a benchmark that measured these pipelines."""
    lines = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [
        each["figures"]
        for each in map(json.loads, lines)
        if {*pipelines} <= {*each["settings"].get("pipeline", ())}
    ][-1]


PLOTS: dict[str, Callable[[], tuple[str, list[Row], charts.Chart]]] = {
    "pipelines": pipelines, "texts": texts, "quality-and-time": quality_and_time, "links": links,
    "teaching": teaching, "hops": hops, "reranking": reranking, "families": families, "languages": languages,
    "known-items": known_items, "read": read, "plans": plans, "clients": clients, "peers": peers,
}  # fmt: skip


def drawn(name: str) -> str:
    """A complete file."""
    title, _, chart = PLOTS[name]()
    svg = charts.to_svg(chart, title)
    return re.sub(
        r"(<svg\b[^>]*>)", rf"\1<title>{escape(title)}</title><style>{_style()}</style>", svg, count=1
    )


def words(svg: str) -> set[str]:
    """The figures of a file, as its points say them."""
    return {unescape(found) for found in re.findall(r"<title>([^<]+)</title></path>", svg)}


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in PLOTS:
        (PICTURES / f"{name}.svg").write_text(drawn(name) + "\n", "utf-8")
