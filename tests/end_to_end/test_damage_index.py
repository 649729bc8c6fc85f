"""Damaged indexes, through the commands that search, verify and build: what is wrong, and what to do."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import faiss
import pytest

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.store.artifacts import read_json
from linkseek.retriever.ranking import Query
from linkseek.retriever.search.searchers import Bm25, Dense
from tests.support.accepted import accept, alter, manifest_bytes
from tests.support.command import Done, python
from tests.support.damage import SAMPLE, build, flip, here, kept, search, told
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import built


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The sample with BM25 and the vectors of a fake encoder."""
    index = tmp_path_factory.mktemp("damage") / "index"
    return built(index, SAMPLE, encoders=["fake"], reading=Choices(limit=60)).path


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "index"))


def verify(index: Path) -> Done:
    return here("build", "--verify", "--index", index)


# --- manifests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe", "not JSON"),
        ([], "index format None"),
        ({"format_version": "1"}, "index format 1, expected 1"),
        ({"parts": ["documents", "passages", "links", "other"]}, "other/manifest.json: missing"),
        ({"parts": ["../../../etc"]}, '"parts" is missing or damaged'),
        ({"counts": {"documents": 10**30, "passages": -1}}, '"counts" is missing or damaged'),
        ({"default_encoder": "none"}, "the vectors of its default encoder are missing"),
    ],
)
def test_a_manifest_of_nonsense(copy, content, words):
    path = copy / "manifest.json"
    if isinstance(content, dict) and "format_version" not in content:
        alter(path, **content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else manifest_bytes(content))
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


@pytest.mark.parametrize("name", ["dense/fake/index", "manifest.json", "bm25/_0.*", "bm25/seg*"])
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


_HEADS = """
import resource, sys
from pathlib import Path
import numpy as np
from linkseek.indexer.program.errors import DamagedIndexError
from linkseek.indexer.search.faiss_index import open_faiss
from linkseek.indexer.index import OpenIndex

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

before = peak()
for place in sys.argv[1:]:
    index, named = OpenIndex.open(Path(place)), 0
    path = index.path / "dense" / "fake" / "index"
    content = path.read_bytes()
    inner = max(content.find(b"IxFI", 8), 0)
    for at in (*range(130), *range(inner, inner + 45)):
        for bit in (1, 64):
            path.write_bytes(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
            try:
                vectors = open_faiss(path.parent, index.parts["dense/fake"], len(index.passages))
                vectors.search(np.ones((2, 8), np.float32), 5)
            except DamagedIndexError as error:
                assert str(path) in error.message, error
                named += 1
    print(named)
print(peak() - before)
"""


@pytest.mark.timeout(120)
def test_a_byte_of_a_faiss_head_is_named_and_costs_neither_time_nor_memory(tmp_path):
    """Any bit of the head, and of the head of the vectors within: FAISS would allocate what it says."""
    if not hasattr(faiss, "set_deserialization_vector_byte_limit"):
        pytest.skip("this FAISS has no limit on what it reads")
    for factory in ("Flat", "HNSW8", "IVF4,SQfp16"):
        plan = {"bm25": False, "encoders": ["fake"], "reading": Choices(limit=10), "faiss": factory}
        built(tmp_path / factory, SAMPLE, FakeEncoder("fake", dimension=8), **plan)
    done = python("-c", _HEADS, *tmp_path.iterdir())
    assert done.returncode == 0, done.stderr[-2000:]
    *named, megabytes = map(int, done.stdout.split())
    assert len(named) == 3 and min(named) > 50 and megabytes < 200


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
    for _ in range(60):
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
    assert 6 < named < 60


# --- builds --------------------------------------------------------------------------------------


def test_a_damaged_index_is_built_again(copy):
    """Whatever is wrong with it; what is whole is taken over."""
    (copy / "manifest.json").write_text("nonsense")
    (copy / "links" / "target.npy").write_bytes(b"cut")
    assert "documents 60" in kept(build("--corpus", SAMPLE, "--index", copy, "--limit", 60))
    assert "every file is intact" in kept(verify(copy))


def test_altered_vectors_in_use_are_no_source_for_another_index(copy):
    """Another type of index takes the vectors out of the one in use, if that is whole."""
    before = OpenIndex.open(copy).dense().manifest.vectors_sha256
    flip(copy / "dense" / "fake" / "index", -3)
    encoder = FakeEncoder("fake")
    built(copy, SAMPLE, encoder, bm25=False, encoders=["fake"], reading=Choices(limit=60), faiss="HNSW8")
    assert encoder.batches  # encoded again
    assert OpenIndex.open(copy).dense().manifest.vectors_sha256 == before
