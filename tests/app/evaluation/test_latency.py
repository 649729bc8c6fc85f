"""Latency: which questions are asked, how often, and what the percentiles are."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from linkseek.app.evaluation.runner import measure_latency
from linkseek.retriever.ranking import Query
from linkseek.retriever.search import searching, stages
from linkseek.retriever.search.stages import stage
from tests.support.rankings import ranking_of

QUERIES = [Query(str(number), f"question {number}") for number in range(1000)]


def measured(*arguments):
    return {stage: of.model_dump() for stage, of in measure_latency(*arguments).items()}


@pytest.fixture
def clock(monkeypatch):
    """A clock that pipelines move; no time passes otherwise."""
    now = SimpleNamespace(value=0.0)
    fake = SimpleNamespace(perf_counter=lambda: now.value)
    monkeypatch.setattr(stages, "time", fake)
    monkeypatch.setattr(searching, "time", fake)
    return now


def test_percentiles_by_stage(clock):
    asked = []
    count = itertools.count(-4)  # five questions warm up: the rest take 1, 2, ... 100

    def pipeline(queries, k):
        [query] = queries
        asked.append(query.id)
        seconds = next(count)
        with stage("encode question"):
            clock.value += seconds
        with stage("search vectors"):
            clock.value += 10
        clock.value += 0.5
        return ranking_of([query.id], [[]], k)

    report = measured(pipeline, QUERIES, 10, 100, "dense")
    assert list(report) == ["encode question", "search vectors", "total"]
    assert report["search vectors"] == {"p50": 10, "p95": 10, "p99": 10, "questions": 100}
    p50, p95, p99 = np.percentile(np.arange(1, 101), [50, 95, 99])
    assert report["encode question"] == pytest.approx({"p50": p50, "p95": p95, "p99": p99, "questions": 100})
    assert report["total"]["p50"] == pytest.approx(p50 + 10.5)
    assert asked[5:] == [str(10 * number) for number in range(100)]  # evenly spread
    assert asked[:5] == asked[5:10]


def test_few_questions_are_all_asked(clock):
    asked = []

    def pipeline(queries, k):
        asked.append([query.id for query in queries])
        clock.value += 1
        return ranking_of([query.id for query in queries], [[]], k)

    report = measured(pipeline, QUERIES[:3], 10, 100, "x")
    assert report == {"total": {"p50": 1, "p95": 1, "p99": 1, "questions": 3}}
    assert asked == [["0"], ["1"], ["2"]] * 2


def test_a_stage_that_some_questions_skip(clock):
    def pipeline(queries, k):
        if queries[0].id == "0":
            with stage("rerank"):
                clock.value += 4
        return ranking_of([queries[0].id], [[]], k)

    report = measured(pipeline, QUERIES[:2], 10, 100, "x")
    assert report["rerank"]["p50"] == 2
    assert report["rerank"]["questions"] == 2
