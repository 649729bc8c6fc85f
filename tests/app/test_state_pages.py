"""Addresses of articles, reports and indexes: what is written is read again, what is odd is left out."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from app.web.state import (
    PAIRS,
    PARTS,
    ArticleView,
    EvaluationView,
    article_address,
    article_view_address,
    evaluation_address,
    index_address,
    passage_address,
    read_article_view,
    read_evaluation_view,
)

OBJECTIVES = ["bfs", "co-mention", "dual-link", "hlp", "ict", "wlp"]
CONTRASTS = ["ict", "php-hp", "php-shp", "prop"]
USUAL = ArticleView(objectives=("dual-link", "co-mention"), contrasts=("prop", "php-hp"))
ARTICLE = replace(USUAL, id="Ada & <b>", passage="Ada#3", find="a+b")


def params_of(address):
    return parse_qs(urlsplit(address).query, keep_blank_values=True)


@pytest.mark.parametrize(
    "view",
    [
        USUAL,
        ARTICLE,
        replace(ARTICLE, first=51),
        replace(ARTICLE, show=PAIRS, objectives=("hlp",)),
        replace(ARTICLE, show=PAIRS, objectives=("ict", "hlp"), contrasts=()),
        replace(ARTICLE, show=PAIRS, objectives=(), contrasts=("php-shp", "ict")),
    ],
)
def test_views_of_articles(view):
    params = params_of(article_view_address(view, "an index"))
    assert read_article_view(params, OBJECTIVES, CONTRASTS) == view and params["index"] == ["an index"]


@pytest.mark.parametrize(
    "view", [EvaluationView(), EvaluationView("a/b <c>"), EvaluationView("x", PARTS[2], ("bm25", "a&b"))]
)
def test_views_of_evaluations(view):
    assert read_evaluation_view(params_of(evaluation_address(view, "i"))) == view


def test_a_pair_is_in_the_address_where_it_is_shown():
    assert "pair" not in EvaluationView("x", PARTS[0], ("a", "b")).to_params()
    assert EvaluationView("", PARTS[2], ("a", "b")).to_params() == {}


def test_links_without_a_view():
    assert article_address("A#1", "i") == "article?id=A%231&index=i"
    assert passage_address("A", "A#1", "i") == "article?id=A&passage=A%231&index=i"
    assert index_address("a b") == "index?index=a+b"


@pytest.mark.parametrize("first", ["", "0x1", "-5", "1" * 20, "٣", "1.5", "\0"])
def test_odd_numbers_of_passages(first):
    assert read_article_view({"first": [first]}, OBJECTIVES).first == 1


def test_odd_values():
    view = read_article_view(
        {
            "show": ["<b>"],
            "objectives": ["ict", "../x", "ict", "bfs", "hlp"],
            "contrasts": CONTRASTS,
            "id": [],
        },
        OBJECTIVES,
        CONTRASTS,
    )
    assert view == ArticleView(objectives=("ict", "bfs", "hlp"), contrasts=("ict",))  # four in all
    several = read_article_view({"objectives": OBJECTIVES, "contrasts": CONTRASTS}, OBJECTIVES, CONTRASTS)
    assert several == ArticleView(objectives=tuple(OBJECTIVES[:4]))
    assert read_evaluation_view({"report": ["r"], "part": ["none"], "pair": ["a"]}) == EvaluationView("r")
    assert read_evaluation_view({"pair": ["a", "b", "c"]}).pair is None
    assert read_article_view({}, []) == ArticleView()
