"""Features of candidates, compared with loops over a small linked index."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from linkseek.retriever.learned.learned_fusion import OF_LINKS, FeatureReader, feature_names, meaning
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.query_words import common_terms, different_words, term, terms
from tests.support.tiny.linked import document, make_index

LONG = " ".join(["word"] * 12)
ROWS = [
    document(
        "Paris", f"The [Seine] flows. {LONG} [Seine] again and [the tower|Tower] stands.", "Paris (city)"
    ),
    document("Seine", f"A river. {LONG} In [Paris], and [the old city|Paris] too.", "Seine"),
    document("Tower", f"Iron. {LONG} It is in [Paris].", "Eiffel Tower"),
    document("Rome", f"Not at the [Seine], or [the old Seine|Seine]. {LONG}", "Rome"),
    document("Oslo", "No links at all here.", "Oslo"),
]
IDS = ("1", "2", "3")
TEXTS = ("Which old city has the Eiffel tower?", "zzz", "Seine in Paris")
QUERIES = [*map(Query, IDS, TEXTS)]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return make_index(tmp_path_factory.mktemp("features"), ROWS, words=10)


@pytest.fixture(scope="module")
def rankings(index):
    everything = np.tile(np.arange(len(index.passages)), (3, 1))
    first = Ranking.of(IDS, everything, everything * np.array([[1], [-1], [-1]]) / 2, 5)
    rows = np.array([[0, 2, -1], [-1, -1, -1], [2, 0, 5]])
    return [first, Ranking.of(IDS, rows, np.array([[0.5, 0.25, 0], [0, 0, 0], [0.75, 0.5, 0.125]]))]


def columns(index, queries, rankings):
    read = FeatureReader(index, ["a", "b"]).read(queries, rankings)
    names = feature_names(["a", "b"], True)
    assert read.values.shape == (*read.rows.shape, len(names))
    return read.rows, {name: read.values[:, :, column] for column, name in enumerate(names)}


def test_candidates_are_the_rows_of_all_rankings(index, rankings):
    rows, _ = columns(index, QUERIES, rankings)
    for query in range(3):
        expected = {row for ranking in rankings for row, _ in ranking.results(query)}
        assert sorted(rows[query][rows[query] >= 0]) == sorted(expected)


def by_loops(index, rankings, number, rows):
    """The features of one question's candidates, after their meanings: name -> a value for each row."""
    links, question = index.links, terms(QUERIES[number].text)
    own = index.passages.document_rows(np.array(rows)).tolist()
    of, fused = {}, [0.0] * len(rows)
    for name, ranking in zip("ab", rankings, strict=True):
        results = dict(ranking.results(number))
        low, high = min(results.values(), default=0.0), max(results.values(), default=0.0)
        score = [results.get(row, low) for row in rows]
        rank = [[*results].index(row) + 1 if row in results else ranking.depth + 1 for row in rows]
        of[f"{name}: score"], of[f"{name}: rank"] = score, rank
        of[f"{name}: scaled score"] = [
            (results[row] - low) / (high - low) if row in results else 0 for row in rows
        ]
        of[f"{name}: article score"] = best_of_article(own, score)
        fused = [
            total + (1 / (60 + r) if row in results else 0)
            for row, r, total in zip(rows, rank, fused, strict=True)
        ]
    of["fused rank"], of["article fused rank"] = fused, best_of_article(own, fused)
    best = dict(zip(own, of["article fused rank"], strict=True))
    place = [int(index.passages[row].id.partition("#")[2]) for row in rows]
    between = [
        (int(index.passages.document_rows(np.array([links.passage[n]]))[0]), int(links.target[n]), n)
        for n in range(len(links))
    ]
    for at, (row, article) in enumerate(zip(rows, own, strict=True)):
        title = terms(index.passages[row].title)
        siblings = [fused[n] for n in range(len(rows)) if own[n] == article]
        from_ = {a for a, b, _ in between if b == article and a in own and a != article}
        to = {b for a, b, _ in between if a == article and b in own and b != article}
        led = [n for a, b, n in between if b == article and a != article and links.passage[n] in rows]
        anchors = [
            terms(index.passages[int(links.passage[n])].text[links.start[n] : links.end[n]]) for n in led
        ]
        values = {
            "rank in article": 1 + sum(each > fused[at] for each in siblings),
            "article candidates": len(siblings),
            "title in question": len(title & question) / len(title),
            "question in title": len(title & question) / len(question),
            "question words": len(question),
            "place in article": place[at],
            "article passages": int(np.diff(index.passages.offsets)[article]),
            "passage length": len(index.passages[row].text),
            "links to article": sum(b == article for _, b, _ in between),
            "linked from": len(from_),
            "links to": len(to),
            "linked both ways": len(from_ & to),
            "linked share": len(from_) / max(len({*own}) - 1, 1),
            "linked from best": sum(best[a] for a in from_),
            "passage linked from": len({int(links.passage[n]) for n in led}),
            "passage links to": len({b for _, b, n in between if links.passage[n] == row and b in to}),
            "anchor in question": max((len(x & question) / len(x) for x in anchors), default=0),
        }
        for name, value in values.items():
            of.setdefault(name, []).append(value)
    return of


def best_of_article(own, values):
    return [max(v for d, v in zip(own, values, strict=True) if d == document) for document in own]


def differing(index, rankings, rows, of):
    """The features whose values are not those of the loops, for any question."""
    found = set()
    for number in range(len(QUERIES)):
        held = rows[number] >= 0
        expected = by_loops(index, rankings, number, rows[number][held].tolist())
        assert {*expected} == {*of}
        found |= {name for name in of if not np.allclose(of[name][number][held], expected[name])}
    return found


def test_each_feature_is_that_of_loops(index, rankings):
    assert differing(index, rankings, *columns(index, QUERIES, rankings)) == set()


def test_a_swap_of_any_two_features_is_seen(index, rankings):
    rows, of = columns(index, QUERIES, rankings)
    for a, b in combinations(of, 2):
        assert differing(index, rankings, rows, of | {a: of[b], b: of[a]}) == {a, b}


def test_a_question_alone_has_the_same_features_as_among_others(index, rankings):
    _, together = columns(index, QUERIES, rankings)
    alone = [ranking.query(0) for ranking in rankings]
    _, of = columns(index, QUERIES[:1], alone)
    for name, values in of.items():
        assert np.array_equal(values[0], together[name][0][: values.shape[1]]), name


def test_without_links_and_without_candidates(index, rankings):
    read = FeatureReader(index, "ab", links=False).read(QUERIES, rankings)
    assert (
        read.values.shape[2]
        == len(feature_names("ab", False))
        == len(feature_names("ab", True)) - len(OF_LINKS)
    )
    nothing = [Ranking.of(("1",), np.full((1, 3), -1), np.zeros((1, 3)))]
    assert FeatureReader(index, "a").read(QUERIES[:1], nothing).rows.shape == (1, 0)
    none = [ranking.block(0, 0) for ranking in rankings]
    assert FeatureReader(index, "ab").read([], none).rows.shape == (0, 0)


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
