"""Searches by actors on a Ray cluster of two machines (processes here) are those of one, whoever dies."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkseek.app.evaluate import main as evaluate
from linkseek.app.search import main as search
from linkseek.indexer import partition_actors
from linkseek.indexer.build import SAMPLE
from linkseek.indexer.commands.partition import split_index
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.cluster import ClusterQuestion
from linkseek.indexer.partition_actors import PartitionActors, searched_on_ray
from linkseek.indexer.program.errors import DamagedIndexError, MachineError, UsageError
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.search.lucene_index import BM25
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.searchers import Bm25, Dense
from tests.indexer.search.test_partitioning import rankings
from tests.support.on_actors import process_id
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import built


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "whole"
    return built(path, SAMPLE, encoders=["fake"], reading=Choices(limit=60)).path


@pytest.fixture(scope="module")
def three(sample: Path) -> Path:
    return split_index(sample.with_name("three"), sample, 3).path


@pytest.fixture
def damaged(three: Path, tmp_path: Path) -> OpenIndex:
    """Three partitions, one of which has lost its vectors since it was opened."""
    index = OpenIndex.open(shutil.copytree(three, tmp_path / "damaged"))
    (index.folders[1] / "dense" / "fake" / "index").unlink()
    return index


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return read_queries(SAMPLE.with_name("questions.jsonl"), 20)


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the cluster had a core for each partition."""
    monkeypatch.setattr(partition_actors, "worker_count", lambda processes: 16)


@pytest.fixture
def searched(three: Path, cluster: str, many_cores: None) -> Iterator[tuple[OpenIndex, PartitionActors]]:
    """The index of three partitions, an actor each."""
    with searched_on_ray(OpenIndex.open(three), cluster) as index:
        yield index, index.searches


def assert_equal(mine: dict[str, Ranking], expected: dict[str, Ranking]) -> None:
    for name, ranking in expected.items():
        np.testing.assert_array_equal(mine[name].rows, ranking.rows, name)
        np.testing.assert_array_equal(mine[name].scores, ranking.scores, name)


@pytest.mark.parametrize(("count", "replicas"), [(1, 1), (5, 2)])  # five partitions, two actors
def test_rankings_are_those_of_one_process(
    sample, cluster, queries, tmp_path, monkeypatch, dying, count, replicas
):
    monkeypatch.setattr(partition_actors, "_TASK_QUERIES", 13)  # several rounds of questions
    whole = OpenIndex.open(sample)
    index = whole if count == 1 else split_index(tmp_path / "parts", sample, count)
    with searched_on_ray(index, cluster, replicas=replicas) as searched:
        assert searched.passages is index.passages  # opened once
        made = rankings(searched, queries)
        assert len(searched.dense()) == len(index.passages)
        assert len(searched.searches._actors) == min(count, 2)
        assert_equal(made, rankings(index, queries))  # which this process still searches
        given = ["the named element", "zzz"], 5, BM25()
        for mine, expected in zip(
            searched.lucene().search(*given), whole.lucene().search(*given), strict=True
        ):
            assert mine[0] == expected[0]
            np.testing.assert_array_equal(mine[1], expected[1])
        if replicas > 1:  # nothing is doubled or lost
            with dying(), ThreadPoolExecutor(2) as threads:
                for search in [threads.submit(rankings, searched, queries) for _ in range(2)]:
                    assert_equal(search.result(), made)
    assert index.searches is None
    assert_equal(made, rankings(whole, queries))


@pytest.mark.parametrize("options", [{"replicas": 2}, {"partial": True}])
def test_options_of_a_cluster_need_one(three, options):
    with (
        pytest.raises(UsageError, match="for searches on a cluster"),
        searched_on_ray(OpenIndex.open(three), None, **options),
    ):
        pass


def process_of(actors: PartitionActors, number: int) -> int:
    """The process of the actor that the partition is asked of next."""
    return int(actors._actors[number].ask(ClusterQuestion(process_id)).result())


