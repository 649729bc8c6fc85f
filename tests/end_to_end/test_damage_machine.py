"""A machine that lacks something, such as disk space or permission: what is told, and what is kept."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from linkseek.indexer.building import stages
from linkseek.indexer.building.workspace import Workspace
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import InputError, MachineError, exit_on_error
from linkseek.indexer.readers.choices import Choices
from linkseek.indexer.store import manifest_files
from tests.support.command import ROOT, Done, python, run_forked
from tests.support.damage import SAMPLE, WITHOUT_SEARCH, build, here, kept, search, told, without_privileges
from tests.support.tiny.corpus import linked_rows, write_jsonl
from tests.support.tiny.encoder import FakeEncoder
from tests.support.tiny.index import built

BUILD = ROOT / "indexer" / "build.py"
MOUNT_READ_ONLY = 32 | 1  # MS_REMOUNT | MS_RDONLY


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB, in memory; skips where the user may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=8m") != 0:
        pytest.skip(f"a small disk cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    yield folder
    libc.umount2(os.fsencode(folder), 2)


# --- disk space ----------------------------------------------------------------------------------


STAGES = {
    "documents": ["No space left", "it resumes"],
    "passages": ["No space left", "it resumes"],
    "links": ["i.linkseek-building", "it resumes"],
    "bm25": ["Lucene could not write the index", "Free some space"],
    "vectors/fake": ["i.linkseek-building", "it resumes"],
    "dense/fake": ["dense/fake/index: FAISS cannot write it", "it resumes"],
    "publishing": ["i.linkseek-building", "it resumes"],
}


def fill(folder: Path) -> None:
    """Take all the space that is left."""
    with (folder / "taken").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)


def build_all(index: Path, factory: str = "Flat", encoders: Sequence[str] = ("fake",)) -> None:
    with exit_on_error("build"):
        built(index, SAMPLE, encoders=encoders, reading=Choices(limit=20), faiss=factory)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    """The same index from a disk with space."""
    index = tmp_path_factory.mktemp("whole") / "i"
    build_all(index)
    return OpenIndex.open(index)


@pytest.mark.parametrize(
    ("stage", "factory"),
    [*((name, "Flat") for name in STAGES), ("dense/fake", "HNSW8"), ("dense/fake", "compact")],
)
def test_a_disk_that_is_full_at_a_stage(disk, whole, stage, factory, monkeypatch, capsys):
    """Nothing is left of the space when the stage begins; nothing that was finished is lost."""
    part, write, write_faiss = Workspace.part, manifest_files.write_json, stages.build_faiss

    def fill_alone(*others):
        while not all((disk / "i.linkseek-building" / other / "manifest.json").exists() for other in others):
            time.sleep(0.01)  # stages overlap
        fill(disk)

    def part_when_full(self, kind, name, fingerprint, build, **options):
        def build_when_full(folder):
            if name == stage != "dense/fake":  # in which the vectors are made
                before = {"bm25": ["links"], "links": ["bm25"], "vectors/fake": ["links", "bm25"]}
                fill_alone(*before.get(name, []))
            return build(folder)

        return part(self, kind, name, fingerprint, build_when_full, **options)

    def write_faiss_when_full(*details):
        if stage == "dense/fake":
            fill_alone("links", "bm25")
        return write_faiss(*details)

    def write_when_full(path, value):
        if stage == "publishing" and "parts" in value:
            fill(disk)
        write(path, value)

    with monkeypatch.context() as patched, pytest.raises(SystemExit) as ended:
        patched.setattr(Workspace, "part", part_when_full)
        patched.setattr(stages, "build_faiss", write_faiss_when_full)
        patched.setattr(manifest_files, "write_json", write_when_full)
        build_all(disk / "i", factory, [] if stage == "bm25" else ["fake"])
    words = ["No space left", "dense/fake/index", "it resumes"] if factory == "compact" else STAGES[stage]
    told(Done([], ended.value.code, "", capsys.readouterr().err), MachineError, *words)
    assert not (disk / "i").exists()
    finished = {path.parent.name for path in (disk / "i.linkseek-building").rglob("manifest.json")}
    before = {"documents": set(), "passages": {"documents"}}.get(stage, {"documents", "passages"})
    assert finished >= (before | {"links", "bm25", "fake"} if stage == "publishing" else before)
    (disk / "taken").unlink()
    build_all(disk / "i", factory)
    assert capsys.readouterr().err.count("reused") >= len(finished - {"fake"})
    built = OpenIndex.open(disk / "i")
    built.verify()
    assert built.manifest.counts == whole.manifest.counts
    assert built.dense().manifest.vectors_sha256 == whole.dense().manifest.vectors_sha256


def test_a_full_disk_while_recall_is_written_leaves_the_manifest_as_it_was(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "linkseek.retriever.models.biencoder.open_biencoder", lambda location: FakeEncoder("fake")
    )
    questions = tmp_path / "questions.tsv"
    questions.write_text("1\twho was first\n2\twhat is it\n")
    build_all(disk / "i", "compact")
    manifest = disk / "i" / "dense" / "fake" / "manifest.json"
    before = manifest.read_bytes()
    fill(disk)
    command = ("recall", "--index", disk / "i", "--queries", questions)
    told(here(*command), MachineError, "Free some space")
    assert manifest.read_bytes() == before
    OpenIndex.open(disk / "i").verify()
    (disk / "taken").unlink()
    kept(here(*command))
    assert OpenIndex.open(disk / "i").dense().manifest.recall


_LIMITED = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
runpy.run_module("linkseek", run_name="__main__", alter_sys=True)
"""


