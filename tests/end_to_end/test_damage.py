"""Bad input, through the commands that people type: what is wrong, where, what to do, and the exit code."""

from __future__ import annotations

import bz2
import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ROOT, WITH_TESTS, Done, run
from tiny_corpus import linked_rows, write_jsonl

from indexer.errors import DamagedIndexError, InputError, MachineError, MismatchError, UsageError
from indexer.index import Index

SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"


def build(*arguments: object, **options) -> Done:
    return run("indexer/build.py", "--no-bm25", "--no-dense", "--processes", 1, *arguments, **options)


def told(done: Done, kind: type, *words: str) -> None:
    """The command ended with the exit code of `kind`, and its message holds all these words."""
    assert done.returncode == kind.exit_code, done.stderr
    assert "Traceback" not in done.stderr
    message = done.stderr[done.stderr.index("error: ") :]
    assert all(word in message for word in words), message
    assert len(message.strip().splitlines()) == 2, message  # what is wrong, and what to do


# --- the corpus ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.001, 0.3, 0.99])
def test_a_truncated_bz2(tmp_path, fraction):
    content = SAMPLE.read_bytes()
    path = tmp_path / "cut.xml.bz2"
    path.write_bytes(content[: int(len(content) * fraction)])
    options = ["--corpus", path, "--index", tmp_path / "i", "--format", "mediawiki"]
    told(build(*options), InputError, f"{path}: the file is cut off", "at byte", "--on-error skip")
    assert not (tmp_path / "i").exists()


def test_a_truncated_bz2_of_several_streams_is_kept_as_far_as_it_is_whole(tmp_path):
    pages = bz2.decompress(SAMPLE.read_bytes())
    middle = len(pages) // 2
    path = tmp_path / "cut.xml.bz2"
    path.write_bytes(bz2.compress(pages[:middle]) + bz2.compress(pages[middle:])[:-10])
    told(build("--corpus", path, "--index", tmp_path / "i"), InputError, "the file is cut off")
    done = build("--corpus", path, "--index", tmp_path / "i", "--on-error", "skip")
    assert done.returncode == 0, done.stderr
    assert "skipped: 1 rest of a damaged file" in done.stdout
    assert 10 < len(Index.open(tmp_path / "i").documents) < 60


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "x", "text": ', ["line 3: not JSON"]),
        ('{"id": "x", "title": "T"}', ["line 3: ", 'the field "text" is missing', "id, title"]),
        ('{"id": "a", "text": "again"}', ["line 3: duplicate id 'a'", "keep the first"]),
        ('{"id": "x", "text": 3.5}', ['line 3: "text" is float, expected text']),
        ('{"id": "x", "text": "t", "metadata": "m"}', ['line 3: "metadata" is str, expected an object']),
        (
            '{"id": "x", "text": "t", "links": [{"start": 0, "end": 9, "target": "a"}]}',
            ["line 3: ", "outside"],
        ),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(tmp_path, line, words):
    path = tmp_path / "c.jsonl"
    path.write_text(f'{{"id": "a", "text": "t", "links": []}}\n{{"id": "b", "text": "t"}}\n{line}\n')
    options = ["--corpus", path, "--index", tmp_path / "i"]
    told(build(*options), InputError, str(path), *words, "--on-error skip")
    done = build(*options, "--on-error", "skip")
    assert done.returncode == 0 and "skipped: 1 " in done.stdout
    assert len(Index.open(tmp_path / "i").documents) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["the file is empty"]),
        (b"\n\n", ["Name its format with --format"]),
        (b"\0\1\2\3" * 100, ["unknown format", "--format"]),
        (bz2.compress(b""), ["the file is empty"]),
        (
            b'{"id": "a", "text": "  ", "links": []}',
            ["none of its 1 documents has any text", "nothing to search"],
        ),
    ],
)
def test_an_empty_corpus(tmp_path, content, words):
    (tmp_path / "c").write_bytes(content)
    told(
        build("--corpus", tmp_path / "c", "--index", tmp_path / "i"), InputError, str(tmp_path / "c"), *words
    )


