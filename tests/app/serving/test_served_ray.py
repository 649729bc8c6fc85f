"""A service whose searches a Ray cluster does."""

from __future__ import annotations

from pathlib import Path

from tests.support.served import running


def test_the_actors_of_a_cluster_answer(planets: Path, cluster: str) -> None:
    with running(index=[planets], pipeline="bm25", ray=cluster, partial=True) as client:
        body = {"questions": [f"number{n}" for n in range(20)], "k": 1}
        answer = client.post("/search", body).json()
        assert [one["hits"][0]["id"] for one in answer["answers"]] == [f"n{n}#0" for n in range(20)]
        assert all(one["partial"] == [] for one in answer["answers"])
