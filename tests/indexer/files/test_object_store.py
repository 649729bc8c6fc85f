"""Object stores: what is put is got, and what fails says what to do."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from linkseek.indexer.files.object_store import ObjectStore
from linkseek.indexer.program.errors import MachineError, UsageError
from tests.support.command import run


@pytest.mark.parametrize("url", ["memory://linkseek-test/folder", "file://{}/some/folder/"])
def test_what_is_put_is_got_until_it_is_removed(tmp_path: Path, url: str) -> None:
    store, file, copy = ObjectStore(url.format(tmp_path)), tmp_path / "file", tmp_path / "copy"
    assert store.names() == set()
    for content in (b"first", b"second"):
        file.write_bytes(content)
        store.put(file, "a.npy")
        assert store.get("a.npy", copy)
        assert copy.read_bytes() == content
    store.put(file, "b.json")
    assert store.names() == {"a.npy", "b.json"}
    for _ in range(2):
        store.remove("a.npy")
    assert store.names() == {"b.json"}
    assert not store.get("a.npy", copy)


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("folder/of/mine", UsageError, "not the URL of an object store"),
        ("simplecache::s3://bucket", UsageError, "not the URL of an object store"),
        ("s3://key:secret@bucket/folder", UsageError, "has a password"),
        ("nonsense://bucket", UsageError, "Protocol not known"),
        ("file:///proc/linkseek", MachineError, "file:///proc/linkseek: "),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, url: str, error: type[Exception], message: str) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(error, match=message) as caught:
        ObjectStore(url).put(tmp_path / "file", "name")
    assert "secret" not in str(caught.value)


def test_errors_of_the_library_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("Access Denied")

    with monkeypatch.context() as patch:
        patch.setattr(fsspec.get_filesystem_class("memory"), "find", refuse)
        with pytest.raises(MachineError, match="memory://bucket: Access Denied"):
            ObjectStore("memory://bucket").names()

    def lack(*_: object, **__: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lack)
    with pytest.raises(MachineError, match="s3://bucket: Install s3fs to access S3"):
        ObjectStore("s3://bucket").names()


def test_store_without_ray_is_refused(tmp_path: Path) -> None:
    done = run("indexer/build.py", "--index", tmp_path / "index/sample", "--store", "s3://bucket/folder")
    assert done.returncode == 2 and "--store needs --ray" in done.stderr
