"""Adaptive re-ranking by hand, against the paper's algorithm as a loop, and over links."""

# ruff: noqa: F811 - fixtures of other files

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.pipelines.adaptive import AdaptiveReranker, passage_neighbours, score_adaptively
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25
from linkseek.testing import check_pipeline
from tests.app.conftest import built_index, make_pipelines  # noqa: F401 - fixtures
from tests.reranker.test_reranking import Numbers, numbered, queries, ranked
from tests.support.tiny.linked import document, make_index

QUERIES = [Query("1", "a river in France"), Query("2", "volcano"), Query("3", "zzz")]


def test_by_hand() -> None:
    """A budget of 16 is spent two at a time: 0 and 1, then the neighbours of 1 (the better), then 2 and 3."""
    values = dict.fromkeys(range(30), 0.0) | {0: 1.0, 1: 5.0, 10: 3.0, 12: 9.0, 20: 2.0}
    near = {0: [20, 21], 1: [1, 10, 0, 11], 10: [12], 2: [3]}
    asked: list[list[int]] = []

    def score(rows: np.ndarray) -> np.ndarray:
        asked.append(rows[0].tolist())
        return np.array([[values[row] for row in rows[0]]], np.float32)

    first = ranked([(row, 10.0 - row) for row in range(6)])
    rows, scores = score_adaptively(first, score, lambda row: near.get(row, []), 16)
    # 12 is near 10, which scored 3; 20 and 21 are near 0, which scored 1
    assert asked == [[0, 1], [10, 11], [2, 3], [12, 20], [4, 5], [21]]
    assert rows.tolist() == [[0, 1, 10, 11, 2, 3, 12, 20, 4, 5, 21]]
    assert scores[0].tolist() == [values[row] for row in rows[0]]
    reranked = AdaptiveReranker(
        Numbers(), numbered(*values.values()), lambda row: near.get(row, []), depth=5
    ).rerank(queries(1), first)
    # five are scored, one a turn: 0, its neighbour 20, 1, its neighbour 10, 2
    assert reranked.rows.tolist() == [[1, 10, 20, 0, 2, 3]]
    assert (np.diff(reranked.scores) < 0).all()


@settings(deadline=None)
@given(st.data())
def test_against_a_loop(data: st.DataObject) -> None:
    rows = st.integers(0, 15)
    lists = data.draw(st.lists(st.lists(rows, min_size=0, max_size=8, unique=True), min_size=1, max_size=3))
    graph = data.draw(st.dictionaries(rows, st.lists(rows, max_size=4)))
    values = data.draw(st.lists(st.integers(0, 3), min_size=48, max_size=48))
    budget = data.draw(st.integers(1, 12))
    first = ranked(*([(row, -place) for place, row in enumerate(of_query)] for of_query in lists), k=8)

    def score(chosen: np.ndarray) -> np.ndarray:
        return np.array(
            [[values[16 * n + row] for row in of_query] for n, of_query in enumerate(chosen)], np.float32
        )

    found, scores = score_adaptively(first, score, lambda row: graph.get(row, []), budget)
    reranker = AdaptiveReranker(
        Numbers(), numbered(*values[:16]), lambda row: graph.get(row, []), depth=budget
    )
    order = reranker.rerank(queries(len(lists)), first)
    for number, of_query in enumerate(lists):
        expected = algorithm_1(of_query, graph, values[16 * number :], budget, -(-budget // 8))
        assert found[number][found[number] >= 0].tolist() == expected
        assert scores[number, : len(expected)].tolist() == [values[16 * number + row] for row in expected]
        scored = algorithm_1(of_query, graph, values, budget, -(-budget // 8))
        best = sorted(scored, key=lambda row: (-values[row], scored.index(row)))
        whole = best + [row for row in of_query if row not in scored]
        assert [row for row, _ in order.results(number)] == whole[: order.depth]


def algorithm_1(
    first: list[int], graph: dict[int, list[int]], values: list[int], budget: int, batch: int
) -> list[int]:
    """The candidates in the order in which they are scored."""
    done: list[int] = []
    turn = 0
    while len(done) < budget:
        sources: dict[int, int] = {}  # neighbours in the order of their discovery, with their priority
        for row in done:
            for near in graph.get(row, []):
                sources[near] = max(values[row], sources.get(near, 0))
        frontier = sorted((row for row in sources if row not in done), key=lambda row: -sources[row])
        pool = [row for row in first if row not in done]
        chosen = (frontier if turn % 2 or not pool else [])[:batch]
        chosen += [row for row in pool if row not in chosen][: batch - len(chosen)]
        chosen = chosen[: budget - len(done)]
        if not chosen:
            break
        done += chosen
        turn += 1
    return done


def test_neighbours_by_links(tmp_path: Path) -> None:
    """Dual links, then the first passages of what the passage links to, then co-mentions."""
    index = make_index(
        tmp_path,
        [
            document("A", "one [B] two [D] three [E] four [A] five"),
            document("B", "a lead of five words. here is [A] linked once"),
            document("C", "this has [D] and [E] and [A] too"),
            document("D", "nothing linked at all here"),
            document("E", "the last of these documents"),
            document("F", "this has [A] and [E] too"),
            document("G", "this has [A] alone, and no more"),
        ],
        words=5,
    )
    texts = [passage.text for passage in index.passages]
    near = passage_neighbours(index, "links")
    start = {id_: int(index.passages.offsets[row]) for row, id_ in enumerate("ABCDEFG")}
    assert "[" not in "".join(texts) and start["B"] == 2
    first, second = near(0), near(1)
    assert texts[0].startswith("one B two D")
    linking = [row for row in range(len(texts)) if row >= 2 and "A" in texts[row].split()]
    dual = [row for row in linking if start["B"] <= row < start["C"]]
    assert first[: len(dual) + 2] == [*dual, start["B"], start["D"]]
    assert second[0] == start["E"]
    assert near(start["D"]) == []
    assert all(not start["A"] <= row < start["B"] for row in (*first, *second))


def test_neighbours_join_the_candidates(make_pipelines):
    table = '[near]\nrerank = "long"\nof = "bm25"\ndepth = 3\nneighbours = "bm25"\n'
    pipelines = make_pipelines(table)
    index = pipelines.index
    texts = [passage.text for passage in index.passages]
    hits = [row for row, _ in Bm25(index)(QUERIES[1:2], 3).results(0)]
    similar = [row for row, _ in Bm25(index)([Query("", texts[hits[0]])], 17).results(0)]
    near = next(row for row in similar if row != hits[0])
    third = next(row for row in hits if row not in (hits[0], near))
    found = pipelines.open("near")(QUERIES, 3)
    check_pipeline(pipelines.open("near"), pipelines.index, QUERIES[1].text, 6)
    assert set(found.rows[1].tolist()) == {hits[0], near, third}
    assert (found.rows[2] == -1).all()
    description = pipelines.entries["near"].describe(index)
    assert description == "The best 3 of bm25, re-ranked by long, with passages like them"


@pytest.mark.parametrize(("models", "more"), [('["long", "short"]', ""), ('"long"', "weight = 0.5")])
def test_neighbours_are_for_one_model_alone(make_pipelines, models, more):
    table = f'[near]\nrerank = {models}\nof = "bm25"\nneighbours = "links"\n{more}\n'
    with pytest.raises(UsageError, match=r"\[near\]: neighbours with"):
        make_pipelines(table).open("near")
