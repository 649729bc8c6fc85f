"""Parsing and mining on a Ray cluster of two machines (processes here): the bytes of one, whoever dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import psutil
import pytest
from command import ROOT
from connections import Connections
from fake_encoder import FakeEncoder

from linkseek.indexer.base import cluster as clusters
from linkseek.indexer.base.cluster import connected, worker_count, worker_pool
from linkseek.indexer.base.errors import InputError, MachineError
from linkseek.indexer.build import SAMPLE
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import Plan
from linkseek.indexer.commands.partition import split_index
from linkseek.indexer.index import Index
from linkseek.indexer.search.lucene_index import BM25
from linkseek.reranker.objectives.registry import CONTRASTS
from linkseek.retriever.mining.labels import holds_answers
from linkseek.retriever.mining.miner import Miner
from linkseek.retriever.mining.objective import Objective
from linkseek.retriever.objectives.registry import PAIRS
from linkseek.retriever.queries import read_queries
from linkseek.retriever.ranking import Ranking

pytestmark = pytest.mark.slow


@pytest.fixture
def ray(cluster: str) -> Iterator[Any]:
    with connected(cluster) as ray:
        yield ray


def read(path: Path) -> Index:
    """An index of the sample, without Lucene and vectors."""
    build_index(path, Plan(SAMPLE, bm25=False, processes=1), pytest.fail)
    return Index.open(path)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return read(tmp_path_factory.mktemp("sample") / "index")


def hashes(index: Index) -> dict[str, dict[str, str]]:
    return {
        name: {file: entry.sha256 for file, entry in part.files.items()} for name, part in index.parts.items()
    }


def test_an_index_read_by_actors_has_the_bytes_of_one_process(ray, sample, tmp_path):
    assert worker_count(1) == 2
    assert hashes(read(tmp_path / "index")) == hashes(sample)


@pytest.fixture
def killed_at_random(ray, monkeypatch) -> Iterator[list[int]]:
    """Actors of pools are killed at ten random moments; the number of those that were there."""
    monkeypatch.setattr(clusters, "_ATTEMPTS", 20)
    monkeypatch.setattr("linkseek.indexer.building.corpus._CHUNK_RECORDS", 4)
    pools: list[Any] = []
    begin = clusters._ActorPool.__init__

    def begin_and_note(pool: Any, *arguments: Any) -> None:
        begin(pool, *arguments)
        pools.append(pool)

    monkeypatch.setattr(clusters._ActorPool, "__init__", begin_and_note)
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        random = Random(0)
        while len(killed) < 10 and not ended.wait(random.uniform(0.05, 0.5)):
            for actor in random.sample([*pools[-1]._actors], 1) if pools and pools[-1]._actors else []:
                ray.kill(actor)
                killed.append(len(killed))

    killer = threading.Thread(target=kill)
    killer.start()
    yield killed
    ended.set()
    killer.join()


def test_actors_that_die_while_they_parse_cost_their_work(killed_at_random, sample, tmp_path):
    made = 0
    while len(killed_at_random) < 10 and made < 10:
        made += 1
        assert hashes(read(tmp_path / str(made))) == hashes(sample)
    assert killed_at_random


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Objective, "min_for_processes", 1)
    monkeypatch.setattr("linkseek.retriever.mining.engine._CHUNK", 10)


def mined(index: Index, processes: int) -> tuple[list[bytes], list[bytes]]:
    pairs = PAIRS.mix("hlp", {"negatives": "random"})
    contrasts = CONTRASTS.mix("prop=2,ict,wlp", {"minimum_count": 2})
    mine = partial(Miner, index, processes=processes)
    return [*mine(pairs).lines()], [*mine(contrasts).lines(100)]


def test_pairs_and_contrasts_mined_by_actors_are_those_of_one_process(ray, sample, small_chunks):
    pairs, contrasts = mined(sample, 2)
    assert (pairs, contrasts) == mined(sample, 1)
    assert len(pairs) > 50 and len(contrasts) == 100


def test_actors_that_die_while_they_mine_cost_their_work(killed_at_random, sample, small_chunks):
    expected = mined(sample, 1)
    while len(killed_at_random) < 10:
        assert mined(sample, 2) == expected


def test_answers_found_by_actors_are_those_of_one_process(killed_at_random, sample, monkeypatch):
    monkeypatch.setattr("linkseek.retriever.mining.labels._BLOCK", 7)
    queries = read_queries(Path("samples/questions.jsonl"))
    rows = np.random.default_rng(1).integers(-1, len(sample.passages), (len(queries), 20))
    ranking = Ranking.of([query.id for query in queries], rows, np.zeros(rows.shape, np.float32))
    expected = holds_answers(sample, queries, ranking)
    assert 0 < expected.sum() < expected.size
    while len(killed_at_random) < 3:
        np.testing.assert_array_equal(holds_answers(sample, queries, ranking, processes=2), expected)


def fail() -> None:
    raise InputError("no such text", "Write another.")


def test_the_error_of_an_actor_is_raised_here(ray):
    with worker_pool(2) as pool, pytest.raises(InputError, match="no such text"):
        pool.submit(fail).result()
    with worker_pool(2, fail) as pool, pytest.raises(InputError, match="no such text"):
        list(pool.map(abs, [1, 2]))


def test_work_that_ends_every_actor_ends_the_command(ray):
    with worker_pool(2) as pool, pytest.raises(MachineError, match="3 actors died of the same work"):
        pool.submit(os._exit, 1).result()


def test_a_cluster_of_this_machine_has_the_priority_of_the_command_and_asks_nobody(tmp_path):
    """In a process of its own: Ray cannot return to a cluster after another one."""
    pytest.importorskip("ray")
    connections = Connections(tmp_path / "recorded")
    done = subprocess.run(
        [sys.executable, "-c", _PRIORITY],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"PYTHONPATH": connections.python_path(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == os.nice(0)
    own = {one.address for several in psutil.net_if_addrs().values() for one in several}
    recorded = connections.recorded().splitlines()  # Ray looks the address of its node up
    assert [line for line in recorded if not any(f"'{address}'" in line for address in own)] == []


_PRIORITY = """
import os, time
from linkseek.indexer.base.cluster import connected, worker_pool
with connected("local"), worker_pool(1) as pool:
    print(pool.submit(os.nice, 0).result())
    time.sleep(3)  # a dashboard asks as soon as it has started
