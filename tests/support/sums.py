"""What every explanation must be: parts that add up to the score, at each level."""

import pytest

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.explanation import Explanation


def assert_adds_up(explanation: Explanation, score: float) -> None:
    """Of the explanation and of those of its parts, whose scores are the factors that are shown."""
    assert explanation.score == pytest.approx(score, rel=1e-5, abs=1e-6)
    total = sum(part.added for part in explanation.parts)
    assert total == pytest.approx(explanation.score, rel=1e-5, abs=2e-5)
    for part in explanation.parts:
        if {"weight", "scaled"} <= part.factors.keys():
            assert part.added == pytest.approx(part.factors["weight"] * part.factors["scaled"], abs=1e-6)
        if part.of:
            assert_adds_up(part.of, part.factors.get("score", part.of.score))
            if "rank" in part.factors:
                assert part.factors["rank"] == part.of.rank


def assert_all_add_up(pipelines: Pipelines, name: str, question: str, k: int) -> list[Explanation]:
    """The explanations of the k best, and none of a passage that is not among them."""
    pipeline, query = pipelines.open(name), Query("q", question)
    results = pipeline([query], k).results(0)
    explained = []
    for rank, (row, score) in enumerate(results, start=1):
        explanation = pipeline.explained(query, row, k)
        assert explanation and explanation.rank == rank
        assert_adds_up(explanation, score)
        explained.append(explanation)
    others = set(range(len(pipelines.index.passages))) - {row for row, _ in results}
    assert all(pipeline.explained(query, row, k) is None for row in others)
    return explained
