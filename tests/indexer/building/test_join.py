"""Shards of several machines, joined: the same vectors as from one, or the reason why not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from linkseek.indexer import build
from linkseek.indexer.building.builder import build_index, encode_share
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MismatchError
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


def joined(
    corpus: Path, index: Path, others: list[Path], encoders: list[FakeEncoder] | None = None
) -> object:
    """The content of an index built with the shards of others. encoders: gets those that are opened."""

    def opened(name: str, title: bool) -> FakeEncoder:
        encoder = open_encoder(name, title)
        (encoders if encoders is not None else []).append(encoder)
        return encoder

    build_index(index, plan(corpus, join=others), opened)
    return content(index)


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_joined_shares_make_the_index_of_one_machine(corpus, tmp_path, shares, capfd):
    build_index(tmp_path / "one", plan(corpus), open_encoder)
    [index, *others] = machines(corpus, tmp_path, shares)
    total = -(-len(OpenIndex.open(tmp_path / "one").passages) // 8)
    assert total > 4
    encoders: list[FakeEncoder] = []
    assert joined(corpus, index, others, encoders) == content(tmp_path / "one")
    assert encoders[0].batches == []
    assert f"{total} of {total} shards are finished" in capfd.readouterr().err
    assert joined(corpus, index, others) == content(tmp_path / "one")  # again: all is reused


def test_copied_workspaces_are_joined_where_nothing_is_yet(corpus, tmp_path):
    indexes = machines(corpus, tmp_path, 2)
    copies = [Path(shutil.copytree(workspace_path(i), tmp_path / "c" / i.name)) for i in indexes]
    build_index(tmp_path / "one", plan(corpus), open_encoder)
    assert joined(corpus, tmp_path / "new", copies) == content(tmp_path / "one")


def test_missing_and_damaged_shards_are_named(corpus, tmp_path):
    first, second, third = machines(corpus, tmp_path, 3)
    damaged = workspace_path(second) / "vectors" / "fake" / "00004.npy"
    damaged.write_bytes(damaged.read_bytes()[:-2] + b"xx")
    with pytest.raises(InputError) as caught:
        joined(corpus, first, [second])
    assert caught.value.message.startswith("vectors/fake: shards 2, 4-5, 8")
    with pytest.raises(InputError, match="shards 4 are missing or damaged"):
        joined(corpus, first, [third])


@pytest.mark.parametrize(
    ("options", "key"), [({"passage_words": 11}, "passages"), ({"title": False}, "encoder")]
)
def test_shards_of_something_else_are_refused(corpus, tmp_path, options, key):
    [other] = machines(corpus, tmp_path, 1, **options)
    with pytest.raises(MismatchError, match=f"{key} is ") as caught:
        joined(corpus, tmp_path / "new", [other])
    assert "machine1.linkseek-building" in caught.value.message and "same corpus" in caught.value.hint


def test_shards_made_in_another_way_are_refused(corpus, tmp_path, monkeypatch):
    [other] = machines(corpus, tmp_path, 1)
    monkeypatch.setattr(FakeEncoder, "execution", {"backend": "numpy", "threads": 2})
    with pytest.raises(MismatchError, match=r"execution is .* here it is .*'threads': 2"):
        joined(corpus, tmp_path / "new", [other])


def test_folders_without_shards_are_named(corpus, tmp_path):
    with pytest.raises(InputError, match="none: no shards here"):
        joined(corpus, tmp_path / "new", [tmp_path / "none"])


@pytest.mark.parametrize("value", [0, "x", None])
def test_altered_numbers_of_shards_are_refused(corpus, tmp_path, value):
    [other] = machines(corpus, tmp_path, 1)
    path = workspace_path(other) / "vectors/fake/building.json"
    write_json(path, read_json(path) | {"shard_rows": value} if value is not None else [])
    with pytest.raises(MismatchError, match=r" is (0|x|None), here it is "):
        joined(corpus, tmp_path / "new", [other])


# --- the command ----------------------------------------------------------------------------


def test_the_command_encodes_a_share_and_says_how_to_continue(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("linkseek.retriever.models.biencoder.find_model", Path)
    monkeypatch.setattr(
        "linkseek.retriever.models.biencoder.open_biencoder",
        lambda name, *, title, device: open_encoder(name, title),
    )
    common = ["--corpus", str(corpus), "--passage-words", "10", "--encoder", "fake", "--no-bm25"]
    for number in (1, 2):
        build.main([*common, "--index", str(tmp_path / f"m{number}"), "--shard", f"{number}/2"])
        said = " ".join(capsys.readouterr().out.split())
        assert f"dense/fake: share {number}/2 is done" in said and "--join" in said
    build.main([*common, "--index", str(tmp_path / "m1"), "--join", str(tmp_path / "m2")])
    build_index(tmp_path / "one", plan(corpus), open_encoder)
    assert content(tmp_path / "m1")["dense/fake"] == content(tmp_path / "one")["dense/fake"]
