"""What a page's address may say."""

import pytest

from app.web.state import View, default_pipelines, link_to, read_view, search_address, why_address

AVAILABLE = ["bm25", "ql", "dense", "hybrid", "hybrid-weighted"]


def test_there_and_back():
    view = View("Wer? & = # ö", ("hybrid", "bm25"), 20)
    assert view.to_params() == {"q": ["Wer? & = # ö"], "pipelines": ["hybrid", "bm25"], "k": ["20"]}
    assert read_view(view.to_params(), AVAILABLE) == view


def test_there_and_back_with_everything():
    view = View("q", ("dense",), 5, grouped=True, chart=True, why="Ada Lovelace#2")
    params = view.to_params()
    assert (params["grouped"], params["chart"], params["why"]) == (["1"], ["1"], ["Ada Lovelace#2"])
    assert read_view(params, AVAILABLE) == view


def test_an_empty_address():
    assert read_view({}, AVAILABLE) == View("", ("bm25", "hybrid"), 10)


def test_links():
    view = View("a & b?", ("bm25",), 5)
    assert search_address(view, "my index") == "./?pipelines=bm25&k=5&q=a+%26+b%3F&index=my+index"
    assert why_address(view, "i", "A#1") == "./?pipelines=bm25&k=5&q=a+%26+b%3F&why=A%231&index=i"
    assert (link_to("search", {}), link_to("article", {})) == ("./", "article")


@pytest.mark.parametrize("value", ["0", "", "true", "11", "on"])
def test_switches_are_on_by_a_1_alone(value):
    view = read_view({"grouped": [value], "chart": [value]}, AVAILABLE)
    assert (view.grouped, view.chart) == (False, False)


@pytest.mark.parametrize(
    "asked, expected",
    [
        (["dense"], ("dense",)),
        (["dense", "<script>", "../x", "dense", "bm25"], ("dense", "bm25")),
        (["nothing"], ("bm25", "hybrid")),
        ([], ("bm25", "hybrid")),
        (AVAILABLE, ("bm25", "ql", "dense", "hybrid")),
    ],
)
def test_pipelines(asked, expected):
    assert read_view({"pipelines": asked}, AVAILABLE).pipelines == expected


@pytest.mark.parametrize(
    "k, expected",
    [("5", 5), ("20", 20), ("0", 5), ("7", 5), ("8", 10), ("999", 20), ("9" * 999, 10)]
    + [(k, 10) for k in ("", "-5", "x", "1e9", "٥", "²", "10.0", "nan")],
)
def test_counts(k, expected):
    assert read_view({"k": [k]}, AVAILABLE).k == expected


def test_a_parameter_that_is_given_twice():
    assert read_view({"q": ["first", "second"], "k": ["20", "5"]}, AVAILABLE) == View(
        "first", ("bm25", "hybrid"), 20
    )


def test_a_question_that_is_too_long_for_an_address():
    assert "q" in View("x" * 2_000, ("bm25",)).to_params()
    assert "q" not in View("x" * 2_001, ("bm25",)).to_params()


@pytest.mark.parametrize(
    "available, expected",
    [(["bm25", "ql"], ("bm25", "ql")), (["dense"], ("dense",)), (["a", "b", "c"], ("a", "b")), ([], ())],
)
def test_what_is_shown_first(available, expected):
    assert default_pipelines(available) == expected
