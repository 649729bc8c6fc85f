"""Damaged indexes, through the commands that search, verify and build: what is wrong, and what to do."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import faiss
import pytest

from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import (
    DamagedIndexError,
    UsageError,
)
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.store.artifacts import read_json
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25, Dense
from tests.support.accepted import accept, alter, manifest_bytes
from tests.support.command import WITH_TESTS, Done
from tests.support.damage import SAMPLE, flip, here, search, told
from tests.support.fake_encoder import FakeEncoder


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The sample with BM25 and the vectors of a fake encoder."""
    index = tmp_path_factory.mktemp("damage") / "index"
    plan = BuildPlan(SAMPLE, encoders=["fake"], processes=1, reading=Choices(limit=60))
    build_index(index, plan, lambda name, title: FakeEncoder(name))
    return index


@pytest.fixture
def copy(built, tmp_path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "index"))


def verify(index: Path) -> Done:
    return here("build", "--verify", "--index", index)


# --- what is asked -------------------------------------------------------------------------------


def test_a_question_of_100_000_characters(built, tmp_path):
    """Too long to be typed; a file of questions may hold it."""
    question = ("marathon " * 12_000)[:100_000] + "!"
    told(search("--index", built, question), UsageError, "has 100,001 characters", "At most 10,000")
    (tmp_path / "q.tsv").write_text(f"1\t{question}\n2\t{'x' * 100_000}\n")
    options = ["--queries", tmp_path / "q.tsv", "--qrels", tmp_path / "qrels", "--depth", 1000]
    (tmp_path / "qrels").write_text("1 0 Abebe_Bikila 1\n2 0 Abebe_Bikila 1\n")
    done = here("evaluate", "--index", built, *options, "--pipeline", "bm25", "--output", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "o" / "results.json").read_text())
    assert results["pipelines"]["bm25"]["measures"]["R@100"]["per_query"] == {"1": 1.0, "2": 0.0}


# --- manifests -----------------------------------------------------------------------------------


NONSENSE: list[tuple[Any, str]] = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    ([], "index format None"),
    ({}, "index format None"),
    ({"format_version": -(10**18)}, "index format -1000000000000000000"),
    ({"format_version": "1"}, "index format 1, expected 1"),
    ({"format_version": 1}, '"parts" is missing or damaged'),
    ({"parts": []}, "the part documents is missing"),
    ({"parts": ["documents", "passages"]}, "the part links is missing"),
    ({"parts": ["documents", "passages", "links", "other"]}, "other/manifest.json: missing"),
    ({"parts": ["../../../etc"]}, '"parts" is missing or damaged'),
    ({"counts": None}, '"counts" is missing or damaged'),
    ({"counts": {"documents": 10**30, "passages": -1}}, '"counts" is missing or damaged'),
    ({"default_encoder": "none"}, "the vectors of its default encoder are missing"),
]


@pytest.mark.parametrize(("content", "words"), NONSENSE, ids=[words for _, words in NONSENSE])
def test_a_manifest_of_nonsense(copy, content, words):
    path = copy / "manifest.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict) and content and "format_version" not in content:
        alter(path, **content)
    else:
        path.write_bytes(manifest_bytes(content))
    told(search("--index", copy, "q"), DamagedIndexError, str(copy), words, "uild")


@pytest.mark.timeout(60)
def test_a_manifest_cannot_lead_out_of_its_index(copy, tmp_path):
    """To a pipe, which would never end if it were opened."""
    os.mkfifo(tmp_path / "pipe")
    manifest = copy / "links" / "manifest.json"
    whole = read_json(manifest)
    for name in ("../../pipe", str(tmp_path / "pipe"), "../../../../etc/passwd", "a/../../../pipe"):
        files = whole["files"] | {name: {"bytes": 0, "sha256": ""}}
        alter(manifest, files=files)
        for command in (search("--index", copy, "q"), verify(copy)):
            told(command, DamagedIndexError, f'{manifest}: "files" is missing or damaged')
    (copy / "links" / "extra").symlink_to(tmp_path / "pipe")
    alter(manifest, files=whole["files"] | {"extra": {"bytes": 0, "sha256": ""}})
    told(verify(copy), DamagedIndexError, "extra: 0 bytes, expected 0")


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dense/fake/index", "passages/00000.arrow", "bm25/_*", "links/target.npy"])
def test_an_altered_file_is_found_by_verifying(copy, name):
    path = max(copy.glob(name), key=lambda path: path.stat().st_size)
    flip(path, path.stat().st_size // 2)
    told(verify(copy), DamagedIndexError, f"{path}: altered", f"Remove the folder {path.parent}")


@pytest.mark.parametrize(
    "name",
    [
        "dense/fake/index",
        "passages/00000.arrow",
        "manifest.json",
        "links/target.npy",
        "bm25/_0.*",
        "bm25/seg*",
    ],
)
@pytest.mark.parametrize("how", ["cut", "gone"])
def test_a_truncated_or_missing_file_is_found_when_searching(copy, name, how):
    path = min(copy.glob(name))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2]) if how == "cut" else path.unlink()
    told(search("--index", copy, "q"), DamagedIndexError, str(path), "uild")