def test_a_limit_on_the_size_of_files(tmp_path):
    """Where no disk can be mounted: the system refuses to write beyond a size, as a quota does."""
    corpus = write_jsonl(tmp_path / "c.jsonl", linked_rows(2000))
    options = ["--corpus", corpus, "--index", tmp_path / "i"]
    done = run_forked(["-c", _LIMITED, "build", *WITHOUT_SEARCH, *options])
    told(done, MachineError, "File too large", "ulimit")
    kept(build(*options))


# --- permission ----------------------------------------------------------------------------------


def as_everybody(*arguments: object) -> Done:
    command = [sys.executable, BUILD, *map(str, (*WITHOUT_SEARCH, *arguments))]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=without_privileges)


def test_a_folder_without_permission(tmp_path):
    folder = tmp_path / "readonly"
    folder.mkdir()
    folder.chmod(0o555)
    done = as_everybody("--corpus", SAMPLE, "--index", folder / "i")
    told(done, MachineError, f"Permission denied: '{folder}/i.linkseek-lock'", "No permission")
    assert list(folder.iterdir()) == []


def test_a_corpus_without_permission(tmp_path):
    corpus = write_jsonl(tmp_path / "c.jsonl", linked_rows(3))
    corpus.chmod(0)
    told(
        as_everybody("--corpus", corpus, "--index", tmp_path / "i"),
        MachineError,
        str(corpus),
        "No permission",
    )
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\ntext")
    (folder / "b.md").write_text("# B\n\ntext")
    (folder / "b.md").chmod(0)
    options = ["--corpus", folder, "--index", tmp_path / "i"]
    told(as_everybody(*options), InputError, f"{folder}/b.md: Permission denied", "--on-error skip")
    assert "skipped: 1 " in kept(as_everybody(*options, "--on-error", "skip"))


def test_a_read_only_file_system(disk, tmp_path):
    """Nothing can be built there, and what is there can be searched."""
    kept(build("--corpus", SAMPLE, "--index", disk / "i", "--limit", 20))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(None, os.fsencode(disk), None, MOUNT_READ_ONLY, None) == 0
    told(
        build("--corpus", SAMPLE, "--index", disk / "new"), MachineError, "Read-only file system", "read-only"
    )
    told(build("--corpus", SAMPLE, "--index", disk / "i"), MachineError, "Read-only file system")
    done = search("--index", disk / "i", "--pipelines")
    assert (done.returncode, done.stderr) == (0, "")
    OpenIndex.open(disk / "i").verify()


# --- memory, disks that fail, terminals ----------------------------------------------------------


def test_a_terminal_without_the_characters_of_a_text(tmp_path):
    """Question marks stand for them."""
    corpus = write_jsonl(tmp_path / "東京.jsonl", [{"id": "東", "title": "東京", "text": "t", "links": []}])
    words = [*WITHOUT_SEARCH, "--corpus", corpus, "--index", tmp_path / "索"]
    assert "/? is ready" in kept(python(BUILD, *words, PYTHONIOENCODING="latin-1", PYTHONUTF8="0"))
    assert OpenIndex.open(tmp_path / "索").documents[0].title == "東京"
