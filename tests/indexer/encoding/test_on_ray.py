"""Encoding on a Ray cluster of two machines (processes here): the bytes of one, whoever dies or hangs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.encoding import on_ray as encoding
from linkseek.indexer.encoding.on_ray import on_ray
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.machine import cluster as clusters
from linkseek.indexer.program.errors import InputError, MachineError
from tests.support.on_actors import AT_ONCE, IN_THE_MIDDLE, WHEN_DONE, fail, hang_if_there_is, open_noisy
from tests.support.tiny.corpus import linked_rows, write_jsonl

Encode = Callable[..., OpenIndex]


@pytest.fixture
def encode(tmp_path: Path) -> Encode:
    """An index of the tiny corpus with one encoder, or with several by name, on a cluster."""
    corpus = write_jsonl(tmp_path / "corpus.jsonl", linked_rows(40))

    def run(name: str, address: str | None, on_batch=None, encoders=("fake",)) -> OpenIndex:
        plan = BuildPlan(corpus, passage_words=10, bm25=False, encoders=encoders, processes=1)
        with on_ray(address, partial(open_noisy, on_batch), "cpu") as opener:
            build_index(tmp_path / name, plan, opener)
        return OpenIndex.open(tmp_path / name)

    return run


def assert_same(made: OpenIndex, expected: OpenIndex) -> None:
    made.verify()
    assert made.encoders == expected.encoders
    for name in expected.encoders:
        files = [
            {file: entry.sha256 for file, entry in index.parts[f"dense/{name}"].files.items()}
            for index in (made, expected)
        ]
        assert files[0] == files[1]


def test_the_bytes_are_those_of_one_process(cluster, encode):
    both = ("fake", "another")
    assert_same(encode("cluster", cluster, encoders=both), encode("here", None, encoders=both))


def test_actors_that_die_or_hang_cost_their_shards(cluster, encode, dying, tmp_path, capfd, monkeypatch):
    """One dies while it opens the encoder, two of a shard, and then one hangs."""
    hang = tmp_path / "hang"
    monkeypatch.setattr(encoding, "_PATIENCE", 0.5)
    of_a_shard = dying(IN_THE_MIDDLE, WHEN_DONE, function=encoding._OpenEncoder.encode, then=hang.touch)
    with dying(AT_ONCE), of_a_shard:
        made = encode("cluster", cluster, partial(hang_if_there_is, hang))
    assert not hang.exists()
    log = capfd.readouterr().err
    assert log.count("died (") == 3 and "gave no answer in" in log
    assert_same(made, encode("here", None))


def test_a_shard_that_ends_every_actor_ends_the_build_which_resumes(cluster, encode, monkeypatch):
    monkeypatch.setattr(clusters, "ATTEMPTS", 2)
    with pytest.raises(MachineError, match=r"shard \d+: the last of its 2 actors died"):
        encode("cluster", cluster, partial(os._exit, 1))
    assert_same(encode("cluster", None), encode("here", None))


def test_the_error_of_an_actor_is_raised_here(cluster, encode):
    with pytest.raises(InputError, match="no such text"):
        encode("cluster", cluster, fail)


def test_without_ray_its_extra_is_named(encode, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MachineError) as error:
        encode("cluster", "local")
    assert "pip install -e '.[ray]'" in error.value.hint


def test_an_address_without_a_cluster_is_named(encode):
    pytest.importorskip("ray")
    with pytest.raises(MachineError, match="no Ray cluster answers there"):
        encode("cluster", "127.0.0.1:1")
