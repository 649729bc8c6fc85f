"""Rankings: best first, ties by row, nothing at the end; against sorting in plain Python."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from linkseek.retriever.ranking import Ranking
from tests.support.rankings import ranking_of

SCORES = st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5, -math.inf, math.nan]) | st.floats(-5, 5, width=32)
BATCHES = st.integers(1, 6).flatmap(
    lambda m: st.lists(st.lists(st.tuples(st.integers(-1, 30), SCORES), min_size=m, max_size=m), max_size=4)
)


def sorted_twin(pairs: list[tuple[int, float]]) -> list[tuple[int, float]]:
    real = [(row, score) for row, score in pairs if row >= 0 and not math.isnan(score)]
    return sorted(real, key=lambda pair: (-pair[1], pair[0]))


@given(BATCHES, st.none() | st.integers(1, 8))
def test_any_results_become_a_sorted_ranking(batch, k):
    queries = [f"q{n}" for n in range(len(batch))]
    width = len(batch[0]) if batch else 3
    rows = np.array([[row for row, _ in pairs] for pairs in batch], np.int32).reshape(len(batch), width)
    scores = np.array([[score for _, score in pairs] for pairs in batch], float).reshape(len(batch), width)
    before = rows.copy(), scores.copy()
    ranking = Ranking.of(queries, rows, scores, k)
    assert ranking.query_ids == tuple(queries)
    assert ranking.rows.dtype == np.int64 and ranking.scores.dtype == np.float32
    assert ranking.depth == min(width, k or width)
    for query, pairs in enumerate(batch):
        expected = sorted_twin(pairs)[: ranking.depth]
        assert ranking.results(query) == [(row, np.float32(score)) for row, score in expected]
        empty = ranking.rows[query] < 0
        assert (ranking.rows[query][empty] == -1).all() and np.isneginf(ranking.scores[query][empty]).all()
        assert not empty[: len(expected)].any() and empty[len(expected) :].all()
    np.testing.assert_array_equal(rows, before[0])  # what was given stays as it was
    np.testing.assert_array_equal(scores, before[1])


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 30), st.floats(-5, 5, width=32)), max_size=8)),
    st.integers(1, 6),
)
def test_lists_of_any_length_become_a_ranking(results, k):
    queries = [str(n) for n in range(len(results))]
    ranking = ranking_of(queries, results, k)
    assert ranking.rows.shape == ranking.scores.shape == (len(results), k)
    for query, pairs in enumerate(results):
        assert ranking.results(query) == sorted_twin(pairs)[:k]
        assert (ranking.rows[query, len(pairs) :] == -1).all()


def test_the_top_is_the_first_columns():
    ranking = ranking_of(["a", "b"], [[(3, 1.0), (1, 2.0), (2, 2.0)], []], 4)
    assert ranking.rows.tolist() == [[1, 2, 3, -1], [-1] * 4]
    top = ranking.top(2)
    assert (top.query_ids, top.rows.tolist(), top.depth) == (("a", "b"), [[1, 2], [-1, -1]], 2)
    assert ranking.top(9).rows.tolist() == ranking.rows.tolist()
    assert ranking.results(1) == []
