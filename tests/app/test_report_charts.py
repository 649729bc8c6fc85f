"""Charts: every mark at the place that a ruler would find, labels apart, series that can be told apart."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from selectolax.lexbor import LexborHTMLParser

from app import report
from app.report.bar_chart import Bar, BarChart
from app.report.line_chart import LineChart, Point, Series, frame_of
from app.report.scales import log_ticks, nice_ticks, shorten, spread, text_width, wrap
from app.report.svg import NARROW, WIDE, colour, line_class, marker, swatch

STYLE = Path(report.__file__).with_name("report.css").read_text("utf-8")


def whole(value):
    return f"{value:g}"


def series(name, values, xs=None):
    points = tuple(
        None if y is None else Point(x, y, title=f"{name} {y}")
        for x, y in zip(xs or itertools.count(1), values, strict=False)
    )
    return Series(name, points, tuple(point for point in points if point))


def line_chart(*lines, categories=()):
    return LineChart(lines, "the x axis", "the y axis", whole, categories)


def drawn(chart, size=WIDE):
    return LexborHTMLParser(chart.draw(size, "what it shows").svg)


def places(node):
    """The corners of a path."""
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", node.attributes["d"])]


def texts(page, kind):
    return [(n.text(), float(n.attributes["x"]), float(n.attributes["y"])) for n in page.css(f"text.{kind}")]


# --- lines ----------------------------------------------------------------------------------------


def test_points_on_a_logarithmic_axis_stand_where_they_belong():
    chart = line_chart(series("a", [0, 20, 40], xs=[1, 10, 100]))
    frame = frame_of(chart, WIDE, right=808.0)
    assert frame.y_ticks == (0, 10, 20, 30, 40)
    left = 8 + text_width("10", 13)
    # top: 2.2 lines of 13; the data are 300 high
    [line] = drawn(chart).css("path.line")
    right = 880 - text_width("a", 13) - 40
    assert places(line) == [
        (pytest.approx(left, abs=0.06), 328.6),
        (pytest.approx((left + right) / 2, abs=0.06), 178.6),
        (pytest.approx(right, abs=0.06), 28.6),
    ]
    circles = drawn(chart).css("circle.marker")
    assert [float(circle.attributes["cy"]) for circle in circles] == [
        328.6,
        178.6,
        28.6,
        28.6,
    ]  # and its name's
    assert [word for word, _, _ in texts(drawn(chart), "axis")][1:6] == ["0", "10", "20", "30", "40"]


def test_whiskers_and_categories():
    points = (Point(0, 30, 10, 40), Point(1, 20, 20, 20))
    chart = line_chart(
        Series("a", points, points), Series("b", points, points), categories=(("x", "n = 1"), ("y", "n = 2"))
    )
    frame = frame_of(chart, WIDE, right=808.0)
    assert frame.x(0) == frame.left + (frame.right - frame.left) / 4
    page = drawn(chart)
    first = page.css_first("path.whisker").attributes["d"]
    x, low, high = map(float, re.match(r"M([\d.]+) ([\d.]+)V([\d.]+)M", first).groups())
    assert (low, high) == (253.6, 28.6)  # 10 and 40 of 0 to 40, from 328.6 up to 28.6
    # two series stand 12 apart, beside the middle of their category
    others = [float(c.attributes["cx"]) for c in page.css("g > g > circle.marker")]
    squares = [p.attributes["points"] for p in page.css("g > g > polygon.marker")]
    assert others[0] == x
    middle = next(at for word, at, _ in texts(page, "axis") if word == "x")
    assert x == pytest.approx(middle - 6, abs=0.11)
    assert float(squares[0].split(",")[0]) == pytest.approx(middle + 6 - 0.9 * 4, abs=0.11)
    assert [word for word, _, _ in texts(page, "axis")][-5:] == ["x", "n = 1", "y", "n = 2", "the x axis"]


def test_a_missing_value_breaks_the_line():
    [line] = drawn(line_chart(series("a", [1, 2, None, 4, 5]))).css("path.line")
    assert re.sub(r"[\d. -]", "", line.attributes["d"]) == "MLML"


def test_an_axis_begins_at_zero_unless_the_values_are_far_from_it():
    assert frame_of(line_chart(series("a", [0.2, 0.5])), WIDE, 800).y_ticks[0] == 0
    assert frame_of(line_chart(series("a", [0.9, 0.95])), WIDE, 800).y_ticks[0] == 0.9
    assert frame_of(line_chart(series("a", [-0.1, 0.5])), WIDE, 800).y_ticks[0] < -0.09
    assert frame_of(line_chart(series("a", [0, 0])), WIDE, 800).y_ticks[-1] == 1


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("count", [1, 2, 5, 12, 30])
def test_names_at_the_ends_do_not_overlap(size, count):
    chart = line_chart(*(series(f"name {i}", [0.3, 0.5 + i / 1000]) for i in range(count)))
    named = texts(drawn(chart, size), "name")
    assert len(named) == count
    heights = sorted(y for _, _, y in named)
    assert all(b - a >= size.font for a, b in itertools.pairwise(heights))
    order = [name for name, _, _ in sorted(named, key=lambda each: -each[2])]
    assert order == [f"name {i}" for i in range(count)]  # as the lines end, from below
    assert all(x + text_width(name, size.font) <= size.width + 0.1 for name, x, _ in named)


def test_names_that_do_not_fit_are_in_a_legend():
    long = [f"encoder-{i}-" + "pre-trained-on-links-" * 4 + f"seed-{i}" for i in range(2)]
    chart = line_chart(*(series(name, [1, 2]) for name in long))
    wide, narrow = chart.draw(WIDE, ""), chart.draw(NARROW, "")
    assert wide.legend == narrow.legend == tuple(long)
    shown = [name for name, _, _ in texts(LexborHTMLParser(wide.svg), "name")]
    assert [name.partition("…")[0][:9] for name in shown] == ["encoder-0", "encoder-1"]
    assert [name[-6:] for name in shown] == ["seed-0", "seed-1"]
    assert texts(LexborHTMLParser(narrow.svg), "name") == []
    assert line_chart(series("short", [1, 2])).draw(WIDE, "").legend == ()


def test_labels_of_ticks_do_not_touch():
    for last in (2, 7, 10, 97, 100, 103, 1000, 12345):
        chart = line_chart(series("a", [0.1, 0.2], xs=[1, last]))
        for size in (WIDE, NARROW):
            page = drawn(chart, size)
            base = [each for each in texts(page, "axis") if each[0].replace(",", "").isdigit()]
            bottom = max(y for _, _, y in base)
            ends = [
                (x - text_width(w, size.font) / 2, x + text_width(w, size.font) / 2)
                for w, x, y in base
                if y == bottom
            ]
            assert all(right < left for (_, right), (left, _) in itertools.pairwise(ends))
            assert f"{last:,}" in [word for word, _, y in base if y == bottom]


def test_texts_in_a_chart_are_only_text():
    evil = '</text><script>alert("1")</script>\u202e\x00'
    chart = line_chart(
        Series(evil, (Point(0, 1, title=evil),), (Point(0, 1, title=evil),)), categories=((evil, evil),)
    )
    bars = BarChart((Bar(evil, 1, 2, evil, evil),), evil, lambda value: evil)
    for svg in (chart.draw(NARROW, evil).svg, chart.draw(WIDE, evil).svg, bars.draw(NARROW, evil).svg):
        page = LexborHTMLParser(svg)
        assert not page.css("script") and "\u202e" not in svg and "\x00" not in svg
        assert page.css_first("title").text() == '</text><script>alert("1")</script>'
        assert page.css_first("svg").attributes["aria-label"] == '</text><script>alert("1")</script>'


# --- bars -----------------------------------------------------------------------------------------


def test_bars_are_as_long_as_their_values():
    chart = BarChart((Bar("a", 50, 100, "50 / 100 ms"), Bar("bb", 25, None, "25 / - ms")), "ms", whole)
    page = drawn(chart)
    left = text_width("bb", 13) + 12
    room = 880 - text_width("50 / 100 ms", 13) - 10 - left
    boxes = [{k: float(v) for k, v in r.attributes.items() if k != "class"} for r in page.css("rect")]
    assert [box["x"] for box in boxes] == [pytest.approx(left, abs=0.06)] * 2
    assert [box["width"] for box in boxes] == [pytest.approx(room * share, abs=0.06) for share in (0.5, 0.25)]
    [whisker] = page.css("path.whisker")
    end = float(re.match(r"M([\d.]+) [\d.]+H([\d.]+)m", whisker.attributes["d"])[2])
    assert end == pytest.approx(left + room, abs=0.06)
    assert [word for word, _, _ in texts(page, "name")] == ["a", "bb"]
    above = drawn(chart, NARROW)
    assert {box.attributes["x"] for box in above.css("rect")} == {"0"}
    assert all(
        y < float(box.attributes["y"])
        for (_, _, y), box in zip(texts(above, "name"), above.css("rect"), strict=True)
    )


# --- scales ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 39, [0, 10, 20, 30, 40]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.9, 0.95, [0.9, 0.91, 0.92, 0.93, 0.94, 0.95]),
        (-3, 4, [-4, -2, 0, 2, 4]),
        (5, 5, [5, 6, 7, 8, 9, 10]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    ],
)
def test_nice_ticks(low, high, expected):
    assert nice_ticks(low, high) == expected


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(3, 8))
def test_ticks_hold_the_range(low, extent, most):
    high = low + extent
    ticks = nice_ticks(low, high, most)
    assert 2 <= len(ticks) <= most
    slack = 1e-6 * max(extent, 1)
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack
    assert sorted(set(ticks)) == ticks


def test_logarithmic_ticks():
    assert log_ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert log_ticks(1, 30) == [1, 2, 5, 10, 20, 30]
    assert log_ticks(3, 3) == [3]


@given(st.lists(st.floats(0, 300), min_size=1, max_size=15))
def test_labels_are_spread_as_little_as_possible(wanted):
    gap, low, high = 18.0, 10.0, 290.0
    found = np.array(spread(wanted, gap, low, high))
    order = np.argsort(wanted, kind="stable")
    n = len(wanted)
    steps = np.arange(n) * gap
    if (n - 1) * gap <= high - low:
        expected = isotonic_regression(np.array(wanted)[order] - steps).x.clip(low, high - steps[-1]) + steps
        np.testing.assert_allclose(found[order], expected, atol=1e-6)
    assert found.min() >= low - 1e-9 and found.max() <= high + 1e-9
    least = min(gap, (high - low) / max(n - 1, 1))
    assert (np.diff(found[order]) >= least - 1e-6).all()


def test_labels_that_have_room_stay():
    assert spread([100, 20, 60], 18, 0, 300) == [100, 20, 60]
    assert spread([100, 100], 18, 0, 300) == [91, 109]
    assert spread([0, 0, 0], 20, 0, 20) == [0, 10, 20]


@given(st.text(), st.floats(20, 300))
def test_shortened_names_fit(name, width):
    short = shorten(name, width, 12)
    assert text_width(short, 12) <= max(width, text_width(f"{name[:1]}…", 12))
    assert (short == name) == (text_width(name, 12) <= width) or "…" in name


def test_shortened_names_keep_both_ends():
    assert shorten("minilm-hlp-seed-1", 60, 12) == "mini…d-1"


def test_lines_are_wrapped():
    assert wrap("one two three", text_width("one two", 10) + 0.1, 10) == ["one two", "three"]
    assert wrap("incomprehensibilities of it", 30, 10) == ["incomprehensibilities", "of it"]
    assert wrap("", 30, 10) == []


# --- looks ----------------------------------------------------------------------------------------


def test_series_differ_without_their_colours():
    looks = {(re.sub(r"c\d", "", marker(i, 0, 0)), line_class(i).split()[-1]) for i in range(24)}
    assert len(looks) == 24
    assert len({re.sub(r"c\d", "", marker(i, 0, 0)) for i in range(12)}) == 12
    assert "aria-hidden" in swatch(3)
    assert all(f".{colour(i)} {{" in STYLE for i in range(24))


def colours(scheme):
    """The custom properties of one colour scheme."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", blocks[("light", "dark", "print").index(scheme)]))
    return {k: linear(v if len(v) == 7 else "#" + "".join(c * 2 for c in v[1:])) for k, v in found.items()}


def linear(code):
    """Linear RGB, float64 [3]."""
    channels = np.array([int(code[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    """WCAG 2.2's contrast ratio."""
    one, other = (float(c @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (a, b))
    return max(one, other) / min(one, other)


def lab(rgb):
    """CIE Lab, white point D65."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = matrix @ rgb.clip(0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira and Fernandes 2009, severity 1.
SIGHT = {
    "usual": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_colours_can_be_read_and_told_apart(scheme):
    known = colours(scheme)
    for name in ("ink", "quiet", "link", "good", "bad"):
        assert contrast(known[name], known["page"]) >= 4.5, name
    marks = [known[f"c{i}"] for i in range(6)]
    assert all(contrast(mark, known["page"]) >= 3 for mark in marks)
    for sight, matrix in SIGHT.items():
        seen = [lab(np.array(matrix) @ mark) for mark in marks]
        nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
        assert nearest > 20, sight
