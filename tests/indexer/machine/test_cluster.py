"""Parsing and mining on a Ray cluster of two machines (processes here): the bytes of one, whoever dies."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from linkseek.indexer.build import SAMPLE
from linkseek.indexer.commands.partition import split_index
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine.cluster import worker_count, worker_pool
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.search.lucene_index import BM25
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.mining.labels import holds_answers
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.objective import Objective
from linkseek.retriever.objectives.registry import PAIRS
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Ranking
from tests.support.command import ROOT, python
from tests.support.connections import Connections
from tests.support.on_actors import AT_ONCE, IN_THE_MIDDLE, WHEN_DONE, hang
from tests.support.tiny.index import built


def read(path: Path) -> OpenIndex:
    """An index of the sample, without Lucene and vectors."""
    return built(path, SAMPLE, bm25=False)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return read(tmp_path_factory.mktemp("sample") / "index")


def hashes(index: OpenIndex) -> dict[str, dict[str, str]]:
    return {
        name: {file: entry.sha256 for file, entry in part.files.items()} for name, part in index.parts.items()
    }


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the sample is work for many calls of actors."""
    monkeypatch.setattr("linkseek.indexer.building.corpus._CHUNK_RECORDS", 4)
    monkeypatch.setattr("linkseek.indexer.building.corpus._START", 0)
    monkeypatch.setattr(Objective, "min_for_processes", 1)
    monkeypatch.setattr("linkseek.retriever.mining.drawing._CHUNK", 10)
    monkeypatch.setattr("linkseek.retriever.mining.labels._BLOCK", 7)


def test_an_index_read_by_actors_has_the_bytes_of_one_process(ray, dying, sample, small_pieces, tmp_path):
    assert worker_count(1) == 2
    with dying(IN_THE_MIDDLE, WHEN_DONE):
        assert hashes(read(tmp_path / "read")) == hashes(sample)


def mined(index: OpenIndex, objectives: Any, limit: int | None, processes: int) -> list[bytes]:
    return [*Miner(index, objectives, processes=processes).lines(limit)]


def test_mined_by_actors_are_the_lines_and_answers_of_one_process(ray, dying, sample, small_pieces):
    """Pairs, contrasts and labels."""
    pairs = PAIRS.mix("hlp", {"negatives": "random"})
    contrasts = CONTRASTS.mix("prop=2,ict,wlp", {"minimum_count": 2})
    for objectives, limit, moment in ((pairs, None, AT_ONCE), (contrasts, 100, IN_THE_MIDDLE)):
        expected = mined(sample, objectives, limit, 1)
        assert len(expected) > 50
        with dying(moment):
            assert mined(sample, objectives, limit, 2) == expected
    queries = read_queries(Path("samples/questions.jsonl"))
    rows = np.random.default_rng(1).integers(-1, len(sample.passages), (len(queries), 20))
    ranking = Ranking.of([query.id for query in queries], rows, np.zeros(rows.shape, np.float32))
    answers = holds_answers(sample, queries, ranking)
    assert 0 < answers.sum() < answers.size
    with dying(WHEN_DONE):
        np.testing.assert_array_equal(holds_answers(sample, queries, ranking, processes=2), answers)


def test_the_work_of_a_pool_that_fails_is_ended(ray, tmp_path):
    """Ctrl-C, or an error of other work: nobody waits for the actors."""
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), worker_pool(1) as pool:
        pool.submit(hang, tmp_path / "hung")
        while not (tmp_path / "hung").exists():
            time.sleep(0.05)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 60


def test_a_cluster_of_this_machine_has_the_priority_of_the_command_and_asks_nobody(tmp_path):
    """In a process of its own: Ray cannot return to a cluster after another one."""
    pytest.importorskip("ray")
    connections = Connections(tmp_path / "recorded")
    done = python("-c", _PRIORITY, PYTHONPATH=connections.python_path(ROOT))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == os.nice(0)
    own = {one.address for several in psutil.net_if_addrs().values() for one in several}
    recorded = connections.recorded().splitlines()  # Ray looks the address of its node up
    assert [line for line in recorded if not any(f"'{address}'" in line for address in own)] == []


_PRIORITY = """
import os, time
from linkseek.indexer.machine.cluster import connected, worker_pool
with connected("local"), worker_pool(1) as pool:
    print(pool.submit(os.nice, 0).result())
    time.sleep(3)  # a dashboard asks as soon as it has started
"""


def split(whole: OpenIndex, place: Path) -> tuple[list[dict[str, Any]], Any]:
    """Make three partitions: the hashes of all files but Lucene's, which differ, and what BM25 finds."""
    made = split_index(place, whole.path, 3)
    made.verify()
    files = [
        {name: part for name, part in hashes(one).items() if name != "bm25"}
        for one in (made, *made.partitions)
    ]
    hits = made.lucene().search(["who named oxygen", "river"], 50, BM25())
    return files, [(ids, scores.tolist()) for ids, scores in hits]


def test_partitions_are_made_by_actors(ray, tmp_path, dying, monkeypatch):
    whole = built(tmp_path / "whole", SAMPLE, encoders=["fake"], reading=Choices(limit=30))
    with dying(IN_THE_MIDDLE, WHEN_DONE):
        made = split(whole, tmp_path / "killed")
    monkeypatch.setattr("linkseek.indexer.commands.partition.worker_count", lambda processes: processes)
    assert made == split(whole, tmp_path / "here")
