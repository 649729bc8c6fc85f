"""Hops, compared with a loop over all links of a small index with vectors."""

from __future__ import annotations

import numpy as np
import pytest
from linked_corpus import random_pages
from small_index import WordEncoder
from tiny_corpus import write_jsonl

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import Plan
from linkseek.indexer.index import Index
from linkseek.retriever.ranking import Query, Ranking, Step
from linkseek.retriever.search.hop_features import HopFeatures, hop_feature_names, hop_meaning
from linkseek.retriever.search.hop_graph import Articles, Edge, Similarity, open_edges
from linkseek.retriever.search.hop_training import AlteredEdges, Noise, recall
from linkseek.retriever.search.hops import Hops
from linkseek.retriever.search.query_vectors import encoded_once, query_vectors

QUERIES = [Query("1", "a river of tea near the moon"), Query("2", "harp"), Query("3", "stone moon tea")]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hops")
    corpus = write_jsonl(folder / "corpus.jsonl", random_pages(30))
    encoder = WordEncoder()
    build_index(
        folder / "index",
        Plan(corpus, bm25=False, passage_words=12, encoders=["words"]),
        lambda name, title: encoder,
    )
    return Index.open(folder / "index")


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


def by_loops(index, first, sources, share, steps):
    """Scores and paths of one question after the rule, from the definition."""
    document = index.passages.document_rows
    results = first.results(0)
    low, high = results[-1][1], results[0][1]
    own = {row: (score - low) / (high - low) for row, score in results}
    scores, paths, done = dict(own), {}, set()
    best_of = {}
    for row, _ in results:
        best_of.setdefault(int(document(np.array([row]))[0]), row)
    for _ in range(steps):
        before, paths_before = dict(scores), dict(paths)
        for source in sorted(before, key=lambda row: (-before[row], row))[:sources]:
            if source in done:
                continue
            done.add(source)
            for link in index.links.from_passage(source):
                target = int(index.links.target[link])
                if target == int(document(np.array([source]))[0]) or target not in best_of:
                    continue
                row = best_of[target]
                new = share * before[source] + (1 - share) * own[row]
                if new > scores[row]:
                    scores[row], paths[row] = new, (*paths_before.get(source, ()), Step(source, link))
    return scores, paths


@pytest.mark.parametrize("steps", [1, 2])
def test_the_rule_is_that_of_loops(index, similarity, steps):
    count = len(index.passages)
    hops = Hops(
        dense(index),
        [open_edges(index, "links", 100)],
        Articles(index, similarity),
        similarity,
        depth=count,
        sources=4,
        share=0.6,
        steps=steps,
    )
    ranking, first = hops(QUERIES, count), dense(index)(QUERIES, count)
    moved = 0
    for number in range(len(QUERIES)):
        scores, paths = by_loops(index, first.query(number), 4, 0.6, steps)
        expected = sorted(scores, key=lambda row: (-np.float32(scores[row]), row))
        assert ranking.rows[number].tolist() == expected
        assert ranking.paths[number] == paths
        assert ranking.rows[number, 0] == first.rows[number, 0]  # the first result stays the first
        moved += len(paths)
        assert any(len(path) == 2 for path in paths.values()) <= (steps == 2)
    assert moved > 5
    alone = [hops([query], count) for query in QUERIES]
    assert [one.rows[0].tolist() for one in alone] == ranking.rows.tolist()


def test_a_passage_beyond_the_first_stage_is_the_most_similar_of_its_article(index, similarity):
    first = dense(index, depth=3)(QUERIES[:1], 3)
    hops = Hops(
        dense(index, depth=3),
        [open_edges(index, "links", 100)],
        Articles(index, similarity),
        similarity,
        depth=3,
        sources=3,
    )
    ranking = hops(QUERIES[:1], 20)
    held = set(first.rows[0].tolist())
    new = [row for row, _ in ranking.results(0) if row not in held]
    assert new
    question = WordEncoder().encode_queries([QUERIES[0].text])[0]
    for row in new:
        [step] = ranking.path(0, row)
        document = int(index.passages.document_rows(np.array([row]))[0])
        assert step.source in held
        assert index.links.target[step.link] == document
        rows = np.arange(*index.passages.offsets[document : document + 2])
        assert row == rows[np.argmax(index.vectors_of(rows) @ question)]


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


def test_features_of_a_question_do_not_depend_on_others(index, similarity):
    graphs = {"links": open_edges(index, "links", 100)}
    reader = HopFeatures(index, graphs, Articles(index, similarity), similarity, 5)
    first = dense(index, depth=10)(QUERIES, 10)
    together = reader.read(QUERIES, first)
    names = hop_feature_names(["links"])
    for number, candidates in enumerate(together):
        [alone] = reader.read(QUERIES[number : number + 1], first.query(number))
        assert np.array_equal(alone.values, candidates.values)
        assert candidates.rows[:10].tolist() == first.rows[number].tolist()
        assert candidates.values.shape == (len(candidates.rows), len(names))
        of = dict(zip(names, candidates.values.T, strict=True))
        sources = first.rows[number, :5].tolist()
        for place, row in enumerate(candidates.rows.tolist()):
            document = int(index.passages.document_rows(np.array([row]))[0])
            leading = [
                n for n, s in enumerate(sources) if s != row and leads(index, s, document, row, candidates)
            ]
            assert of["links: source rank"][place] == (leading[0] + 1 if leading else 6)
        assert set(candidates.rows.tolist()) > set(first.rows[number].tolist())
    assert all(map(hop_meaning, names))


def leads(index, source, document, row, candidates):
    """Whether a source links to the article of a passage, and this passage stands for the article."""
    own = int(index.passages.document_rows(np.array([source]))[0])
    same = index.passages.document_rows(candidates.rows) == document
    links = index.links.target[list(index.links.from_passage(source))]
    return own != document and document in links and candidates.rows[same][0] == row


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
    from linkseek.retriever.search.fusion_training import Examples

    examples = Examples(np.zeros((5, 1), np.float32), np.array([1, 0, 1, 0, 1], bool), np.array([3, 2]))
    scores = np.array([3.0, 2, 1, 2, 1])
    expected = [[0.5, 1, 1], [0.25, 0.25, 0.25]]
    assert np.array_equal(recall(examples, np.array([2, 4]), scores), expected)