# --- the index -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The sample with BM25 and the vectors of a fake encoder."""
    index = tmp_path_factory.mktemp("damage") / "index"
    script = f"""
from pathlib import Path
from fake_encoder import FakeEncoder
from indexer.builder import Plan, build_index
plan = Plan(Path({str(SAMPLE)!r}), encoders=["fake"], processes=1)
build_index(Path({str(index)!r}), plan, lambda n, t: FakeEncoder(n))
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, env=WITH_TESTS)
    return index


@pytest.fixture
def copy(built, tmp_path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "index"))


def search(*arguments: object) -> Done:
    return run("app/search.py", *arguments)


def test_no_index(tmp_path):
    path = tmp_path / "none"
    told(
        search("--index", path, "q"), DamagedIndexError, f"{path}: no index here", "indexer/build.py --index"
    )
    (tmp_path / "empty").mkdir()
    told(search("--index", tmp_path / "empty", "q"), DamagedIndexError, "manifest.json: missing")


def test_an_empty_question(built):
    for question in ("", "   "):
        told(search("--index", built, question), UsageError, "question is empty", "Ask something")
    told(search("--index", built), UsageError, "the question is missing", "For example")


def test_more_results_than_passages_are_all_that_there_are(built):
    done = search("--index", built, "--pipeline", "bm25", "-k", 1000, "--json", "the planet Mercury")
    assert done.returncode == 0, done.stderr
    assert 1 <= done.stdout.count('"passage_id"') <= len(Index.open(built).passages)
    done = search("--index", built, "-k", 0, "x")
    assert done.returncode == UsageError.exit_code and "-k" in done.stderr


@pytest.mark.parametrize("name", ["dense/fake/index", "passages/00000.arrow", "bm25/_*"])
def test_an_altered_file_is_found_by_verifying(copy, name):
    path = max(copy.glob(name), key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    done = run("indexer/build.py", "--verify", "--index", copy)
    told(done, DamagedIndexError, f"{path}: altered", f"Remove the folder {path.parent}")


@pytest.mark.parametrize(
    "name", ["dense/fake/index", "passages/00000.arrow", "manifest.json", "links/target.npy"]
)
def test_a_truncated_file_is_found_when_searching(copy, name):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    told(search("--index", copy, "q"), DamagedIndexError, str(copy / name), "uild")


def test_an_altered_shard_of_an_interrupted_build_is_made_again(tmp_path):
    """Killed by hand: the driver is told to stop, one of its shards is altered, and it goes on."""
    driver = Path(__file__).with_name("driver.py")
    corpus = write_jsonl(tmp_path / "c.jsonl", linked_rows(120))
    process = subprocess.Popen([sys.executable, driver, corpus, tmp_path / "i", "0.02"], env=WITH_TESTS)
    shard = tmp_path / "i.building" / "vectors" / "encoder" / "00001.npy"
    while not shard.with_suffix(".json").exists():
        assert process.poll() is None
    process.kill()
    process.wait()
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = subprocess.run(
        [sys.executable, driver, corpus, tmp_path / "i", "0"],
        capture_output=True,
        text=True,
        check=True,
        env=WITH_TESTS,
    )
    assert "1 of " in done.stderr and "shards are there" in done.stderr
    whole = subprocess.run(
        [sys.executable, driver, corpus, tmp_path / "whole", "0"], capture_output=True, env=WITH_TESTS
    )
    assert whole.returncode == 0
    vectors = [Index.open(tmp_path / name).dense().manifest["vectors_sha256"] for name in ("i", "whole")]
    assert vectors[0] == vectors[1]


# --- the encoder ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_unknown_encoder(tmp_path):
    for name, words in (
        ("no-such-encoder", ["encoder no-such-encoder", "all-MiniLM-L6-v2"]),
        ("./nowhere", ["encoder ./nowhere: no such folder", "Check the path"]),
    ):
        done = run("indexer/build.py", "--no-bm25", "--index", tmp_path / "i", "--encoder", name)
        told(done, InputError, *words)
    assert not (tmp_path / "i").exists()


@pytest.mark.slow
def test_a_query_encoder_that_is_not_the_indexs(copy):
    """The vectors claim to be of the default encoder, whose hash is another."""
    manifest = copy / "dense" / "fake" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"location": "fake"', '"location": "all-MiniLM-L6-v2"'))
    done = search("--index", copy, "--pipeline", "dense", "question")
    told(done, MismatchError, "made by the encoder fake", "is all-MiniLM-L6-v2", "--encoder NAME")


# --- the machine ---------------------------------------------------------------------------------


def test_a_read_only_folder(tmp_path):
    folder = tmp_path / "readonly"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write everywhere")
    done = build("--corpus", SAMPLE, "--index", folder / "i")
    told(done, MachineError, str(folder), "No permission")


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=400k") != 0:
        pytest.skip(f"a small disk cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    yield folder
    libc.umount2(os.fsencode(folder), 2)


@pytest.mark.parametrize("already", [100, 280, 286, 292, 300, 340, 398])
def test_a_full_disk_is_told_and_the_build_goes_on_when_there_is_space(small_disk, tmp_path, already):
    """Full at different stages, by kB that are taken already."""
    options = ["--corpus", SAMPLE, "--index", small_disk / "i", "--limit", 20]
    (small_disk / "taken").write_bytes(b"x" * already * 1000)
    done = build(*options)
    if already > 100:
        told(done, MachineError, "Free some space")
    else:
        assert done.returncode == 0, done.stderr
    (small_disk / "taken").unlink()
    done = build(*options)
    assert done.returncode == 0, done.stderr
    Index.open(small_disk / "i").verify()


def test_a_full_disk_while_vectors_are_written(small_disk):
    """First by the shards, then by FAISS, which says so in its own way."""
    script = f"""
