"""Parts and workspaces: published whole, taken over or resumed by fingerprint, damage named."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkseek.indexer.building import workspace as workspace_module
from linkseek.indexer.building.workspace import Workspace, link_tree
from linkseek.indexer.files import hashes
from linkseek.indexer.files.hashes import combined_sha256, file_sha256, model_file_sha256
from linkseek.indexer.program.errors import (
    BusyError,
    DamagedIndexError,
    LinkseekError,
    NoIndexError,
    UsageError,
)
from linkseek.indexer.store import artifacts
from linkseek.indexer.store.artifacts import (
    open_array,
    read_json,
    segment_path,
    segment_paths,
    shards_part,
    value_sha256,
    vector_part,
    write_atomically,
    write_json,
)
from linkseek.indexer.store.manifest_files import read_index_manifest, read_part, verify_part
from linkseek.indexer.store.manifests import FORMAT_VERSION, DocumentsPart, PartManifest, VectorsPart
from linkseek.indexer.store.tables import Table
from tests.support.accepted import manifest_bytes
from tests.support.tiny.manifests import index_manifest


def filling(
    content: str, built: list[str] | None = None, entries: dict[str, Any] | None = None
) -> Callable[[Path], dict[str, Any]]:
    """A `build` that writes two files, and notes that it was called; of these entries, and one more."""

    def build(folder: Path) -> dict[str, Any]:
        (folder / "sub").mkdir(exist_ok=True)
        (folder / "a").write_text(content)
        (folder / "sub" / "b").write_text(content * 2)
        if built is not None:
            built.append(content)
        return {"count": len(content), **(entries or {})}

    return build


def publish(index: Path, content: str, **options: Any) -> Workspace:
    with Workspace(index, **options) as workspace:
        workspace.part(PartManifest, "documents", {"is": content}, filling(content))
        workspace.publish(index_manifest(["documents"], made_of=content))
    return workspace


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "part"),
    [
        ("all-MiniLM-L6-v2", "dense/all-MiniLM-L6-v2"),
        ("intfloat/e5-base", "dense/e5-base"),
        ("/models/my model/", "dense/my_model"),
        ("../..", "dense/encoder"),
        ("..", "dense/encoder"),
        ("a/../.hidden", "dense/hidden"),
        ("模型", "dense/encoder"),
    ],
)
def test_an_encoder_gives_its_part_a_safe_name(encoder, part):
    assert vector_part(encoder) == part
    assert vector_part(part.removeprefix("dense/")) == part
    assert shards_part(part) == part.replace("dense/", "vectors/")


def test_segments_are_found_in_order_and_nothing_else(tmp_path):
    for name in "00010 00002 redirects-00000 0001".split():
        (tmp_path / f"{name}.arrow").touch()
    (tmp_path / "00003.arrow.linkseek-tmp").touch()
    assert segment_paths(tmp_path) == [segment_path(tmp_path, 2), segment_path(tmp_path, 10)]
    assert segment_paths(tmp_path, "redirects-") == [segment_path(tmp_path, 0, "redirects-")]


# --- files ---------------------------------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_atomically(path, b"old")

    def full(handle: int) -> None:
        raise OSError("full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_hashes_are_those_of_the_bytes_and_of_the_values(tmp_path):
    (tmp_path / "f").write_bytes(b"abc" * (2 << 20))
    told: list[float] = []
    digest = file_sha256(tmp_path / "f", told.append)
    assert digest == sha256(b"abc" * (2 << 20)).hexdigest()
    assert sum(told) == 6 << 20 and len(told) > 1
    assert value_sha256({"a": 1, "b": 2}) == value_sha256({"b": 2, "a": 1}) != value_sha256({"a": 2, "b": 1})
    assert combined_sha256(["a", "b"]) != combined_sha256(["b", "a"])


def test_a_file_of_a_model_is_read_once_until_it_changes(tmp_path, monkeypatch):
    (file := tmp_path / "f").write_bytes(b"1")
    monkeypatch.setattr(hashes, "_SETTLED", -1)
    first = model_file_sha256(file)
    monkeypatch.setattr(hashes, "file_sha256", lambda _: "read")
    assert model_file_sha256(file) == first == sha256(b"1").hexdigest()
    monkeypatch.setattr(hashes, "_SETTLED", 60)  # it may change again within one tick of the clock
    assert model_file_sha256(file) == "read"
    monkeypatch.setattr(hashes, "_SETTLED", -1)
    file.write_bytes(b"22")
    assert model_file_sha256(file) == "read"


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[1] x"])
def test_what_is_no_json_is_named(tmp_path, content):
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(DamagedIndexError, match=r"f\.json: not JSON"):
        read_json(tmp_path / "f.json")


def test_a_device_and_a_file_without_end_are_named(tmp_path, monkeypatch):
    for name in ("f.json", "a.npy", "t.arrow"):
        (tmp_path / name).symlink_to("/dev/null")
    for read in (
        lambda: read_json(tmp_path / "f.json"),
        lambda: open_array(tmp_path / "a.npy"),
        lambda: Table([tmp_path / "t.arrow"], pa.schema([("text", pa.string())])),
    ):
        with pytest.raises(DamagedIndexError, match="a pipe or a device"):
            read()
    monkeypatch.setattr(artifacts, "_MAX_JSON", 4)
    (tmp_path / "g.json").write_bytes(b"1234 ")
    with pytest.raises(DamagedIndexError, match=r"g\.json: larger than 4 bytes"):
        read_json(tmp_path / "g.json")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x93NUMPY\x01\x00"])
def test_what_is_no_array_is_named(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(DamagedIndexError, match=r"a\.npy"):
        open_array(tmp_path / "a.npy")
    np.save(tmp_path / "pickled.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(DamagedIndexError, match=r"pickled\.npy"):
        open_array(tmp_path / "pickled.npy")


@pytest.mark.parametrize("shape", [(0,), (1,), (123_456,), (0, 3), (5, 7)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64", "float16"])
def test_an_array_is_what_numpy_loads(tmp_path, shape, dtype):
    np.save(tmp_path / "a.npy", np.arange(np.prod(shape), dtype=dtype).reshape(shape))
    array = open_array(tmp_path / "a.npy")
    twin = np.load(tmp_path / "a.npy")
    assert (array.dtype, array.shape) == (twin.dtype, twin.shape)
    np.testing.assert_array_equal(array, twin)
    assert isinstance(array, np.memmap) == bool(array.size)


@pytest.mark.parametrize("change", [-1, 1, 64])
def test_an_array_of_another_length_than_its_head_says_is_named(tmp_path, change):
    np.save(tmp_path / "a.npy", np.arange(100))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(DamagedIndexError, match=r"a\.npy: .* expected 928"):
        open_array(tmp_path / "a.npy")


# --- parts ---------------------------------------------------------------------------------------


@pytest.fixture
def part(tmp_path: Path) -> Path:
    publish(tmp_path / "index", "content")
    return tmp_path / "index" / "documents"


def test_a_part_says_what_it_is_made_from_and_lists_its_files(part):
    manifest = read_part(part, PartManifest)
    assert manifest.format_version == FORMAT_VERSION
    assert manifest.fingerprint == {"is": "content"}
    assert manifest.to_json()["count"] == 7  # which this version does not know
    assert manifest.to_json()["files"] == {
        name: {"bytes": (part / name).stat().st_size, "sha256": file_sha256(part / name)}
        for name in ("a", "sub/b")
    }
    verify_part(part)
    assert read_index_manifest(part.parent) == index_manifest(["documents"], made_of="content")


def test_a_missing_file_and_one_of_another_size_are_found_when_opening(part):
    (part / "a").write_text("longer than before")
    with pytest.raises(DamagedIndexError, match="a: 18 bytes, expected 7"):
        read_part(part, PartManifest)
    (part / "a").unlink()
    with pytest.raises(DamagedIndexError, match="a: missing"):
        read_part(part, PartManifest)
    (part / "a").mkdir()
    with pytest.raises(DamagedIndexError, match=r"a: .* bytes, expected 7"):
        read_part(part, PartManifest)


def test_another_format_version_is_refused(part):
    write_json(part / "manifest.json", read_json(part / "manifest.json") | {"format_version": 99})
    with pytest.raises(DamagedIndexError, match="index format 99, expected 1") as caught:
        read_part(part, PartManifest)
    assert "newer Linkseek" in caught.value.hint
    write_json(part.parent / "manifest.json", {"format_version": 0, "parts": []})
    with pytest.raises(DamagedIndexError, match="index format 0") as caught:
        read_index_manifest(part.parent)
    assert "Build the index again" in caught.value.hint


KEYS = st.sampled_from(["format_version", "parts", "files", "fingerprint", "bytes", "a"])
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e9, 1e9)
JSON = st.recursive(
    PLAIN | st.text(max_size=5) | st.sampled_from(["documents", "../x", "a\0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=8,
)


@given(JSON | st.fixed_dictionaries({"format_version": st.just(1)}, optional={"parts": JSON, "files": JSON}))
@settings(max_examples=40, deadline=None)
def test_no_manifest_causes_another_exception_than_ours(tmp_path_factory, value):
    index = tmp_path_factory.getbasetemp() / "fuzzed"
    publish(index, "content", fresh=True)
    for path in (index / "documents" / "manifest.json", index / "manifest.json"):
        path.write_bytes(manifest_bytes(value))
    kinds = [partial(read_part, kind=kind) for kind in (PartManifest, DocumentsPart, VectorsPart)]
    for read in (read_index_manifest, verify_part, *kinds):
        for folder in (index, index / "documents"):
            with suppress(LinkseekError):
                read(folder)
    with suppress(UsageError):  # where nothing shows that the files are ours
        assert publish(index, "content").reused == []
    assert files(index)["documents/a"] == b"content"
    shutil.rmtree(index)


# --- workspaces ----------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["exchange", "no exchange"])
def test_there_is_an_index_at_every_moment(tmp_path, monkeypatch, system):
    """Where two folders can change places in one step; elsewhere it is away for a moment."""
    if system == "no exchange":
        monkeypatch.setattr(workspace_module, "_rename_exchange", lambda a, b: False)
    index = tmp_path / "index"
    publish(index, "0")
    ended = threading.Event()
    found: list[str] = []

    def read() -> None:
        while not ended.is_set():
            try:
                found.append((index / "documents" / "a").read_text())
            except FileNotFoundError:
                found.append("missing")

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(1, 20):
        publish(index, str(n))
    ended.set()
    reader.join()
    assert (index / "documents" / "a").read_text() == "19"
    assert names(tmp_path) == ["index"]
    if system == "exchange":
        numbers = [int(content) for content in found]
        assert numbers == sorted(numbers) and len(set(numbers)) > 1


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("path", ["notes.txt", "documents/mine.txt", "dense/mine/a.npy"])
def test_a_folder_of_the_user_with_the_name_of_a_workspace_is_kept(tmp_path, fresh, path):
    file = tmp_path / "index.linkseek-building" / path
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(UsageError, match="contains files that no build made"):
        Workspace(tmp_path / "index", fresh=fresh).__enter__()
    assert file.read_text() == "mine"


@pytest.mark.parametrize("last", ["documents", "manifest.json"])
def test_a_deletion_that_was_interrupted_is_resumed(tmp_path, monkeypatch, last):
    """last: what is deleted, of the index that was replaced."""
    publish(tmp_path / "index", "0")
    remove = workspace_module._remove

    def interrupted(path: Path) -> None:
        remove(path)
        if path == tmp_path / "index.linkseek-building" / last:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(workspace_module, "_remove", interrupted)
        publish(tmp_path / "index", "1")
    publish(tmp_path / "index", "2")
    assert (tmp_path / "index" / "documents" / "a").read_text() == "2"
    assert names(tmp_path) == ["index"]


def _publish_often(index: Path, times: int, ready: Any, results: Any) -> None:
    published = busy = 0
    try:
        ready.wait(60)
        while published < times:
            try:
                publish(index, f"{os.getpid()} {published}")
                published += 1
            except BusyError:
                busy += 1
                time.sleep(0.001)
        results.put(busy)
    except BaseException as error:  # told to the test
        results.put(repr(error))


def test_builds_at_the_same_time_publish_one_after_another_or_are_told(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    ready, results = spawn.Barrier(3), spawn.Queue()
    processes = [
        spawn.Process(target=_publish_often, args=(tmp_path / "index", 40, ready, results)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    busy = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    assert all(isinstance(count, int) for count in busy), busy
    assert sum(busy) > 0
    verify_part(tmp_path / "index" / "documents")
    assert names(tmp_path) == ["index"]


def test_a_finished_part_of_the_same_fingerprint_is_taken_over_as_hard_links(tmp_path):
    index, built = tmp_path / "index", []
    publish(index, "x")
    inode = (index / "documents" / "a").stat().st_ino
    with Workspace(index) as workspace:
        manifest = workspace.part(PartManifest, "documents", {"is": "x"}, filling("never", built))
        assert (manifest.to_json()["count"], built, workspace.reused) == (1, [], ["documents"])
        workspace.publish(index_manifest(["documents"]))
    assert (index / "documents" / "a").stat().st_ino == inode
    verify_part(index / "documents")
    with Workspace(index) as workspace:
        workspace.part(PartManifest, "documents", {"is": "y"}, filling("other", built))
        assert (built, workspace.reused) == (["other"], [])
    with Workspace(index, fresh=True) as workspace:
        workspace.part(PartManifest, "documents", {"is": "x"}, filling("fresh", built))
        assert (built, workspace.reused) == (["other", "fresh"], [])


def test_a_damaged_part_is_built_again(tmp_path):
    index, built = tmp_path / "index", []
    publish(index, "x")
    (index / "documents" / "a").write_text("longer")
    with Workspace(index) as workspace:
        workspace.part(PartManifest, "documents", {"is": "x"}, filling("x", built))
    assert built == ["x"]


def interrupt(index: Path, fingerprint: dict[str, Any]) -> None:
    def build(folder: Path) -> dict[str, Any]:
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Workspace(index) as workspace:
        workspace.part(PartManifest, "documents", fingerprint, build)


@pytest.mark.parametrize(
    ("fingerprint", "resumable", "found"),
    [({"n": [1, 2]}, True, ["building.json", "half"]), ({"n": [1, 2]}, False, ["building.json"]),
     ({"n": [1]}, True, ["building.json"])],
)  # fmt: skip
def test_an_unfinished_part_is_resumed_by_the_same_fingerprint_only(tmp_path, fingerprint, resumable, found):
    interrupt(tmp_path / "index", {"n": (1, 2)})
    seen: list[str] = []

    def build(folder: Path) -> dict[str, Any]:
        seen.extend(sorted(path.name for path in folder.iterdir()))
        return {}

    with Workspace(tmp_path / "index") as workspace:
        manifest = workspace.part(PartManifest, "documents", fingerprint, build, resumable=resumable)
    assert seen == found
    assert sorted(manifest.files) == [name for name in found if name != "building.json"]


def test_a_part_that_was_complete_when_the_build_was_killed_has_no_mark_left(tmp_path):
    with pytest.raises(KeyboardInterrupt), Workspace(tmp_path / "i") as first:
        first.part(PartManifest, "documents", {"n": 1}, filling("x"))
        raise KeyboardInterrupt
    mark = tmp_path / "i.linkseek-building" / "documents" / "building.json"
    assert mark.with_name("manifest.json").is_file() and not mark.exists()
    mark.write_text('{"n": 1}')  # killed between the manifest and the removal of the mark
    with Workspace(tmp_path / "i") as again:
        again.part(PartManifest, "documents", {"n": 1}, filling("y"))
        assert again.reused == ["documents"] and not mark.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_damaged_mark_of_an_unfinished_part_means_beginning_again(tmp_path, content):
    interrupt(tmp_path / "index", {"n": 1})
    (tmp_path / "index.linkseek-building" / "documents" / "building.json").write_text(content)
    with Workspace(tmp_path / "index") as workspace:
        manifest = workspace.part(PartManifest, "documents", {"n": 1}, filling("x"))
    assert sorted(manifest.files) == ["a", "sub/b"]


def test_a_write_that_was_cut_off_is_no_file_of_the_part(tmp_path):
    interrupt(tmp_path / "index", {"n": 1})
    for name in ("manifest.json.linkseek-tmp", "half.linkseek-tmp"):
        (tmp_path / "index.linkseek-building" / "documents" / name).write_text("ha")
    with Workspace(tmp_path / "index") as workspace:
        manifest = workspace.part(PartManifest, "documents", {"n": 1}, lambda folder: {})
        assert list(manifest.files) == ["half"]
        workspace.publish(index_manifest(["documents"]))
    assert read_part(tmp_path / "index" / "documents", PartManifest) == manifest
    assert names(tmp_path / "index" / "documents") == ["half", "manifest.json"]


def test_publishing_leaves_out_what_other_attempts_left(tmp_path):
    index = tmp_path / "index"
    with Workspace(index) as workspace:
        for name in ("documents", "bm25", "dense/a", "dense/b", "vectors/a"):
            workspace.part(PartManifest, name, {}, filling(name))
        workspace.publish(index_manifest(["documents", "dense/b"]))
    assert sorted(path.name for path in index.iterdir()) == ["dense", "documents", "manifest.json"]
    assert [path.name for path in (index / "dense").iterdir()] == ["b"]


def test_links_replace_what_was_there_and_are_copies_where_links_are_impossible(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_text("content")
    (tmp_path / "b.linkseek-tmp").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "other").touch()
    link_tree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "f").stat().st_ino == (tmp_path / "a" / "f").stat().st_ino

    def impossible(source: str, target: str) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", impossible)
    link_tree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "f").stat().st_ino != (tmp_path / "a" / "f").stat().st_ino
    assert files(tmp_path / "b") == {"f": b"content"}
    assert names(tmp_path) == ["a", "b"]


# --- the place -----------------------------------------------------------------------------------


def test_a_folder_that_is_no_index_is_never_replaced(tmp_path):
    place = tmp_path / "thesis"
    place.mkdir()
    (place / "chapter-1.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"is not an index \(it contains chapter-1\.txt\)"):
        publish(place, "content")
    assert files(place) == {"chapter-1.txt": b"years of work"}
    with pytest.raises(UsageError, match="is a file"):
        publish(place / "chapter-1.txt", "content")
    assert names(tmp_path) == ["thesis"]


def test_a_file_of_the_user_in_a_folder_named_like_a_part_is_never_deleted(tmp_path):
    index = tmp_path / "index"
    for place in (index / "documents" / "a.md", index / "dense" / "notes" / "b.txt", index / "manifest.json"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text('{"name": "years of work"}')
        with pytest.raises(UsageError, match="is not an index"):
            publish(index, "content")
        assert place.read_text() == '{"name": "years of work"}'
        place.unlink()
    publish(index, "first")
    (index / "documents" / "notes.md").write_text("mine")
    with pytest.raises(UsageError, match=r"it contains documents/notes\.md"):
        publish(index, "second")
    assert (index / "documents" / "notes.md").read_text() == "mine"


def test_a_file_that_appears_during_the_build_is_kept(tmp_path):
    index = tmp_path / "index"
    publish(index, "first")
    with pytest.raises(UsageError, match="late"), Workspace(index) as workspace:
        workspace.part(PartManifest, "documents", {"is": "second"}, filling("second"))
        (index / "late").write_text("mine")
        workspace.publish(index_manifest(["documents"]))
    assert (index / "late").read_text() == "mine"
    (index / "late").unlink()
    publish(index, "second")
    assert names(tmp_path) == ["index"]


@pytest.mark.parametrize("damaged", ["manifest.json", "documents/manifest.json", None])
def test_an_empty_folder_and_a_damaged_index_may_be_replaced(tmp_path, damaged):
    (tmp_path / "index").mkdir()
    publish(tmp_path / "index", "first")
    if damaged:
        (tmp_path / "index" / damaged).write_text("{")
    else:
        (tmp_path / "index" / "manifest.json").unlink()
    publish(tmp_path / "index", "second")
    assert read_index_manifest(tmp_path / "index").to_json()["made_of"] == "second"


def test_a_mount_point_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "index").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path / "index")
    with pytest.raises(UsageError, match="is a mount point"), Workspace(tmp_path / "index"):
        raise AssertionError


@pytest.mark.parametrize("place", [".", "..", "/", "x/.."])
def test_a_place_without_a_name_is_refused(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="not the name of a folder"):
        Workspace(Path(place))


@pytest.mark.parametrize(
    ("path", "problem", "hint"),
    [
        ("index/sampel", "no index here", "Did you mean index/sample? To build one: "),
        ("index/nope", "no index here", "There are: index/sample, index/wiki. To build one: "),
        ("wiki", "no index here", "Did you mean index/wiki? To build one: "),
        ("pages", "not an index (it contains 1 .md)", "linkseek build --corpus pages --index index/pages"),
        ("a.jsonl", "a file, but an index is a folder", "linkseek build --corpus a.jsonl --index index/a"),
        (".", "not an index (it contains 3 .json, 1 .jsonl, 1 .md)", "--corpus . --index ../index/"),
        ("empty", "not an index (it contains nothing)", "linkseek build --corpus FILE --index empty"),
    ],
)
def test_what_is_no_index_is_told_from_a_damaged_one(tmp_path, monkeypatch, path, problem, hint):
    monkeypatch.chdir(tmp_path)
    indexes = [f"index/{name}/links" for name in ("wiki", "sample", "x.linkseek-building")]
    for folder in (*indexes, "pages", "empty"):
        Path(folder).mkdir(parents=True)
    for file in (*(f"{index}/manifest.json" for index in indexes), "pages/a.md", "a.jsonl"):
        Path(file).touch()
    with pytest.raises(NoIndexError) as caught:
        read_index_manifest(Path(path))
    assert caught.value.message == f"{path}: {problem}"
    assert hint in caught.value.hint
    with pytest.raises(DamagedIndexError, match=r"manifest\.json: missing\n  Build the index again"):
        read_index_manifest(Path("index/wiki"))
