"""Hops, compared with a loop over all links of a small index with vectors."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from linkseek.retriever.learned.hop_features import OF_GRAPH, HopFeatures, hop_feature_names, hop_meaning
from linkseek.retriever.learned.hop_graph import AlteredEdges, Articles, Edge, Noise, Similarity, open_edges
from linkseek.retriever.learned.training import Examples, recall
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.query_vectors import encoded_once, query_vectors
from linkseek.retriever.search.query_words import terms
from tests.support.tiny.index import WordEncoder, built
from tests.support.tiny.linked import random_pages

QUERIES = [Query("1", "a river of tea near the moon"), Query("2", "harp"), Query("3", "stone moon tea")]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    plan = {"bm25": False, "passage_words": 12, "encoders": ["words"]}
    return built(tmp_path_factory.mktemp("hops") / "index", random_pages(30), **plan)


@pytest.fixture(scope="module")
def similarity(index):
    return Similarity(index, WordEncoder().encode_queries)


def dense(index, depth=None):
    """The first stage: all passages by similarity, or the first ones."""
    vectors = index.vectors_of(np.arange(len(index.passages)))

    def search(queries, k):
        questions = WordEncoder().encode_queries([query.text for query in queries])
        scores = np.stack([vectors @ question for question in questions])
        rows = np.tile(np.arange(len(vectors)), (len(queries), 1))
        return Ranking.of([query.id for query in queries], rows, scores, depth or k)

    return search


def test_edges_are_the_first_links_to_each_other_article(index):
    for limit in (1, 100):
        edges = open_edges(index, "links", limit)
        for row in range(len(index.passages)):
            expected = {}
            document = int(index.passages.document_rows(np.array([row]))[0])
            for link in index.links.from_passage(row):
                if index.links.target[link] != document:
                    expected.setdefault(int(index.links.target[link]), link)
            assert edges(row) == [Edge(d, -1, link) for d, link in list(expected.items())[:limit]]


def test_without_vectors_an_article_is_its_first_passage(index):
    nothing = Similarity(index)
    articles = Articles(index, nothing)
    for document in range(len(index.documents)):
        first, last = index.passages.offsets[document : document + 2].tolist()
        [row] = articles.best([Edge(document, -1, 0)], {}, nothing.questions(["x"])[0])
        assert row == (first if last > first else -1)


def test_passages_of_many_articles_are_those_of_each_alone(index, similarity):
    articles, question = Articles(index, similarity), similarity.questions([QUERIES[0].text])[0]
    edges = [Edge(document, -1, 0) for document in range(len(index.documents))] + [Edge(0, 7, -1)]
    ranked = {1: int(index.passages.offsets[2]) - 1}
    best = articles.best(edges, dict(ranked), question)
    assert best == [articles.best([edge], dict(ranked), question)[0] for edge in edges]
    assert best[1] == ranked[1]
    assert best[-1] == 7


ASKED = [
    Query("1", "the title 4 of a river of tea near the moon"),
    Query("2", "harp title 2 5 7 11 13 17 20 23 29"),
    Query("3", "stone moon tea"),
]
SOURCES = 5


@pytest.fixture(scope="module")
def graphs(index):
    """The links, and steps to passages by a rule that has no links."""

    def similar(row):
        others = [(row * 7 + n * n + 3) % len(index.passages) for n in range(1 + row % 4)]
        documents = index.passages.document_rows(np.array(others)).tolist()
        return [
            Edge(document, other, -1) for document, other in dict(zip(documents, others, strict=True)).items()
        ]

    return {"links": open_edges(index, "links", 100), "bm25": similar}


@pytest.fixture(scope="module")
def candidates(index, similarity, graphs):
    """Of each question its candidates, and the same features by loops."""
    reader = HopFeatures(index, graphs, Articles(index, similarity), similarity, SOURCES)
    first = dense(index, depth=10)(ASKED, 10)
    together = reader.read(ASKED, first)
    loops = [
        features_by_loops(index, graphs, query, first.results(number), together[number].rows.tolist())
        for number, query in enumerate(ASKED)
    ]
    for number, of_query in enumerate(together):
        [alone] = reader.read(ASKED[number : number + 1], first.query(number))
        assert np.array_equal(alone.values, of_query.values)  # whichever questions are read with it
        assert of_query.rows[:10].tolist() == first.rows[number].tolist()
    return reader.names, together, loops


def features_by_loops(index, graphs, query, results, rows):
    """name -> the value of each candidate, after the meaning of the feature."""
    text_of = [f"{index.passages[row].title} {index.passages[row].text}" for row in rows]
    title_of = [terms(index.passages[row].title) for row in rows]
    document = index.passages.document_rows(np.array(rows)).tolist()
    asked, vectors = terms(query.text), index.vectors_of(np.array(rows)).astype(np.float64)
    [question] = WordEncoder().encode_queries([query.text]).astype(np.float64)
    plain = [score for _, score in results]
    score = [(each - min(plain)) / (max(plain) - min(plain)) for each in plain]
    score += [-1.0] * (len(rows) - len(plain))
    known = [float(vector @ question) for vector in vectors]
    near = [(each - max(known[: len(plain)])) / max(np.std(known[: len(plain)]), 1e-6) for each in known]
    held = [asked & terms(text) for text in text_of]
    rarity = {word: np.log((len(rows) + 1) / (sum(word in each for each in held) + 0.5)) for word in asked}

    def weight(words):
        return sum(rarity[word] for word in words) / sum(rarity.values())

    def share(words, others):
        return len(words & others) / len(words) if words else 0.0

    of = {
        "score": score,
        "rank": [min(place, len(plain)) + 1 for place in range(len(rows))],
        "similarity": near,
        "question words": [weight(each) for each in held],
        "title in question": [share(title, asked) for title in title_of],
        "question in title": [weight(asked & title) for title in title_of],
        "words": [len(asked)] * len(rows),
        "titles in question": [sum(title <= asked for title in title_of[:SOURCES])] * len(rows),
        "lead": [score[0] - score[1]] * len(rows),
    }
    leading = {}
    for graph, edges in graphs.items():
        steps = leading[graph] = []  # (source, target, link, position, count)
        for source in range(SOURCES):
            leads = edges(rows[source])
            for position, edge in enumerate(leads):
                row = edge.row
                if row < 0:  # candidates come in the order of ranks, and a new article has one
                    same = [rows[n] for n in range(len(rows)) if document[n] == edge.document]
                    row = same[0] if same else rows[source]  # an empty article leads nowhere
                if row != rows[source]:
                    steps.append((source, rows.index(row), edge.link, position, len(leads)))
        columns = {name: [] for name in OF_GRAPH}
        for to in range(len(rows)):
            to_here = [step for step in steps if step[1] == to]
            best = to_here[0] if to_here else None
            anchors = []
            for source, _, link, *_ in to_here:
                if link < 0:
                    anchors.append(title_of[to])
                else:
                    text = index.passages[rows[source]].text
                    anchors.append(terms(text[index.links.start[link] : index.links.end[link]]))
            from_source = [float(vectors[step[0]] @ vectors[to]) for step in to_here]
            ranks = []
            for source, *_ in to_here:
                siblings = [step[1] for step in steps if step[0] == source]
                ranks.append(1 + sorted(siblings, key=lambda n: -known[n]).index(to))
            values = {
                "source score": score[best[0]] if best else -1,
                "source rank": best[0] + 1 if best else SOURCES + 1,
                "sources": sum(score[step[0]] for step in to_here),
                "edges": best[4] if best else 0,
                "place": best[3] if best else -1,
                "rank among linked": min(ranks, default=9),
                "source title in question": share(title_of[best[0]], asked) if best else -1,
                "anchor in question": max((share(anchor, asked) for anchor in anchors), default=-1),
                "title in anchor": max((share(title_of[to], anchor) for anchor in anchors), default=-1),
                "open words": max((weight(held[to] - held[step[0]]) for step in to_here), default=-1),
                "open similarity": max(
                    (
                        known[to] - known[step[0]] * own
                        for step, own in zip(to_here, from_source, strict=True)
                    ),
                    default=-9,
                ),
                "joint similarity": max((known[to] + own for own in from_source), default=-9),
                "source similarity": from_source[0] if best else -9,
            }
            for name, value in values.items():
                columns[name].append(value)
        of |= {f"{graph}: {name}": column for name, column in columns.items()}
    led = [
        [
            n
            for n in range(SOURCES)
            if document[n] in [edge.document for edge in graphs["links"](row)]
            and document.index(document[n]) == n
        ]
        for row in rows
    ]
    of["links: leads to score"] = [max((score[n] for n in each), default=-1) for each in led]
    of["links: leads to similarity"] = [max((near[n] for n in each), default=-9) for each in led]
    return of


def differing(names, together, loops):
    """The features whose values are not those of the loops, for any question."""
    return {
        name
        for of_query, expected in zip(together, loops, strict=True)
        for number, name in enumerate(names)
        if not np.allclose(of_query.values[:, number], expected[name], atol=1e-5)
    }


def test_each_feature_is_that_of_loops(candidates):
    names, together, loops = candidates
    assert names == hop_feature_names(["links", "bm25"]) and names == [*map(str, dict.fromkeys(names))]
    assert {*names} == {*loops[0]} and all(map(hop_meaning, names))
    assert differing(names, together, loops) == set()


def test_a_swap_of_any_two_features_is_seen(candidates):
    names, together, loops = candidates
    for a, b in combinations(range(len(names)), 2):
        order = np.arange(len(names))
        order[[a, b]] = b, a
        swapped = [of_query._replace(values=of_query.values[:, order]) for of_query in together]
        assert differing(names, swapped, loops) == {names[a], names[b]}


def test_questions_are_encoded_once():
    asked = []

    def encode(texts):
        asked.append(list(texts))
        return np.ones((len(texts), 2), np.float32)

    with encoded_once():
        assert query_vectors(encode, ["a"]) is query_vectors(encode, ["a"])
        query_vectors(encode, ["b"])
    query_vectors(encode, ["a"])
    assert asked == [["a"], ["b"], ["a"]]


def test_altered_edges(index):
    edges = open_edges(index, "links", 100)
    noisy = AlteredEdges(edges, Noise(6, 0.5), len(index.documents), seed=1)
    noisy.near = [3, 4, 5, 6]
    kept = total = 0
    for row in range(len(index.passages)):
        altered = noisy(row)
        assert altered == noisy(row)
        false = [edge for edge in altered if edge.link < 0]
        assert len(false) <= 6
        assert len({edge.document for edge in altered}) == len(altered)
        kept += len(altered) - len(false)
        total += len(edges(row))
        assert set(edges(row)) >= {edge for edge in altered if edge.link >= 0}
    assert 0.3 * total < kept < 0.7 * total


def test_recall_counts_relevant_passages_beyond_the_candidates():
    relevant, sizes = np.array([1, 0, 1, 0, 1], bool), np.array([3, 2])
    examples = Examples(np.zeros((5, 1), np.float32), relevant, sizes, np.arange(5))
    scores = np.array([3.0, 2, 1, 2, 1])
    expected = [[0.5, 1, 1], [0.25, 0.25, 0.25]]
    assert np.array_equal(recall(examples, np.array([2, 4]), scores), expected)
    documents = replace(examples, units=np.array([7, 8, 7, 8, 9]))  # the first question's passages are of two
    assert np.array_equal(recall(documents, np.array([2, 4]), scores), [[0.5, 0.5, 0.5], [0.25, 0.25, 0.25]])
    scores[0] = scores[4] = -np.inf  # no results
    assert np.array_equal(recall(documents, np.array([2, 4]), scores), [[0.5, 0.5, 0.5], [0, 0, 0]])
