"""Articles: text with links, dual links, neighbours."""

from collections import Counter

import pytest

from linkseek.app.context import article as browsing
from linkseek.app.context.article import article_row, passage_number, read_article
from linkseek.indexer.program.errors import InputError
from tests.support.tiny.linked import build_linked, page, random_pages, topology_of


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return build_linked(tmp_path_factory.mktemp("browsing") / "index", random_pages(), words=16)


def test_a_small_wiki_by_hand(tmp_path):
    index = build_linked(
        tmp_path / "index",
        [
            page(
                "A",
                "See [[B|bee]] and [[C]]. And [[B]] again, [[A|itself]], [[red]].",
                "Title A",
                "http://a.example",
            ),
            page("B", "Back to [[A]]. " + "word " * 20 + "[[A|there]]."),
            page("C", "Nothing."),
            page("D", "[[A]] [[A]] [[C]]"),
        ],
        words=10,
    )
    article = read_article(index, topology_of(index), 0)
    assert (article.id, article.title, article.url) == ("A", "Title A", "http://a.example")
    [passage] = article.passages
    assert (passage.id, passage.number, passage.text) == (
        "A#0",
        1,
        "See bee and C. And B again, itself, red.",
    )
    assert [(passage.text[a.start : a.end], a.target.id) for a in passage.anchors] == [
        ("bee", "B"),
        ("C", "C"),
        ("B", "B"),
    ]
    assert [(dual.target.id, dual.passages) for dual in passage.duals] == [("B", ("B#0", "B#2"))]
    assert article.links == 3 and (article.first, article.count) == (1, 1)

    def listed(neighbours):
        return [(n.target.id, n.links_to, n.links_from) for n in neighbours.first]

    assert listed(article.mutual) == [("B", 2, 2)]
    assert listed(article.incoming) == [("D", 0, 2)]
    assert listed(article.outgoing) == [("C", 1, 0)]


def test_dual_links_are_those_of_the_topology(index, monkeypatch):
    monkeypatch.setattr(browsing, "MAX_DUALS", 1000)
    topology = topology_of(index)
    whole = topology.dual_links()
    expected = sorted(
        (index.passages[int(a)].id, index.passages[int(b)].id)
        for a, b in zip(whole.query, whole.positive, strict=True)
    )
    found = sorted(
        (passage.id, back)
        for row in range(len(index.documents))
        for passage in read_article(index, topology, row).passages
        for dual in passage.duals
        for back in dual.passages
    )
    assert found == expected and len(found) > 20


def test_neighbours_are_all_links_counted(index):
    links = Counter()
    for document in index.documents:
        row = index.document_ids.row(document.id)
        first, last = index.passages.offsets[row : row + 2]
        for passage in range(first, last):
            for link in index.links.from_passage(passage):
                links[row, int(index.links.target[link])] += 1
    for row in range(len(index.documents)):
        article = read_article(index, topology_of(index), row)
        out = {b: count for (a, b), count in links.items() if a == row != b}
        here = {a: count for (a, b), count in links.items() if b == row != a}
        listed = [*article.mutual.first, *article.incoming.first, *article.outgoing.first]
        assert {n.target.row: (n.links_to, n.links_from) for n in listed} == {
            other: (out.get(other, 0), here.get(other, 0)) for other in out.keys() | here.keys()
        }
        assert {n.target.row for n in article.mutual.first} == out.keys() & here.keys()
        assert article.links == sum(out.values())


def test_long_lists_are_cut_and_counted(index, monkeypatch):
    monkeypatch.setattr(browsing, "MAX_NEIGHBOURS", 2)
    monkeypatch.setattr(browsing, "MAX_DUALS", 1)
    whole = [read_article(index, topology_of(index), row) for row in range(5)]
    assert any(a.mutual.count > 2 == len(a.mutual.first) for a in whole)
    most = max((p for a in whole for p in a.passages), key=lambda p: p.more_duals)
    assert most.more_duals > 0 and len(most.duals) == 1
    for article in whole:
        counts = [n.links_to + n.links_from for n in article.mutual.first]
        assert counts == sorted(counts, reverse=True)


def test_pages_of_a_long_article(tmp_path, monkeypatch):
    monkeypatch.setattr(browsing, "PAGE", 3)
    index = build_linked(tmp_path / "index", [page("A", "word " * 70)], words=10)
    assert [p.number for p in read_article(index, topology_of(index), 0).passages] == [1, 2, 3]
    assert [p.id for p in read_article(index, topology_of(index), 0, 6).passages] == ["A#5", "A#6"]
    for first, shown in ((0, 1), (-5, 1), (7, 7), (8, 7), (10**9, 7)):
        assert read_article(index, topology_of(index), 0, first).first == shown
    assert passage_number(index, 0, "A#6") == 7
    assert passage_number(index, 0, "A#7") == 0 and passage_number(index, 0, "B#0") == 0


def test_headings_stand_where_their_sections_begin(tmp_path):
    row = page("A", "Lead words here. First section text. \n\n  Second one.")
    at = row["text"].index
    row["sections"] = [
        {"start": at("First"), "heading": "One", "level": 2},
        {"start": at("text.") + 6, "heading": "In the white space", "level": 3},
    ]
    index = build_linked(tmp_path / "index", [row], words=3)
    headings = [
        (p.number, p.text[h.start :], h.text)
        for p in read_article(index, topology_of(index), 0).passages
        for h in p.headings
    ]
    assert headings == [(2, "First section text.", "One"), (3, "Second one.", "In the white space")]


def test_a_book_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(browsing, "MAX_CHARACTERS", 12)
    index = build_linked(
        tmp_path / "index", [page("A", "See [[B]] and more of [[B]]."), page("B", "")], words=0
    )
    [passage] = read_article(index, topology_of(index), 0).passages
    assert (passage.text, passage.cut, len(passage.anchors)) == ("See B and mo", True, 1)
    assert read_article(index, topology_of(index), 1).passages[0].text == ""


@pytest.mark.parametrize("id_", ["", "none", "A#0", "../A", "a"])
def test_an_article_that_is_not_there(tmp_path, id_):
    index = build_linked(tmp_path / "index", [page("A", "x")])
    assert article_row(index, "A") == 0
    with pytest.raises(InputError, match="there is no article"):
        article_row(index, id_)