def test_an_actor_that_is_killed_or_hangs_is_replaced_twice(searched, sample, queries, monkeypatch, capfd):
    index, actors = searched
    expected = rankings(OpenIndex.open(sample), queries)
    assert_equal(rankings(index, queries), expected)
    os.kill(process_of(actors, 0), signal.SIGKILL)
    os.kill(hanging := process_of(actors, 1), signal.SIGSTOP)
    for each in actors._actors:
        monkeypatch.setattr(each, "_patience", 6.0)
        monkeypatch.setattr(each, "_slowest", {})
    try:
        assert_equal(rankings(index, queries), expected)
    finally:
        with suppress(ProcessLookupError):  # ended by Ray
            os.kill(hanging, signal.SIGCONT)
    log = capfd.readouterr().err
    assert "the actor of partition 00000 died (" in log and "partition 00001 gave no answer in " in log
    assert actors.missing == []

    start = actors._actors[2]._start

    def start_a_dead_one() -> Any:
        actors._ray.kill(actor := start())
        return actor

    monkeypatch.setattr(actors._actors[2], "_start", start_a_dead_one)
    actors._ray.kill(actors._actors[2]._free[0])
    with pytest.raises(MachineError, match="partition 00002: the last of its 3 actors died"):
        Bm25(index)(queries, 10)


def test_a_partition_that_cannot_answer_fails_the_search(damaged, cluster, queries):
    encoder: Any = FakeEncoder("fake")
    with searched_on_ray(damaged, cluster) as index:
        with pytest.raises(DamagedIndexError, match="00001"):
            Dense(index, encoder)(queries, 100)
        assert index.searches.missing == []


def test_as_asked_it_is_skipped_and_named(damaged, cluster, many_cores, sample, queries, capfd):
    encoder: Any = FakeEncoder("fake")
    expected = rankings(OpenIndex.open(sample), queries)
    with searched_on_ray(damaged, cluster, partial=True) as index:
        ranked = Dense(index, encoder)(queries, 100)
        assert index.searches.missing == ["00001"]
        assert "its passages are skipped" in capfd.readouterr().err
        first = len(index.partitions[0].passages)
        missing = range(first, first + len(index.partitions[1].passages))
        for row, whole in zip(ranked.rows, expected["dense"].rows, strict=True):
            kept = [passage for passage in whole if passage not in missing]
            np.testing.assert_array_equal(row[: len(kept)], kept)
            assert not set(row) & set(missing)
        with pytest.raises(UsageError):  # a mistake in a question is nobody's absence
            index.lucene().search(["word"], 0, BM25())
        assert_equal({"bm25": Bm25(index)(queries, 100)}, {"bm25": expected["bm25"]})
        assert index.searches.missing == []


def test_what_an_actor_cannot_answer_is_skipped_as_a_whole_and_all_is_no_answer(damaged, cluster, queries):
    """Until its files are there again."""
    encoder: Any = FakeEncoder("fake")
    first = damaged.folders[0] / "dense" / "fake" / "index"
    with searched_on_ray(damaged, cluster, partial=True) as index:  # of one partition, of two
        first.rename(first.with_name("away"))
        with pytest.raises(DamagedIndexError, match="dense/fake/index"):
            Dense(index, encoder)(queries, 100)
        first.with_name("away").rename(first)
        rows = Dense(index, encoder)(queries, 100).rows
        assert index.searches.missing == ["00001", "00002"]
        assert rows.max() < len(index.partitions[0].passages) and (rows >= 0).any()


def test_the_commands(sample, three, cluster, tmp_path, capsys):
    on_ray = ["--ray", cluster]
    question = ["--index", str(sample), "--pipeline", "bm25", "Who named oxygen?"]
    answers = []
    for more in ([], [*on_ray, "--replicas", "2"]):
        search([*question, *more])
        answers.append(capsys.readouterr().out.rpartition(" in ")[0])
    assert answers[0] == answers[1] != ""
    questions = ["--queries", str(SAMPLE.with_name("questions.jsonl")), "--limit", "9", "--latency", "0"]
    options = ["--index", str(three), "--pipeline", "bm25", *questions, "--no-report"]
    for name, more in (("here", []), ("there", on_ray)):
        evaluate([*options, "--output", str(tmp_path / name), *more])
    runs = [(tmp_path / name / "runs" / "bm25.trec").read_bytes() for name in ("here", "there")]
    assert runs[0] and runs[0] == runs[1]
