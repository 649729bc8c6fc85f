"""An open index: what it finds, what it refuses, and what happens when another takes its place."""

from __future__ import annotations

import errno
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError, MachineError, UsageError
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.store.manifest_files import read_index_manifest, write_manifest
from tests.support.tiny.encoder import FakeEncoder


@pytest.fixture
def index(build, index_path: Path) -> OpenIndex:
    build(encoders=["fake", "org/other"])
    return OpenIndex.open(index_path)


def test_an_index_finds_by_row_by_id_and_by_link(index):
    assert index.passages.ids(index.passages.rows_of(["d3#0", "d0#1"])) == ["d3#0", "d0#1"]
    assert index.documents[index.document_ids.row("d7")].title == "Title 7"
    row = int(index.passages.rows_of(["d3#0"])[0])
    assert index.document_url(row) == "u:3"
    assert len(index.links.to_document(3)) > 0
    assert index.bytes == sum(
        p.stat().st_size
        for p in index.path.rglob("*")
        if p.is_file() and p.name not in ("manifest.json", "building.json")
    )


def test_vectors_are_opened_by_name_path_or_default_once_for_all_threads(index):
    assert index.encoders == ["fake", "other"]
    assert index.dense() is index.dense("fake") is not index.dense("other")
    assert index.dense("org/other") is index.dense("other")
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(index.dense("other"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len({id(dense) for dense in found}) == 1


def test_vectors_are_put_on_a_device_once_for_all_threads(index, monkeypatch):
    asked, both = [], threading.Barrier(2)

    def on_device(vectors, device):
        asked.append((vectors, device))
        if device == "auto":
            both.wait(60)  # vectors on other devices do not wait
        return object()

    monkeypatch.setattr("linkseek.indexer.search.gpu_index.on_device", on_device)
    with ThreadPoolExecutor(8) as pool:
        on_gpu = [pool.submit(index.dense, "fake", "auto") for _ in range(7)]
        assert index.dense("fake", "cuda") is index.dense("fake", "cuda")
        both.wait(60)
        assert len({id(vectors.result(60)) for vectors in on_gpu}) == 1
    vectors = index.dense("fake")
    assert sorted(asked, key=lambda each: each[1]) == [(vectors, "auto"), (vectors, "cuda")]


def test_what_an_index_lacks_is_named_with_the_command_that_adds_it(build, index_path, index):
    with pytest.raises(UsageError, match="no vectors of the encoder fakee") as caught:
        index.dense("fakee")
    assert "Did you mean fake?" in caught.value.hint
    assert f"--index {index_path} --encoder fakee" in caught.value.hint
    with pytest.raises(UsageError, match="no Lucene part"):
        index.lucene()
    build(encoders=[], fresh=True)
    with pytest.raises(UsageError, match="no vectors") as caught:
        OpenIndex.open(index_path).dense()
    assert "--no-dense" in caught.value.hint


def test_a_whole_index_verifies_and_tells_its_bytes(index):
    told: list[float] = []
    index.verify(told.append)
    assert sum(told) == index.bytes


def every_file(index: Path) -> list[Path]:
    return sorted(p for p in index.rglob("*") if p.is_file() and p.name != "manifest.json")


def test_a_flipped_byte_in_any_file_is_found_by_verifying(index):
    for path in every_file(index.path):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(DamagedIndexError, match=f"{path.name}: altered"):
            index.verify()
        path.write_bytes(content)
    index.verify()


@pytest.mark.parametrize("how", ["cut", "longer", "missing"])
def test_a_file_of_another_size_is_found_when_opening(index, how):
    for path in every_file(index.path):
        content = path.read_bytes()
        match how:
            case "cut":
                path.write_bytes(content[:-1])
            case "longer":
                path.write_bytes(content + b"x")
            case "missing":
                path.unlink()
        with pytest.raises(DamagedIndexError, match=path.name):
            OpenIndex.open(index.path)
        path.write_bytes(content)
    OpenIndex.open(index.path)


def test_arrays_and_tables_in_use_of_the_right_size_that_hold_nonsense_are_named(index):
    for path in every_file(index.path):
        if path.suffix not in (".npy", ".arrow") or path.name.startswith("redirects"):
            continue
        content = path.read_bytes()
        path.write_bytes(b"x" * len(content))
        with pytest.raises(DamagedIndexError, match=path.name):
            OpenIndex.open(index.path)
        path.write_bytes(content)


@pytest.mark.parametrize("part", ["documents", "passages", "links"])
def test_a_part_that_the_manifest_lacks_is_named(index, part):
    manifest = read_index_manifest(index.path)
    others = tuple(name for name in manifest.parts if name != part)
    write_manifest(index.path, manifest.replace(parts=others))
    with pytest.raises(DamagedIndexError, match=f"the part {part} is missing"):
        OpenIndex.open(index.path)


def test_counts_that_do_not_agree_are_named(index):
    manifest = read_index_manifest(index.path)
    counts = manifest.counts.replace(passages=manifest.counts.passages + 1)
    write_manifest(index.path, manifest.replace(counts=counts))
    with pytest.raises(DamagedIndexError, match=r"has .*'passages'.* its manifest lists"):
        OpenIndex.open(index.path)


# --- another index in its place ------------------------------------------------------------------


def test_an_open_index_stays_readable_when_another_takes_its_place(build, index, index_path):
    documents, links = list(index.documents), index.links.target.tolist()
    index.dense("fake")
    build(passage_words=5, reading=Choices(limit=20), fresh=True)
    assert len(OpenIndex.open(index_path).documents) == 20
    assert list(index.documents) == documents
    assert index.links.target.tolist() == links
    assert index.passages.rows_of(["d30#0"]).tolist() != [-1]
    rows, _ = index.dense("fake").search(np.ones((1, 32), np.float32), 3)
    assert index.passages[int(rows[0, 0])]


def test_parts_of_another_index_are_never_mixed_in(build, index, index_path):
    build(open_encoder=lambda name, title: FakeEncoder(name, seed=1))
    with pytest.raises(DamagedIndexError, match="a new index has replaced it") as caught:
        index.dense("fake")
    assert "Open it again" in caught.value.hint
    assert index.dense("other")  # taken over: the same
    build(encoders=[], fresh=True)
    with pytest.raises(DamagedIndexError):
        OpenIndex.open(index_path) and index.dense("fake")


def test_opening_while_indexes_change_places_gives_one_or_the_other(build, index_path):
    """Not a mixture: counts and content always agree."""
    build(encoders=[])
    ended = threading.Event()
    found: set[int] = set()
    errors: list[Exception] = []

    def read() -> None:
        while not ended.is_set():
            try:
                index = OpenIndex.open(index_path)
                found.add(len(index.documents))
                assert index.manifest.counts.documents == len(index.documents)
            except Exception as error:
                errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for limit in [20, None] * 8:
        build(encoders=[], reading=Choices(limit=limit), fresh=True)
    ended.set()
    reader.join()
    assert not errors
    assert found == {20, 40}


# --- errors of the machine -----------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.ENOMEM])
def test_an_intact_index_is_not_called_damaged_when_the_machine_fails(index, monkeypatch, number):
    """At any of the files that are opened, one after another."""
    whole, failed = io.open, 0
    opening = {"calls": 0, "fails": -1}

    def count() -> None:
        opening["calls"] += 1
        if opening["calls"] == opening["fails"]:
            raise OSError(number, os.strerror(number))

    def refuse(function: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if str(index.path) in str(arguments[0]):
                count()
            return function(*arguments, **keywords)

        return call

    monkeypatch.setattr(io, "open", refuse(whole))
    monkeypatch.setattr(os, "open", refuse(os.open))
    monkeypatch.setattr(os, "stat", refuse(os.stat))
    OpenIndex.open(index.path)
    calls = opening["calls"]
    assert calls > 20
    for place in range(1, calls + 1):
        opening.update(calls=0, fails=place)
        try:
            OpenIndex.open(index.path)
        except MachineError:
            failed += 1
        except OSError as error:
            assert error.errno == number  # `exit_on_error` explains it
            failed += 1
    assert failed > 20
