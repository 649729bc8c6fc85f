"""The records of an index: written again as they were read, damage is named, nothing can be changed."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.program.frozen import FrozenDict, frozen
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.store.artifacts import read_json
from linkseek.indexer.store.manifest_files import OWN_HASH, read_index_manifest, read_parts, write_manifest
from linkseek.indexer.store.manifests import IndexManifest, VectorsPart
from tests.support.accepted import alter, manifest_bytes
from tests.support.tiny.corpus import linked_rows
from tests.support.tiny.index import TINY, built
from tests.support.tiny.manifests import index_manifest, vectors_part


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return built(tmp_path_factory.mktemp("made") / "index", linked_rows(), **TINY).path


@pytest.fixture
def index_of_its_own(made, index_path) -> None:
    shutil.copytree(made, index_path)


def every_manifest(index: Path) -> list[Path]:
    return sorted(path for path in index.rglob("manifest.json") if path.parent.name != "vectors")


@pytest.mark.parametrize(
    "options", [{}, {"faiss": "compact"}, {"min_words": 0, "reading": Choices(min_title=2)}]
)
def test_what_is_read_is_written_again_byte_for_byte(build, index_path, options):
    build(**options)
    whole = read_index_manifest(index_path)
    records = {index_path: whole} | {
        index_path / n: part for n, part in read_parts(index_path, whole).items()
    }
    assert {path / "manifest.json" for path in records} == set(every_manifest(index_path))
    for folder, record in records.items():
        before = (folder / "manifest.json").read_bytes()
        write_manifest(folder, record)
        assert (folder / "manifest.json").read_bytes() == before
        assert list(orjson.loads(before))[-1] == OWN_HASH


@pytest.mark.usefixtures("index_of_its_own")
def test_keys_of_a_newer_version_are_kept(index_path):
    folder = index_path / "dense" / "fake"
    values = read_json(folder / "manifest.json") | {"from_tomorrow": {"a": [1, {"b": None}]}}
    values["encoder"]["from_tomorrow"] = [1.5]
    alter(folder / "manifest.json", **values)
    index = OpenIndex.open(index_path)
    write_manifest(folder, index.parts.dense["fake"].replace(search={"candidates": 5}))
    again = json.loads((folder / "manifest.json").read_bytes())
    assert again == values | {"search": {"candidates": 5}, OWN_HASH: again[OWN_HASH]}


KEYS: dict[str, list[tuple[str, Any]]] = {
    "": [
        ("parts", "documents"),
        ("partitions", ["partitions/00001"]),
        ("counts", {"documents": 1}),
        ("skipped", {"a": 5}),
        ("skipped", {"a": {"count": "x"}}),
        ("skipped", {"a": {"count": 1, "examples": [None]}}),
        ("versions", {"python": 3}),
        ("corpus", {"file": 1}),
        ("text", {"title": "yes"}),
        ("default_encoder", 1),
        ("corpus", {"base_url": "http://[::1"}),
        ("updates", [None]),
        ("created", 0),
    ],
    "documents": [("documents", True), ("content_sha256", None), ("records", -1), ("fingerprint", [])],
    "passages": [("words", "100"), ("words", None), ("passages", 1.5), ("passages", 1 << 63)],
    "links": [
        ("counts", {}),
        ("files", {"../x": {"bytes": 0, "sha256": ""}}),
        ("files", {"x": {"bytes": 1}}),
    ],
    "dense/fake": [
        ("factory", 1),
        ("dimension", None),
        ("encoder", {}),
        ("encoder", {"name": "fake", "sha256": "x", "location": None}),
        ("encoder", {"name": "fake", "sha256": "x", "location": "fake", "query_prompt": ["x"]}),
        ("search", {"candidates": 0}),
        ("search", []),
        ("recall", {"depth": 1}),
        ("codes_at", -1),
        ("execution", "cpu"),
    ],
}


@pytest.mark.parametrize(("part", "key", "value"), [(p, k, v) for p, pairs in KEYS.items() for k, v in pairs])
@pytest.mark.usefixtures("index_of_its_own")
def test_a_damaged_value_is_named_with_file_and_key(index_path, part, key, value):
    path = index_path / part / "manifest.json"
    alter(path, **{key: value})
    with pytest.raises(DamagedIndexError) as raised:
        OpenIndex.open(index_path)
    assert raised.value.message == f'{path}: "{key}" is missing or damaged' and raised.value.hint


@pytest.mark.parametrize("levels", [200, 300, 1000])
@pytest.mark.usefixtures("index_of_its_own")
def test_a_manifest_nested_too_deeply_is_damage(index_path, levels):
    path = index_path / "passages" / "manifest.json"
    deep = b'"deep":' + b'{"a":' * levels + b"1" + b"}" * levels
    whole = b"{" + deep + b"," + path.read_bytes().lstrip()[1:]
    path.write_bytes(manifest_bytes(orjson.loads(whole)) if levels == 200 else whole)
    with pytest.raises(DamagedIndexError, match="nested too deeply"):
        OpenIndex.open(index_path)


def test_nothing_in_a_record_can_be_changed(made):
    index = OpenIndex.open(made)
    records: list[Any] = [index.manifest, index.manifest.counts, *index.parts.values()]
    for record in records:
        with pytest.raises(ValidationError, match="frozen"):
            record.files = {}
    dictionaries: list[Any] = [
        index.parts,
        index.manifest.versions,
        index.manifest.skipped,
        index.parts.documents.files,
        index.parts.passages.fingerprint,
        index.parts.dense["fake"].encoder,
        index.parts.dense["fake"].fingerprint["encoder"],
        index.parts.dense["fake"].search,
    ]
    for values in dictionaries:
        for change in (
            lambda d: d.__setitem__("a", 1),
            lambda d: d.pop("a", None),
            lambda d: d.update(a=1),
            lambda d: d.setdefault("a", 1),
            lambda d: d.clear(),
            lambda d: d.__ior__({"a": 1}),
        ):
            with pytest.raises(TypeError, match="frozen"):
                change(values)
    assert isinstance(index.manifest.parts, tuple) and isinstance(index.manifest.updates, tuple)


def test_frozen_values_are_equal_to_their_json_and_travel_between_processes():
    value = {"a": [1, {"b": [None]}], "c": "x"}
    made = frozen(value)
    assert orjson.loads(orjson.dumps(made)) == value and made["a"] == (1, {"b": (None,)})
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again == made and type(again) is type(again["a"][1]) is FrozenDict
    part = vectors_part("Flat", execution=value)
    assert pickle.loads(pickle.dumps(part)) == part
    assert type(made | {"d": 1}) is dict


def test_values_of_a_replacement_are_checked():
    part = vectors_part("compact")
    assert part.replace(search={"candidates": 7}).search == {"candidates": 7}
    assert (part.search, part.replace(factory="Flat").factory) == ({}, "Flat")
    with pytest.raises(ValidationError):
        part.replace(search={"candidates": "many"})
    with pytest.raises(ValidationError):
        index_manifest(["../x"])
    assert (type(part), type(index_manifest())) == (VectorsPart, IndexManifest)
