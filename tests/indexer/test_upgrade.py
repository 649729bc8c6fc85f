"""linkseek upgrade: indexes of earlier versions, converted in place without an encoder, or refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_encoder import FakeEncoder
from test_growth import wiki

from linkseek.indexer.base.errors import DamagedIndexError, NoIndexError, UsageError
from linkseek.indexer.building import workspace as workspace_module
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import Plan
from linkseek.indexer.commands import upgrade
from linkseek.indexer.commands.partition import split_index
from linkseek.indexer.commands.upgrade import upgrade_index
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.index import Index
from linkseek.indexer.store.artifacts import read_json, temporary_path, workspace_path, write_json
from linkseek.indexer.store.manifest_files import OWN_HASH
from linkseek.indexer.store.outputs import RECORD

ALL = ["the counts of redirects", "the title separator of encoders", "hashes of manifests"]


class Prompted(FakeEncoder):
    """With the texts that identities name."""

    @property
    def identity(self) -> dict[str, Any]:
        return {**super().identity, "passage_prompt": "", "query_prompt": "", "title_separator": " "}


PAGES = {
    **{f"Page {n}": f"The words{n}. See [[Alias {n % 4}]], [[Page {29 - n}]]. " * 5 for n in range(30)},
    **{f"Alias {n}": f"&gt;Page {n}" for n in range(4)},
}
"""30 articles with links, and 4 redirects."""


def build(index: Path, encoder: FakeEncoder | None = None, **options: Any) -> list[str]:
    """Build an index of a wiki with redirects; which parts were reused."""
    corpus = index.with_name("wiki.xml")
    if not corpus.exists():
        wiki(corpus, PAGES)
    plan = Plan(
        corpus, passage_words=10, headings="off", bm25=False, encoders=["fake"], processes=1, **options
    )
    return build_index(index, plan, lambda name, title: encoder or Prompted("fake", title=title)).reused


def change(folder: Path, alter: Callable[[dict[str, Any]], object] = lambda values: None) -> None:
    """Change a manifest, and leave out its hash, as earlier versions did."""
    values = read_json(folder / "manifest.json")
    values.pop(OWN_HASH, None)
    alter(values)
    write_json(folder / "manifest.json", values)


def first_version(index: Path) -> None:
    """Make an index what the first version wrote of the same corpus."""
    links = read_json(index / "links" / "manifest.json")["counts"]
    links = {"redirects": links.pop("resolved_redirects"), **links}

    def counts(values: dict[str, Any]) -> None:
        values["counts"].pop("resolved_redirects")
        values["counts"] |= links
        values["text"].pop("min_words")

    def encoder(values: dict[str, Any]) -> None:
        for identity in (values.get("encoder", {}), values["fingerprint"]["encoder"]):
            identity.pop("title_separator", None)

    shards = index / "dense" / "fake" / "vectors"
    if shards.exists():
        change(shards, encoder)
        accept_unhashed(shards / "manifest.json", index / "dense" / "fake")
    change(index / "links", lambda values: values.update(counts=links))
    change(index / "dense" / "fake", encoder)
    change(index, counts)
    for name in ("documents", "passages"):
        change(index / name)


def accept_unhashed(file: Path, part: Path) -> None:
    entry = {"bytes": file.stat().st_size, "sha256": file_sha256(file)}
    change(part, lambda values: values["files"].update({str(file.relative_to(part)): entry}))


def content(index: Path) -> dict[str, bytes]:
    return {str(p.relative_to(index)): p.read_bytes() for p in sorted(index.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("faiss", ["Flat", "compact"])
def test_an_index_of_the_first_version_becomes_one_of_this(tmp_path, capsys, faiss):
    index = tmp_path / "index"
    build(index, faiss=faiss, min_words=0)
    expected = content(index)
    ids = {path: path.stat().st_ino for path in index.rglob("*") if path.suffix in (".arrow", ".npy")}
    first_version(index)
    with pytest.raises(DamagedIndexError, match='"counts" is missing or damaged') as raised:
        Index.open(index)
    assert "linkseek upgrade --index DIR" in raised.value.hint
    upgrade.main(["--index", str(index)])
    assert f"{index}: converted ({', '.join(ALL)})" in capsys.readouterr().out
    found = content(index)
    assert found.keys() == expected.keys()
    text = read_json(index / "manifest.json")["text"]
    assert text == {"title": True, "passage_words": 10}
    for name in expected:
        if name != "manifest.json":
            assert found[name] == expected[name], name
    assert {path: path.stat().st_ino for path in ids} == ids  # linked, not copied
    opened = Index.open(index)
    opened.verify()
    assert opened.manifest.counts.redirects == opened.manifest.counts.resolved_redirects == 4
    assert len(opened.dense().search(np.ones((1, 32), np.float32), 3)[0]) == 1
    assert not workspace_path(index).exists()
    upgrade.main(["--index", str(index)])
    assert "is of this version already" in capsys.readouterr().out


@pytest.mark.parametrize("faiss", ["Flat", "HNSW8"])
def test_nothing_is_encoded_again_afterwards(tmp_path, faiss):
    index = tmp_path / "index"
    build(index, min_words=0)
    build(index, faiss="compact", min_words=0)
    first_version(index)
    assert upgrade_index(index) == ALL
    encoder = Prompted("fake")
    assert {"passages", "links", "vectors/fake"} <= {*build(index, encoder, faiss="HNSW8", min_words=0)}
    assert not encoder.batches


def test_manifests_without_a_hash_open_and_get_one(tmp_path):
    index = tmp_path / "index"
    build(index)
    expected = content(index)
    for path in index.rglob("manifest.json"):
        change(path.parent)
    opened = Index.open(index)
    opened.verify()
    assert upgrade_index(index) == ["hashes of manifests"]
    assert content(index) == expected


def test_an_index_of_partitions(tmp_path):
    build(tmp_path / "whole")
    made = split_index(tmp_path / "made", tmp_path / "whole", 2)
    expected = content(made.path)
    for path in made.path.rglob("manifest.json"):
        change(path.parent)
    assert upgrade_index(made.path) == ["hashes of manifests"]
    assert content(made.path) == expected
    assert upgrade_index(made.path) == []


def test_a_damaged_index_stays_as_it_is(tmp_path):
    index = tmp_path / "index"
    build(index, min_words=0)
    first_version(index)
    path = max((index / "passages").glob("*.arrow"))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    before = content(index)
    with pytest.raises(DamagedIndexError, match=f"{path}: altered"):
        upgrade_index(index)
    assert content(index) == before and not workspace_path(index).exists()


@pytest.mark.parametrize("at", ["_exchange", "check_place"])
def test_an_error_at_the_end_leaves_the_old_index(tmp_path, monkeypatch, at):
    index = tmp_path / "index"
    build(index, min_words=0)
    first_version(index)
    before = content(index)

    def fail(*_: object) -> None:
        if workspace_path(index).joinpath("manifest.json").exists():
            raise OSError("no")

    monkeypatch.setattr(workspace_module, at, fail)
    with pytest.raises(OSError, match="no"):
        upgrade_index(index)
    monkeypatch.undo()
    assert content(index) == before and not workspace_path(index).exists()
    assert upgrade_index(index) == ALL


@pytest.mark.parametrize(
    ("version", "words"), [(0, "Build the index again"), (2, "newer Linkseek"), (None, "Build the index")]
)
def test_another_format_is_refused_with_a_sentence(tmp_path, version, words):
    index = tmp_path / "index"
    build(index)
    for path in index.rglob("manifest.json"):
        change(path.parent, lambda values: values.update(format_version=version))
    before = content(index)
    with pytest.raises(DamagedIndexError, match=f"index format {version}, expected 1") as raised:
        upgrade_index(index)
    assert words in raised.value.hint and content(index) == before


def test_an_interrupted_build_is_not_lost(tmp_path):
    index = tmp_path / "index"
    build(index)
    change(index)
    shutil.copytree(index / "documents", workspace_path(index) / "documents")
    with pytest.raises(UsageError, match="left by an interrupted build") as raised:
        upgrade_index(index)
    assert "Finish the build" in raised.value.hint
    assert (workspace_path(index) / "documents" / "00000.arrow").exists()


@pytest.mark.parametrize("at", ["publish", "the last index is deleted"])
def test_after_a_kill_the_same_command_upgrades(tmp_path, monkeypatch, at):
    index = tmp_path / "index"
    build(index)
    change(index)

    def kill(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(workspace_module.Workspace, "discard", lambda workspace: None)
        patch.setattr(*{"publish": (workspace_module.Workspace, at)}.get(at, (shutil, "rmtree")), kill)
        with pytest.raises(KeyboardInterrupt):
            upgrade_index(index)
    assert (workspace_path(index) / "documents").exists()
    assert upgrade_index(index) == (["hashes of manifests"] if at == "publish" else [])
    assert not workspace_path(index).exists()
    Index.open(index).verify()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that dies at one line is forked")
@pytest.mark.parametrize("at", ["the mark", "before", "after"])
def test_a_kill_next_to_the_exchange(tmp_path, monkeypatch, at):
    index = tmp_path / "index"
    build(index)
    change(index)
    exchange, let_go = workspace_module._exchange, workspace_module._let_go

    def die(new: Path, place: Path) -> None:
        if at == "after":
            exchange(new, place)
        os._exit(9)

    def die_at_the_mark(folder: Path) -> None:
        if at == "the mark" and folder == index.resolve():
            temporary_path(folder / RECORD).touch()
            os._exit(9)
        let_go(folder)

    child = os.fork()
    if not child:
        monkeypatch.setattr(workspace_module, "_exchange", die)
        monkeypatch.setattr(workspace_module, "_let_go", die_at_the_mark)
        upgrade_index(index)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    Index.open(index)
    assert upgrade_index(index) == ([] if at == "after" else ["hashes of manifests"])
    assert not workspace_path(index).exists() and not (index / RECORD).exists()
    Index.open(index).verify()
    build(index)


def test_counts_that_are_missing_for_another_reason_are_damage(tmp_path):
    index = tmp_path / "index"
    build(index)
    for counts in (None, {}, {"links": 1}, [1]):
        change(index, lambda values, counts=counts: values.update(counts=counts))
        before = content(index)
        with pytest.raises(DamagedIndexError, match='"counts" is missing or damaged'):
            upgrade_index(index)
        assert content(index) == before


def test_what_cannot_be_upgraded(tmp_path):
    with pytest.raises(UsageError, match="--index is missing"):
        upgrade.main([])
    with pytest.raises(NoIndexError, match="no index here"):
        upgrade_index(tmp_path / "none")
    assert not workspace_path(tmp_path / "none").exists()
