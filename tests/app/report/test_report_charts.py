"""Charts: the numbers in them, words that stay words, and series that anyone can tell apart."""

import re
from pathlib import Path

import numpy as np
import pytest
from selectolax.lexbor import LexborHTMLParser

from linkseek.app import report
from linkseek.app.report import text
from linkseek.app.report.charts import DARK, LIGHT, WIDTH, bins_chart, curves_chart, to_svg
from linkseek.app.report.sections import sections
from tests.support.results_records import RESULTS, bin_of, changed, pipeline, record, score

STYLE = Path(report.__file__).with_name("report.css").read_text("utf-8")
EVIL = '</text><script>alert("1")</script>\u202e\x00'


def spec(chart):
    """The chart's specification, with its rows."""
    return chart, chart["data"]["values"]


def many(n):
    """The results of n pipelines with equal scores."""
    names = [f"p{i}" for i in range(n)]
    results = changed(
        "pipelines", to={name: pipeline({"accuracy@20": score(0.5, 0.4, 0.6)}) for name in names}
    )
    results |= {"baseline": "p0", "comparisons": []}
    results["curves"] = {
        "measure": "accuracy",
        "ks": [1, 2],
        "pipelines": {name: [0.25, 0.5] for name in names},
    }
    results["analyses"] = {"length": {"label": "words", "bins": []}}
    return record(results)


def test_curves_show_every_depth_and_mark_some():
    drawn, rows = spec(curves_chart(record()))
    bm25 = {row["x"]: row["y"] for row in rows if row["pipeline"] == "bm25"}
    assert bm25 == {1: 10, 2: 12.5, 3: pytest.approx(15), 4: pytest.approx(17.5), 5: 20}
    assert {row["x"] for row in rows if row["marked"]} == {1, 2, 5}
    assert rows[0]["says"] == "bm25: 10.0 % at k = 1"
    lines, points = drawn["layer"]
    assert lines["encoding"]["x"]["scale"] == {"type": "log", "domain": [1, 5], "nice": False}
    assert points["transform"] == [{"filter": "datum.marked"}]


def test_bins_show_means_and_intervals():
    results = record()
    drawn, rows = spec(bins_chart(results, results.analyses.overlap))
    first = rows[0]
    assert (first["pipeline"], first["bin"]) == ("bm25", "0–20|n = 0")
    assert [first[key] for key in ("low", "y", "high")] == [pytest.approx(v) for v in (20, 30, 40)]
    assert first["says"] == "bm25: 30.0 % (20.0–40.0)"
    assert drawn["layer"][0]["encoding"]["x"]["axis"]["title"] == ["share of the question's words, %"]
    _, rows = spec(bins_chart(results, results.analyses.length))
    assert [(row["pipeline"], row["bin"]) for row in rows] == [("bm25", "3|n = 80"), ("bm25", "4–12|n = 120")]


def scale_of_values(values):
    curves = {"measure": "recall", "ks": [1, 2], "pipelines": {"bm25": values}}
    drawn, _ = spec(curves_chart(record(changed("curves", to=curves))))
    return drawn["layer"][0]["encoding"]["y"]["scale"]


@pytest.mark.parametrize(("values", "ends"), [([0.9, 0.95], [0, 1]), ([-0.1, 2.5], [-0.1, 2.5])])
def test_all_charts_have_one_axis(values, ends):
    assert scale_of_values(values) == {"domain": ends}


def test_charts_by_kind_have_no_lines_and_a_legend_once():
    results = record()
    kinds = [section for section in sections(results) if section.anchor in ("curves", "kinds")]
    drawn = [figure.chart() for each in kinds for figure in each.data["figures"]]
    assert [chart["config"]["legend"].get("disable") for chart in drawn] == [None] + [True] * (len(drawn) - 1)
    assert len(drawn) > 2
    for chart in drawn[1:]:
        assert [layer["mark"]["type"] for layer in chart["layer"]] == ["rule", "point"]
        assert {layer["encoding"]["opacity"]["condition"]["test"] for layer in chart["layer"]} == {
            "datum.few"
        }


def test_an_interval_is_drawn_in_letters():
    assert text.bar(0.2, 0.5, 0.8) == "·" * 6 + "━" * 9 + "●" + "━" * 9 + "·" * 6
    assert text.bar(0, 0, 0).startswith("●·") and text.bar(1, 1, 1).endswith("·●")
    assert text.bar(-0.2, 0.5, 0.8) == text.bar(0.1, 0.5, 1.2) == ""