def test_a_lucene_file_of_the_right_size_that_holds_nonsense(copy):
    refused = 0
    for path in sorted((copy / "bm25").iterdir()):
        if path.name in ("manifest.json", "write.lock"):
            continue
        content = path.read_bytes()
        path.write_bytes(b"x" * len(content))
        accept(path)
        done = search("--index", copy, "--pipeline", "bm25", "planet")
        if done.returncode:  # some files are not read by every search
            told(
                done, DamagedIndexError, f"{copy / 'bm25'}: Lucene cannot read it (", "Build the index again"
            )
            assert "\tat " not in done.stderr
            refused += 1
        path.write_bytes(content)
        accept(path)
    assert refused >= 3


@pytest.mark.timeout(120)
@pytest.mark.parametrize("factory", ["Flat", "HNSW8", "IVF4,SQfp16"])
def test_a_byte_of_a_faiss_head_is_named_and_costs_neither_time_nor_memory(tmp_path, factory):
    """Any bit of the head, and of the head of the vectors within: FAISS would allocate what it says."""
    if not hasattr(faiss, "set_deserialization_vector_byte_limit"):
        pytest.skip("this FAISS has no limit on what it reads")
    index, plan = (
        tmp_path / "index",
        BuildPlan(SAMPLE, bm25=False, encoders=["fake"], reading=Choices(limit=10), faiss=factory),
    )
    build_index(index, plan, lambda name, title: FakeEncoder(name, dimension=8))
    path = index / "dense" / "fake" / "index"
    content = path.read_bytes()
    inner = content.find(b"IxFI", 8) if factory == "HNSW8" else 0
    places = [*range(130), *range(inner, inner + 45)]
    program = f"""
import resource, sys
from pathlib import Path
import numpy as np
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.search.faiss_index import open_faiss
from linkseek.indexer.index import OpenIndex
index = OpenIndex.open({str(index)!r})
manifest, passages = index.parts["dense/fake"], len(index.passages)
path, places = Path({str(path)!r}), {places}
content = path.read_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
named = 0
for place in places:
    for bit in (1, 64):
        path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
        try:
            open_faiss(path.parent, manifest, passages).search(np.ones((2, 8), np.float32), 5)
        except DamagedIndexError as error:
            assert str(path) in error.message, error
            named += 1
print(named, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=WITH_TESTS)
    assert done.returncode == 0, done.stderr[-2000:]
    named, megabytes = map(int, done.stdout.split())
    assert named > 50 and megabytes < 200


def use(index: Path) -> None:
    """Read of everything, as searches and evaluations do."""
    opened = OpenIndex.open(index)
    queries = [Query("1", "the planet Mercury"), Query("2", "gold of the Inca")]
    for searcher in (Bm25(opened), Dense(opened, FakeEncoder("fake"))):
        for row, _ in searcher(queries, 10).results(0):
            assert isinstance(opened.passages[row].text + opened.document_url(row), str)
    assert list(opened.passages) and list(opened.documents)
    opened.lucene().close()


def test_a_flipped_bit_anywhere_is_named_where_it_is_not_passed_over(copy):
    """Of what is stored, only the hashes know everything; but nothing ends in another exception."""
    draw = random.Random(0)
    files = sorted(
        p for p in copy.rglob("*") if p.is_file() and p.name != "manifest.json" and p.stat().st_size
    )
    use(copy)
    named = 0
    for _ in range(100):
        path = draw.choice(files)
        content = bytearray(path.read_bytes())
        at = draw.choice([draw.randrange(len(content)), draw.randrange(min(200, len(content)))])
        content[at] ^= 1 << draw.randrange(8)
        whole = path.read_bytes()
        path.write_bytes(content)
        accept(path)
        try:
            use(copy)
        except DamagedIndexError as error:
            assert str(copy) in error.message, (path, at, error)
            named += 1
        path.write_bytes(whole)
        accept(path)
    assert 10 < named < 100


# --- the encoder ---------------------------------------------------------------------------------