import sys
from pathlib import Path
from fake_encoder import FakeEncoder
from indexer.builder import Plan, build_index
from indexer.errors import exit_on_error
plan = Plan(Path({str(SAMPLE)!r}), bm25=False, encoders=["fake"], processes=1, limit=20, faiss=sys.argv[1])
encoder = FakeEncoder(dimension=int(sys.argv[2]), shard_rows=1000)
with exit_on_error("build"):
    build_index(Path({str(small_disk / "i")!r}), plan, lambda name, title: encoder)
"""

    def build_dense(factory: str, dimension: int) -> Done:
        command = [sys.executable, "-c", script, factory, str(dimension)]
        return subprocess.run(command, capture_output=True, text=True, env=WITH_TESTS)

    told(build_dense("Flat", 4096), MachineError, "Free some space", "goes on from here")
    told(build_dense("Flat", 1000), MachineError, "FAISS cannot write it", "goes on from here")
    told(build_dense("HNSW32", 700), MachineError, "FAISS cannot write it", "goes on from here")
    done = build_dense("Flat", 256)
    assert done.returncode == 0, done.stderr
    Index.open(small_disk / "i").verify()


def test_a_limit_on_the_size_of_files(tmp_path):
    """Where no disk can be mounted: the system refuses to write beyond a size, as a quota does."""
    corpus = write_jsonl(tmp_path / "c.jsonl", linked_rows(2000))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [sys.executable, ROOT / "indexer" / "build.py", "--corpus", corpus, "--index", tmp_path / "i",
         "--no-bm25", "--no-dense"],
        capture_output=True, text=True, preexec_fn=limited,
    )  # fmt: skip
    told(done, MachineError, "File too large", "ulimit")
    assert build("--corpus", corpus, "--index", tmp_path / "i").returncode == 0