def test_an_svg_has_the_words_and_marks_of_its_chart():
    svg = to_svg(curves_chart(record()), "Lines of accuracy")
    page = LexborHTMLParser(svg)
    root = page.css_first("svg")
    assert root.attributes["role"] == "img" and root.attributes["aria-label"] == "Lines of accuracy"
    assert abs(float(root.attributes["width"]) - WIDTH) <= 2
    words = [node.text() for node in page.css("text")]
    assert {"accuracy@k %", "bm25", "dense", "mixed_run", "1", "2", "5"} <= set(words)
    said = [node.text() for node in page.css("title")]
    assert "dense: 25.0 % at k = 5" in said
    assert sum(" at k = " in each for each in said) == 3 * 3
    colours = {node.attributes.get("stroke") for node in page.css("path")}
    assert {"var(--c0)", "var(--c1)", "var(--c2)"} <= colours
    assert svg == to_svg(curves_chart(record()), "Lines of accuracy")


def test_texts_in_a_chart_are_only_text():
    results = changed("pipelines", to={EVIL: RESULTS["pipelines"]["bm25"]})
    results |= {"baseline": EVIL, "comparisons": []}
    results["curves"] = {"measure": "accuracy", "ks": [1, 2], "pipelines": {EVIL: [0.25, 0.5]}}
    length = bin_of(1, 2, 3, **{EVIL: {"mean": 0.5, "low": 0.4, "high": 0.6}})
    results["analyses"] = {"length": {"label": EVIL, "without_value": 0, "bins": [length]}}
    of = record(results)
    for chart in (curves_chart(of), bins_chart(of, of.analyses.length)):
        svg = to_svg(chart, EVIL)
        page = LexborHTMLParser(svg)
        assert not page.css("script") and "\u202e" not in svg and "\x00" not in svg
        assert page.css_first("svg").attributes["aria-label"] == '</text><script>alert("1")</script>'
        assert any("<script>" in node.text() for node in page.css("title"))


# --- looks ----------------------------------------------------------------------------------------


def test_series_differ_without_their_colours():
    """24 series by marker and dash, the first six by either."""
    drawn, _ = spec(curves_chart(many(24)))
    lines, points = (layer["encoding"] for layer in drawn["layer"])
    dashes = [tuple(dash) for dash in lines["strokeDash"]["scale"]["range"]]
    shapes = points["shape"]["scale"]["range"]
    assert len(set(zip(shapes, dashes, strict=True))) == 24
    assert len(set(shapes[:6])) == 6
    assert lines["color"]["scale"]["domain"] == [f"p{i}" for i in range(24)]


def test_series_keep_their_looks_in_all_charts():
    results = record()
    charts = (curves_chart(results), bins_chart(results, results.analyses.overlap))
    scales = [spec(chart)[0]["layer"][0]["encoding"]["color"]["scale"] for chart in charts]
    assert scales[0] == scales[1]
    assert len(set(scales[0]["range"])) == 3


def linear(code):
    """Linear RGB, float64 [3]."""
    code = code if len(code) == 7 else "#" + "".join(c * 2 for c in code[1:])
    channels = np.array([int(code[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """WCAG 2.2's contrast ratio."""
    one, other = (float(c @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (a, b))
    return max(one, other) / min(one, other)


@pytest.mark.parametrize(("scheme", "palette"), [("light", LIGHT), ("dark", DARK), ("print", LIGHT)])
def test_colours_can_be_read(scheme, palette):
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    block = blocks[("light", "dark", "print").index(scheme)]
    known = {name: linear(code) for name, code in re.findall(r"--([\w-]+): (#[0-9a-f]+)", block)}
    for name in ("ink", "quiet", "link"):
        assert contrast(known[name], known["page"]) >= 4.5, name
    marks = [linear(colour) for colour in palette]
    assert all(contrast(mark, known["page"]) >= 3 for mark in marks)


def test_layers_without_data_are_no_nameless_symbols():
    x = {"x": {"field": "x", "type": "quantitative"}}
    layers = [{"mark": "point", "encoding": x, "data": {"values": rows}} for rows in ([], [{"x": 1}])]
    svg = to_svg({"layer": layers}, "Points")
    symbols = re.findall(r'<[^>]*role="graphics-symbol"[^>]*>', svg)
    assert symbols and all("aria-label=" in symbol for symbol in symbols)
