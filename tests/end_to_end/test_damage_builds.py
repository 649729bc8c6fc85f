"""Builds that were interrupted, disturbed, or begin from a damaged index: nothing bad is taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import BusyError
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.store.artifacts import read_json, write_json
from tests.support.command import Forked, run_forked
from tests.support.damage import SAMPLE, build, flip, here, kept, told
from tests.support.fake_encoder import FakeEncoder
from tests.support.tiny_corpus import linked_rows, write_jsonl

DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture
def index(tmp_path) -> Path:
    """A part of the sample with the vectors of a fake encoder."""
    plan = BuildPlan(SAMPLE, bm25=False, encoders=["fake"], processes=1, reading=Choices(limit=30))
    build_index(tmp_path / "index", plan, lambda name, title: FakeEncoder(name))
    return tmp_path / "index"


def test_a_damaged_index_is_built_again(index):
    """Whatever is wrong with it; what is whole is taken over."""
    (index / "manifest.json").write_text("nonsense")
    (index / "links" / "target.npy").write_bytes(b"cut")
    out = kept(build("--corpus", SAMPLE, "--index", index, "--limit", 30))
    assert "documents 30" in out
    assert "every file is intact" in kept(here("build", "--verify", "--index", index))


def interrupted(corpus: Path, index: Path) -> Path:
    """A build that is killed after its first shards; the path of the second."""
    process = Forked([DRIVER, corpus, index, 0.08])
    shard = index.with_name(index.name + ".linkseek-building") / "vectors" / "encoder" / "00001.npy"
    while not shard.with_suffix(".json").exists():
        assert process.poll() is None
    process.kill()
    process.communicate()
    return shard


def vectors(index: Path) -> str:
    return str(OpenIndex.open(index).dense().manifest.vectors_sha256)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, str]:
    """A corpus, and the hash of its vectors."""
    folder = tmp_path_factory.mktemp("whole")
    corpus = write_jsonl(folder / "c.jsonl", linked_rows(60))
    kept(run_forked([DRIVER, corpus, folder / "i", 0]))
    return corpus, vectors(folder / "i")


@pytest.mark.parametrize("how", ["altered", "cut", "of another encoder"])
def test_a_bad_shard_of_an_interrupted_build_is_made_again(whole, tmp_path, how):
    corpus, expected = whole
    shard = interrupted(corpus, tmp_path / "i")
    content = shard.read_bytes()
    mark = shard.with_name("building.json")
    if how == "altered":
        shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif how == "cut":
        shard.write_bytes(content[: len(content) // 2])
    else:
        write_json(mark, read_json(mark) | {"encoder": {"name": "another"}})
    done = run_forked([DRIVER, corpus, tmp_path / "i", 0])
    kept(done)
    assert ("shards are finished" in done.stderr) == (how != "of another encoder")
    assert vectors(tmp_path / "i") == expected


def test_altered_vectors_in_use_are_no_source_for_another_index(index):
    """Another type of index takes the vectors out of the one in use, if that is whole."""
    before = vectors(index)
    flip(index / "dense" / "fake" / "index", -3)
    encoder = FakeEncoder("fake")
    plan = BuildPlan(
        SAMPLE, bm25=False, encoders=["fake"], processes=1, reading=Choices(limit=30), faiss="HNSW8"
    )
    build_index(index, plan, lambda name, title: encoder)
    assert encoder.batches  # encoded again
    assert vectors(index) == before


def test_two_builds_into_the_same_folder(tmp_path):
    corpus = write_jsonl(tmp_path / "c.jsonl", linked_rows(60))
    free = tmp_path / "free"
    process = Forked([DRIVER, corpus, tmp_path / "i", 0, f"until={free}"])
    try:
        while not (tmp_path / "i.linkseek-building" / "vectors").exists():
            assert process.poll() is None
        told(
            build("--corpus", corpus, "--index", tmp_path / "i"),
            BusyError,
            f"{tmp_path / 'i'}: another process is writing it (process {process.pid}, ",
            "choose another output",
        )
        kept(build("--corpus", corpus, "--index", tmp_path / "other"))
    finally:
        free.touch()
        process.communicate()
    assert process.returncode == 0
    assert len(OpenIndex.open(tmp_path / "i").documents) == 60  # the first one was not disturbed
