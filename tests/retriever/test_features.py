"""Features of candidates, compared with loops over a small linked index."""

from __future__ import annotations

import random

import numpy as np
import pytest
from linked_corpus import document, make_index

from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.features import OF_LINKS, FeatureReader, feature_names, meaning
from linkseek.retriever.search.query_words import common_terms, different_words, term, terms

LONG = " ".join(["word"] * 12)
ROWS = [
    document(
        "Paris", f"The [Seine] flows. {LONG} [Seine] again and [the tower|Tower] stands.", "Paris (city)"
    ),
    document("Seine", f"A river. {LONG} In [Paris], and [the old city|Paris] too.", "Seine"),
    document("Tower", f"Iron. {LONG} It is in [Paris].", "Eiffel Tower"),
    document("Rome", "No links at all here. " + LONG, "Rome"),
]
QUERIES = [Query("1", "Which old city has the Eiffel tower?"), Query("2", "zzz")]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("features"), ROWS, words=10)


@pytest.fixture
def rankings(index):
    everything = np.arange(len(index.passages))
    first = Ranking.of(
        ("1", "2"), np.stack([everything, everything]), np.stack([everything, -everything]) / 2, 5
    )
    rows = np.array([[0, 2, -1], [-1, -1, -1]])
    return [first, Ranking.of(("1", "2"), rows, np.array([[0.5, 0.25, 0], [0, 0, 0]]))]


def columns(index, queries, rankings):
    read = FeatureReader(index).read(queries, rankings)
    names = feature_names(["a", "b"], True)
    assert read.values.shape == (*read.rows.shape, len(names))
    return read.rows, {name: read.values[:, :, column] for column, name in enumerate(names)}


def test_candidates_are_the_rows_of_all_rankings(index, rankings):
    rows, _ = columns(index, QUERIES, rankings)
    for query in range(2):
        expected = {row for ranking in rankings for row, _ in ranking.results(query)}
        assert sorted(rows[query][rows[query] >= 0]) == sorted(expected)


def test_what_the_rankings_say(index, rankings):
    rows, of = columns(index, QUERIES, rankings)
    for query, place in np.argwhere(rows >= 0).tolist():
        fused = 0.0
        for name, ranking in zip("ab", rankings, strict=True):
            results = ranking.results(query)
            scores = dict(results)
            rank = (
                [row for row, _ in results].index(rows[query, place]) + 1
                if rows[query, place] in scores
                else 0
            )
            fused += 1 / (60 + rank) if rank else 0
            expected = scores.get(rows[query, place], min(scores.values(), default=0.0))
            assert of[f"{name}: score"][query, place] == expected
            assert of[f"{name}: rank"][query, place] == (rank or ranking.depth + 1)
        assert of["fused rank"][query, place] == pytest.approx(fused)


def test_articles_titles_and_links_are_those_of_loops(index, rankings):
    rows, of = columns(index, QUERIES, rankings)
    links, documents = index.links, index.passages.document_rows
    for query in range(2):
        held = rows[query][rows[query] >= 0]
        articles = set(documents(held).tolist())
        question = terms(QUERIES[query].text)
        for place, row in enumerate(held.tolist()):
            own = int(documents(np.array([row]))[0])
            value = {name: of[name][query, place] for name in of}
            between = [
                (int(documents(np.array([links.passage[link]]))[0]), int(links.target[link]), link)
                for link in range(len(links))
            ]
            from_ = {a for a, b, _ in between if b == own and a in articles and a != own}
            to = {b for a, b, _ in between if a == own and b in articles and b != own}
            assert value["links to article"] == sum(b == own for _, b, _ in between)
            assert (value["linked from"], value["links to"]) == (len(from_), len(to))
            assert value["linked both ways"] == len(from_ & to)
            assert value["linked share"] == len(from_) / max(len(articles) - 1, 1)
            passages = {int(links.passage[link]) for a, b, link in between if b == own and a != own}
            assert value["passage linked from"] == len(passages & set(held.tolist()))
            assert value["passage links to"] == len(
                {b for _, b, link in between if links.passage[link] == row and b in to}
            )
            anchors = [
                terms(index.passages[int(links.passage[link])].text[links.start[link] : links.end[link]])
                for a, b, link in between
                if b == own and a != own and links.passage[link] in held
            ]
            assert value["anchor in question"] == max(
                (len(x & question) / len(x) for x in anchors), default=0
            )
            title = terms(index.passages[row].title)
            assert value["title in question"] == len(title & question) / len(title)
            assert value["passage length"] == len(index.passages[row].text)
            assert value["article candidates"] == (documents(held) == own).sum()
            assert value["place in article"] == int(index.passages[row].id.partition("#")[2])
    assert of["linked both ways"].any() and of["anchor in question"].max() == 1  # not vacuous