"""


def test_an_actor_that_hangs_is_replaced(ray, tmp_path):
    with worker_pool(1, patience=30.0) as pool:  # to start an actor takes some of it
        assert pool.submit(hang_once, tmp_path / "hung").result() == "done"


def hang_once(place: Path) -> str:
    if not place.exists():
        place.touch()
        time.sleep(600)
    return "done"


def split(whole: Index, place: Path) -> tuple[list[dict[str, Any]], Any]:
    """Make four partitions: the hashes of all files but Lucene's, which differ, and what BM25 finds."""
    made = split_index(place, whole.path, 4)
    made.verify()
    files = [
        {name: part for name, part in hashes(one).items() if name != "bm25"}
        for one in (made, *made.partitions)
    ]
    hits = made.lucene().search(["who named oxygen", "river"], 50, BM25())
    return files, [(ids, scores.tolist()) for ids, scores in hits]


def test_partitions_are_made_by_actors(ray, tmp_path, killed_at_random, monkeypatch):
    plan = Plan(SAMPLE, encoders=["fake"], processes=1)
    build_index(tmp_path / "whole", plan, lambda name, title: FakeEncoder(name))
    whole = Index.open(tmp_path / "whole")
    made = [split(whole, tmp_path / "killed")]
    while len(killed_at_random) < 10:
        made.append(split(whole, tmp_path / "killed"))
    monkeypatch.setattr("linkseek.indexer.commands.partition.worker_count", lambda processes: processes)
    expected = split(whole, tmp_path / "here")
    assert all(one == expected for one in made)
