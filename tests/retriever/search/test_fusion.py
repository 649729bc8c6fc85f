"""Fusion against a plain dictionary twin, and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkseek.indexer.program.errors import MismatchError
from linkseek.retriever.ranking import Ranking
from linkseek.retriever.search.fusion import reciprocal_rank, weighted
from tests.support.rankings import ranking_of


def ranking(*queries: list[tuple[int, float]], k: int = 4) -> Ranking:
    return ranking_of([f"q{n}" for n in range(len(queries))], queries, k)


def slow_reciprocal_rank(rankings, k, constant):
    fused = []
    for query in range(len(rankings[0].query_ids)):
        total: dict[int, float] = {}
        for one in rankings:
            for rank, (row, _) in enumerate(one.results(query), start=1):
                total[row] = total.get(row, 0.0) + 1 / (constant + rank)
        fused.append([(row, np.float32(score)) for row, score in total.items()])
    return ranking_of(rankings[0].query_ids, fused, k)


def slow_weighted(rankings, weights, k):
    fused = []
    for query in range(len(rankings[0].query_ids)):
        total: dict[int, float] = {}
        for one, weight in zip(rankings, weights, strict=True):
            results = one.results(query)
            if not results:
                continue
            low, high = min(s for _, s in results), max(s for _, s in results)
            for row, score in results:
                share = (score - low) / (high - low) if high > low else 1.0
                total[row] = total.get(row, 0.0) + weight * share
        fused.append([(row, np.float32(score)) for row, score in total.items()])
    return ranking_of(rankings[0].query_ids, fused, k)


@st.composite
def several_rankings(draw):
    queries = draw(st.integers(0, 4))
    scores = st.floats(-8, 8, width=16)  # few values: ties happen
    made = []
    for _ in range(draw(st.integers(1, 4))):
        depth = draw(st.integers(0, 6))
        lists = [
            list(draw(st.dictionaries(st.integers(0, 9), scores, max_size=depth)).items())
            for _ in range(queries)
        ]
        made.append(ranking(*lists, k=depth))
    return made


@given(several_rankings(), st.integers(1, 8), st.sampled_from([0.0, 1.0, 60.0]))
def test_reciprocal_rank_equals_its_slow_twin(rankings, k, constant):
    assert_same(reciprocal_rank(rankings, k, constant), slow_reciprocal_rank(rankings, k, constant))


@given(several_rankings(), st.integers(1, 8), st.data())
def test_weighted_equals_its_slow_twin(rankings, k, data):
    weight = st.sampled_from([0.0, 0.25, 1.0, 2.5])
    weights = data.draw(st.lists(weight, min_size=len(rankings), max_size=len(rankings)))
    assert_same(weighted(rankings, weights, k), slow_weighted(rankings, weights, k))


def assert_same(fast: Ranking, slow: Ranking) -> None:
    assert fast.query_ids == slow.query_ids
    assert fast.rows.shape == slow.rows.shape
    np.testing.assert_array_equal(fast.rows, slow.rows)
    np.testing.assert_array_equal(fast.scores, slow.scores)


def test_reciprocal_rank_by_hand():
    one = ranking([(7, 9.0), (3, 8.0)])
    two = ranking([(3, 0.2), (5, 0.1)])
    fused = reciprocal_rank([one, two], 3)
    assert fused.rows.tolist() == [[3, 7, 5]]
    np.testing.assert_allclose(fused.scores, [[1 / 62 + 1 / 61, 1 / 61, 1 / 62]], rtol=1e-6)


def test_weighted_by_hand():
    one = ranking([(7, 10.0), (3, 5.0), (4, 0.0)])
    two = ranking([(3, -1.0), (5, -3.0)])
    fused = weighted([one, two], [0.5, 1.0], 5)
    assert fused.rows.tolist() == [[3, 7, 4, 5, -1]]  # 4 and 5 tie at 0: by row
    assert fused.scores.tolist() == [[1.25, 0.5, 0.0, 0.0, -np.inf]]


def test_constant_scores_count_fully_and_empty_rankings_not_at_all():
    same, empty = ranking([(2, 4.0), (1, 4.0)]), ranking([])
    fused = weighted([same, empty], [1.0, 1.0], 2)
    assert fused.rows.tolist() == [[1, 2]]
    assert fused.scores.tolist() == [[1.0, 1.0]]
    assert weighted([empty, empty], [1.0, 1.0], 2).rows.tolist() == [[-1, -1]]


def test_rankings_of_other_queries_are_refused():
    one = ranking([(1, 1.0)], [(2, 1.0)])
    swapped = Ranking(one.query_ids[::-1], one.rows, one.scores)
    for fuse in (lambda: reciprocal_rank([one, swapped], 2), lambda: weighted([one, swapped], [1, 1], 2)):
        with pytest.raises(MismatchError, match="1 and 2"):
            fuse()
