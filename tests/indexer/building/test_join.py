"""Shards of several machines, joined: the same vectors as from one, or the reason why not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from linkseek.indexer import build
from linkseek.indexer.building.builder import build_index, encode_share
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.commands import join
from linkseek.indexer.commands.join import Joined, join_shards
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import (
    BusyError,
    DamagedIndexError,
    InputError,
    MismatchError,
)
from linkseek.indexer.store.artifacts import read_json, workspace_path, write_json
from tests.support.fake_encoder import FakeEncoder
from tests.support.tiny_corpus import linked_rows, write_jsonl

NOISY = {"batch_noise": 0.01}


def plan(corpus: Path, **options) -> BuildPlan:
    return BuildPlan(
        corpus, **{"passage_words": 10, "bm25": False, "encoders": ["fake"], "processes": 1} | options
    )


def open_encoder(name: str, title: bool) -> FakeEncoder:
    return FakeEncoder(name, title=title, **NOISY)


def machines(corpus: Path, folder: Path, shares: int, **options) -> list[Path]:
    """The indexes of so many machines, each with its share of the shards."""
    indexes = [folder / f"machine{number}" for number in range(1, shares + 1)]
    for number, index in enumerate(indexes, 1):
        made = encode_share(index, plan(corpus, **options), open_encoder, (number, shares))
        assert not index.exists()
        assert all(shard.first_row // 8 % shares == number - 1 for shard in made["dense/fake"])
    return indexes


def content(index: Path) -> dict[str, object]:
    opened = OpenIndex.open(index)
    opened.verify()
    return {
        name: {k: v for k, v in manifest.to_json().items() if k != "fingerprint"}
        for name, manifest in opened.parts.items()
    }


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "corpus.jsonl", linked_rows(40))


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_joined_shares_make_the_index_of_one_machine(corpus, tmp_path, shares, capfd):
    build_index(tmp_path / "one", plan(corpus), open_encoder)
    [index, *others] = machines(corpus, tmp_path, shares)
    total = -(-len(OpenIndex.open(tmp_path / "one").passages) // 8)
    assert total > 4
    taken = sum(len(range(number, total, shares)) for number in range(1, shares))
    if others:
        assert join_shards(index, others) == {"fake": Joined(total, taken)}
        assert join_shards(index, others) == {"fake": Joined(total, 0)}  # again: nothing is left to do
    capfd.readouterr()
    here: list[FakeEncoder] = []

    def open_noted(name, title):
        here.append(open_encoder(name, title))
        return here[-1]

    build_index(index, plan(corpus), open_noted)
    assert here[0].batches == []
    assert f"{total} of {total} shards are finished" in capfd.readouterr().err
    assert content(index) == content(tmp_path / "one")


def test_copied_workspaces_are_joined_where_nothing_is_yet(corpus, tmp_path):
    indexes = machines(corpus, tmp_path, 2)
    copies = [Path(shutil.copytree(workspace_path(i), tmp_path / "c" / i.name)) for i in indexes]
    joined = join_shards(tmp_path / "new", copies)["fake"]
    assert joined.adopted == joined.total and not joined.missing
    build_index(tmp_path / "new", plan(corpus), lambda name, title: open_encoder(name, title))
    build_index(tmp_path / "one", plan(corpus), open_encoder)
    assert content(tmp_path / "new")["dense/fake"] == content(tmp_path / "one")["dense/fake"]


def test_missing_and_damaged_shards_are_named(corpus, tmp_path, capsys):
    first, second, third = machines(corpus, tmp_path, 3)
    vectors = second.with_name("machine2.linkseek-building") / "vectors" / "fake"
    damaged = vectors / "00004.npy"
    damaged.write_bytes(damaged.read_bytes()[:-2] + b"xx")
    with pytest.raises(InputError) as caught:
        join.main(["--index", str(first), str(second)])
    total = join_shards(first, [second])["fake"].total
    missing = [n for n in range(total) if n % 3 == 2 or n == 4]
    assert missing[:3] == [2, 4, 5]
    expected = ", ".join(map(str, [2, "4-5", *missing[3:]]))
    assert caught.value.message == f"missing: dense/fake: shards {expected}"
    said = capsys.readouterr().out
    assert f"dense/fake: {total - len(missing)} of {total} shards are there" in said
    assert f"damaged, skipped: {damaged}" in said
    with pytest.raises(InputError, match=r"shards 4\n"):
        join.main(["--index", str(first), str(third)])


@pytest.mark.parametrize(
    ("options", "key"), [({"passage_words": 11}, "passages"), ({"title": False}, "encoder")]
)
def test_shards_of_something_else_are_refused(corpus, tmp_path, options, key):
    [index] = machines(corpus, tmp_path, 1)
    (tmp_path / "else").mkdir()
    [other] = machines(corpus, tmp_path / "else", 1, **options)
    with pytest.raises(MismatchError, match=f"{key} is ") as caught:
        join_shards(index, [other])
    assert "machine1.linkseek-building" in caught.value.message and "same corpus" in caught.value.hint


def test_shards_made_in_another_way_are_refused(corpus, tmp_path, monkeypatch):
    [index] = machines(corpus, tmp_path, 1)
    monkeypatch.setattr(FakeEncoder, "execution", {"backend": "numpy", "threads": 2})
    (tmp_path / "else").mkdir()
    [other] = machines(corpus, tmp_path / "else", 1)
    with pytest.raises(MismatchError, match=r"execution is \{'backend': 'numpy', 'threads': 2\}"):
        join_shards(index, [other])


def test_folders_without_shards_or_passages_are_named(corpus, tmp_path):
    [index] = machines(corpus, tmp_path, 1)
    with pytest.raises(InputError, match="none: no shards here"):
        join_shards(index, [tmp_path / "none"])
    vectors = Path(
        shutil.copytree(
            workspace_path(tmp_path / "machine1") / "vectors", workspace_path(tmp_path / "bare") / "vectors"
        )
    )
    with pytest.raises(InputError, match="passages that the shards were made from are missing"):
        join_shards(tmp_path / "new", [vectors.parent])
    with Workspace(index), pytest.raises(BusyError):
        join_shards(index, [index])


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("vectors/fake/building.json", "shard_rows", 0),
        ("vectors/fake/building.json", "shard_rows", "x"),
        ("passages/manifest.json", "passages", "x"),
        ("passages/manifest.json", "passages", -1),
    ],
)
def test_altered_numbers_of_shards_are_damage(corpus, tmp_path, file, key, value):
    [index] = machines(corpus, tmp_path, 1)
    path = workspace_path(index) / file
    manifest = read_json(path) | {key: value}
    manifest.pop("manifest_sha256", None)
    write_json(path, manifest)
    with pytest.raises(DamagedIndexError, match="altered"):
        join_shards(tmp_path / "new", [index])


# --- linkseek build --shard --------------------------------------------------------------


def test_the_command_encodes_a_share_and_says_how_to_go_on(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("linkseek.retriever.models.biencoder.find_model", Path)
    monkeypatch.setattr(
        "linkseek.retriever.models.biencoder.open_biencoder",
        lambda name, *, title, device: open_encoder(name, title),
    )
    common = ["--corpus", str(corpus), "--passage-words", "10", "--encoder", "fake", "--no-bm25"]
    for number in (1, 2):
        build.main([*common, "--index", str(tmp_path / f"m{number}"), "--shard", f"{number}/2"])
        said = " ".join(capsys.readouterr().out.split())
        assert f"dense/fake: share {number}/2 is done" in said and "linkseek join" in said
    join.main(["--index", str(tmp_path / "m1"), str(tmp_path / "m2")])
    build.main([*common, "--index", str(tmp_path / "m1")])
    build_index(tmp_path / "one", plan(corpus), open_encoder)
    assert content(tmp_path / "m1")["dense/fake"] == content(tmp_path / "one")["dense/fake"]