def test_a_question_alone_has_the_same_features_as_among_others(index, rankings):
    _, together = columns(index, QUERIES, rankings)
    alone = [ranking.part(np.array([True, False])) for ranking in rankings]
    _, of = columns(index, QUERIES[:1], alone)
    for name, values in of.items():
        assert np.array_equal(values[0], together[name][0][: values.shape[1]]), name


def test_without_links_and_without_candidates(index, rankings):
    read = FeatureReader(index, links=False).read(QUERIES, rankings)
    assert (
        read.values.shape[2]
        == len(feature_names("ab", False))
        == len(feature_names("ab", True)) - len(OF_LINKS)
    )
    nothing = [Ranking.of(("1",), np.full((1, 3), -1), np.zeros((1, 3)))]
    assert FeatureReader(index).read(QUERIES[:1], nothing).rows.shape == (1, 0)
    none = [ranking.part(np.zeros(2, np.bool_)) for ranking in rankings]
    assert FeatureReader(index).read([], none).rows.shape == (0, 0)


def test_every_feature_has_a_meaning():
    assert all(map(meaning, feature_names(["bm25", "a: b"], True)))


def invented_words(count):
    """Words like English ones: short beginnings, also in y and i, with one or two endings."""
    draw = random.Random(1)
    endings = (
        "s es ies sses ed ing y eed ational ate ness ful able ion ement ent ly ll e ism ical ying".split()
    )
    return [
        "".join(draw.choices("aeiouybcdst0_", k=draw.randint(1, 4)))
        + draw.choice(endings)
        + draw.choice(["", *endings])
        for _ in range(count)
    ]


ODD = [
    "Caf\u00e9s \u2013 \u201cZ\u00dcRICH\u2019s\u201d x_1\u2122, ays\u00b2 \u0131yed \u00a9dyed \ufb01tness",
    "cafe\u0301s _x\u00ad1 ey\u200des \u6771ays\u4eac \U0001f600ays, dyed\u2026Ays\u00a0\u00bdeyes \u00dfs",
]
"""Accents, marks, ligatures, what joins words, and signs that are words of their own."""


@pytest.mark.parametrize("language", ["en", "de"])
def test_common_terms_are_the_terms_of_the_text_that_are_wanted(language):
    draw = random.Random(2)
    words = [
        *invented_words(400),
        *" ".join(ODD).split(),
        "ayed",
        "ays",
        "Eyes",
        "dyed",
        "iyed",
        "café",
        "Zürich",
        "_x",
        "x_1",
    ]
    found = 0
    for _ in range(60):
        wanted = terms(" ".join(draw.sample(words, draw.randint(0, 12))), language)
        for text in (
            " ".join(draw.sample(words, 80)),
            ", ".join(words).upper(),
            "C++ (Ays)-dyed's",
            *ODD,
            "",
        ):
            expected = frozenset(term(word, language) for word in different_words(text, language)) & wanted
            assert common_terms(wanted, text, language) == expected
            found += len(expected)
    assert found > 100


def test_each_word_is_found_among_those_that_may_have_its_term():
    for word in [*invented_words(3000), "ayed", "ays", "eyes", "dyed", "iyed", "i", "y"]:
        wanted = frozenset({term(word)}) - {""}
        assert common_terms(wanted, f"An {word}.") == wanted, word
