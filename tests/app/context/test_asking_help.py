"""Help with a question: another spelling on the page, and titles while it is typed."""

import re

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.applications import Starlette
from starlette.testclient import TestClient

from linkseek.app.context.did_you_mean import did_you_mean
from linkseek.app.page.context import TITLES_PATH, AppOptions, titles_route
from linkseek.indexer.index import OpenIndex
from tests.support.pages import bodies
from tests.support.tiny.index import HOSTILE_TITLE, build

HELP = {"pipelines": "bm25", "k": "5"}


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("Where do volcanos erupt near Naplse?", "Where do volcanos erupt near Naples?"),
        ("capitol of France", "capital of France"),
        ("capital of France", None),
        ("the river <b>Siene</b>", "the river <b>Seine</b>"),
        ("the volcano of Siene", None),  # no passage has both
        ("zzzzzz", None),
    ],
)
def test_another_spelling_is_one_click_away(open_page, own_index, question, meant):
    test = open_page("search", own_index, q=question, only="folder:a.example.org", **HELP)
    links = LexborHTMLParser(bodies(test)).css("p.ls-meant a")
    assert [link.attributes["title"] for link in links] == ([meant] if meant else [])
    if meant:
        href = links[0].attributes["href"]
        assert {*links[0].text().split(", ")} == {*re.findall(r"\w+", meant)} - {
            *re.findall(r"\w+", question)
        }
        assert "only=folder" in href and "pipelines=bm25" in href and "index=own" in href


@pytest.mark.parametrize(
    ("language", "text", "question", "words"),
    [
        ("ru", "Суперкубок выиграл Денвер.", "Суперкубок выиграл Дневер?", ["Денвер"]),
        ("ru", "Суперкубок выиграл Денвер.", "Кто выиграл в Суперкубке?", None),  # another form
        ("th", "เพย์ตัน เล่นใน ซูเปอร์โบว์ล", "เพย์ตัน เล่นใน อินเตอร์เซป", None),  # no parts of words
        ("en", "The programs of Ada.", "the programms of Ada", ["programs"]),
    ],
)
def test_words_of_many_languages(tmp_path, language, text, question, words):
    index = build(tmp_path / "index", [("a", "A", text, "")], encoders=(), language=language)
    meant = did_you_mean(OpenIndex.open(index), question)
    assert (meant and meant[1]) == words


@pytest.fixture
def titles(own_index, open_page):
    """Ask the route of an application with two indexes; open_page gives it services of its own."""
    build(own_index.with_name("other"), [("a b/c?", "Another Paris", "Text.", "")], encoders=())
    options = AppOptions(index=own_index)
    client = TestClient(Starlette(routes=[titles_route(options)]))

    def titles(**params):
        response = client.get(TITLES_PATH, params=params)
        assert response.status_code == 200
        return response.json()

    return titles


def test_titles_while_a_question_is_typed(titles):
    paris = {"title": "Paris", "address": "article?id=Paris&index=own"}
    assert titles(text="pari") == titles(text="  PARI ", index="own") == [paris]
    assert titles(text="pari", index="other") == [
        {"title": "Another Paris", "address": "article?id=a+b%2Fc%3F&index=other"}
    ]
    assert [each["title"] for each in titles(text="alert(1)")] == [HOSTILE_TITLE]  # JSON, set as text


def test_titles_of_a_damaged_index(titles, own_index):
    (own_index / "manifest.json").write_text("{")
    assert titles(text="paris") == []
