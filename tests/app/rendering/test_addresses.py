"""Addresses of pages: what is written is read again, odd values are ignored."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from linkseek.app.rendering.addresses import (
    REPORT_PARTS,
    ArticleView,
    CompareView,
    EvaluationView,
    SearchView,
    article_address,
    index_address,
    link_to,
    read_search_view,
    why_address,
)

AVAILABLE = ["bm25", "ql", "dense", "hybrid", "hybrid-weighted"]
DEFAULT = ("bm25", "hybrid-weighted")


def test_there_and_back_with_everything():
    view = SearchView("q", ("dense",), 5, grouped=True, why="Ada Lovelace#2")
    params = view.to_params()
    assert (params["grouped"], params["why"]) == (["1"], ["Ada Lovelace#2"])
    assert read_search_view(params, AVAILABLE, DEFAULT) == view


def test_links():
    view = SearchView("a & b?", ("bm25",), 5)
    assert view.address("my index") == "./?pipelines=bm25&k=5&q=a+%26+b%3F&index=my+index"
    assert why_address(view, "i", "A#1") == "./?pipelines=bm25&k=5&q=a+%26+b%3F&why=A%231&index=i"
    assert (link_to("search", {}), link_to("article", {})) == ("./", "article")


@pytest.mark.parametrize("value", ["0", "", "true", "11", "on"])
def test_switches_are_on_by_a_1_alone(value):
    view = read_search_view({"grouped": [value], "merged": [value]}, AVAILABLE, DEFAULT)
    assert (view.grouped, view.merged) == (False, False)


@pytest.mark.parametrize(
    "asked, expected",
    [
        (["dense"], ("dense",)),
        (["dense", "<script>", "../x", "dense", "bm25"], ("dense", "bm25")),
        (["nothing"], DEFAULT),
        ([], DEFAULT),
        (AVAILABLE, ("bm25", "ql", "dense", "hybrid")),
    ],
)
def test_pipelines(asked, expected):
    assert read_search_view({"pipelines": asked}, AVAILABLE, DEFAULT).pipelines == expected


@pytest.mark.parametrize(
    "k, expected",
    [("5", 5), ("20", 20), ("0", 5), ("7", 5), ("8", 10), ("999", 20), ("9" * 999, 10)]
    + [(k, 10) for k in ("", "-5", "x", "1e9", "٥", "²", "10.0", "nan")],
)
def test_counts(k, expected):
    assert read_search_view({"k": [k]}, AVAILABLE, DEFAULT).k == expected


def test_a_question_that_is_too_long_for_an_address():
    assert "q" in SearchView("x" * 2_000, ("bm25",)).to_params()
    assert "q" not in SearchView("x" * 2_001, ("bm25",)).to_params()


# --- articles, evaluations, indexes ---------------------------------------------------------------

ARTICLE = ArticleView(id="Ada & <b>", passage="Ada#3", find="a+b")


def params_of(address):
    return parse_qs(urlsplit(address).query, keep_blank_values=True)


@pytest.mark.parametrize(
    "view",
    [
        *(ArticleView(), ARTICLE, replace(ARTICLE, first=51), CompareView("a b", 3)),
        *(EvaluationView(), EvaluationView("a/b <c>"), EvaluationView("x", REPORT_PARTS[2], ("bm25", "a&b"))),
        EvaluationView("x", REPORT_PARTS[2], ("a", "b"), "MRR@10", "worse", "-a", 101),
    ],
)
def test_a_view_is_read_from_its_address(view):
    params = params_of(view.address("an index"))
    assert type(view).read(params) == view and params["index"] == ["an index"]


def test_a_pair_is_in_the_address_where_it_is_shown():
    assert "pair" not in EvaluationView("x", REPORT_PARTS[0], ("a", "b")).to_params()
    assert EvaluationView("", REPORT_PARTS[2], ("a", "b")).to_params() == {}


def test_links_without_a_view():
    assert article_address("A#1", "i") == "article?id=A%231&index=i"
    assert article_address("A", "i", "A#1") == "article?id=A&passage=A%231&index=i"
    assert index_address("a b") == "index?index=a+b"


def test_odd_values():
    assert EvaluationView.read({"report": ["r"], "part": ["none"], "pair": ["a"]}) == EvaluationView("r")
    assert EvaluationView.read({"pair": ["a", "b", "c"]}) == EvaluationView()
    assert ArticleView.read({"show": ["pairs"], "id": []}) == ArticleView()
