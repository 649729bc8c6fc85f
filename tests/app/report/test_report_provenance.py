"""Where results come from: the code's revision, the machine without its name, models, and no home."""

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from linkseek.app.evaluation import provenance as module
from linkseek.app.evaluation.provenance import Revision, machine, revision
from linkseek.indexer.store.manifest_files import Parts
from tests.support.tiny.manifests import COUNTS, index_manifest, parts, vectors_part

RECALL = {
    "recall": {"depth": 100, "questions": 500, "chosen": {"setting": {"candidates": 400}, "recall": 0.9931}}
}
"""As `linkseek recall` writes it into the manifest of vectors."""


def provenance(*arguments):
    """The record as results.json has it."""
    return module.provenance(*arguments).model_dump(mode="json")


def index_at(path, **manifest):
    encoder = {"name": "mini", "sha256": "ccc", "dimension": 384, "max_tokens": 256, "location": "/x/mini"}
    return SimpleNamespace(
        path=path,
        manifest=index_manifest(**manifest),
        parts=parts(mini=vectors_part("compact", encoder=encoder, **RECALL)),
    )


def git(folder, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    found = subprocess.run(
        ["git", "-C", str(folder), *names, *arguments], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "code.py").write_text("a = 1\n")
    git(folder, "add", "code.py")
    git(folder, "commit", "-q", "-m", "first")
    return folder


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
def test_revision_of_a_checkout(checkout):
    commit = git(checkout, "rev-parse", "HEAD")
    assert revision(checkout) == Revision(commit=commit, changed_since=False)
    (checkout / "untracked.txt").write_text("a")
    assert revision(checkout) == Revision(commit=commit, changed_since=False)
    (checkout / "code.py").write_text("a = 2\n")
    assert revision(checkout) == Revision(commit=commit, changed_since=True)


@needs_git
def test_revision_is_that_of_the_code_alone(checkout, monkeypatch, tmp_path):
    inner = checkout / "venv" / "site-packages"
    inner.mkdir(parents=True)
    assert revision(inner) is None  # installed within someone's repository
    assert revision(tmp_path) is None
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    assert revision(other) is None  # no commit yet
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))  # as git sets it for its hooks
    assert revision(checkout).commit


@needs_git
def test_asking_for_the_revision_writes_nothing(checkout):
    before = {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}
    os.utime(checkout / "code.py", ns=(1, 1))  # git would now refresh its index
    before[checkout / "code.py"] = 1
    assert revision(checkout).changed_since is False
    assert {path: path.stat().st_mtime_ns for path in checkout.rglob("*")} == before


def test_without_git(checkout_like, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert revision(checkout_like) is None


@pytest.fixture
def checkout_like(tmp_path):
    (tmp_path / ".git").mkdir()
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_program_that_fails_or_hangs(checkout_like, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    program(tmp_path / "bin", "git", "exit 128")
    assert revision(checkout_like) is None
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    program(tmp_path / "bin", "git", "exec sleep 30")
    assert revision(checkout_like) is None


def test_the_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    program(tmp_path / "bin", "nvidia-smi", "echo 'NVIDIA H200, 143771 MiB'; echo 'NVIDIA H200, 143771 MiB'")
    facts = machine().model_dump()
    assert facts["gpus"] == ["NVIDIA H200, 143771 MiB"] * 2
    assert 1 <= facts["cores"] <= (os.cpu_count() or 1)
    assert facts["memory_gb"] > 0 and facts["processor"]
    assert facts["system"] == f"{platform.system()} {platform.machine()}"
    program(tmp_path / "bin", "nvidia-smi", "echo 'no driver'; exit 9")
    assert "gpus" not in machine().model_dump()


def test_the_record(tmp_path):
    read = tmp_path / "queries.jsonl"
    read.write_text("{}\n")
    counts = COUNTS | {"documents": 3, "passages": 7, "links": 1}
    index = index_at(Path("index/nq"), counts=counts, corpus={"file": "docs.jsonl", "sha256": "eee"})
    found = provenance("linkseek evaluate", ["--limit", "3", "--index", "a b"], index, {"queries": read})
    assert found["command"] == "linkseek evaluate --limit 3 --index 'a b'"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found["date"])
    assert found["versions"]["python"] == platform.python_version() and "numpy" in found["versions"]
    assert found["index"]["path"] == "index/nq"
    assert set(found["index"]["parts_sha256"]) == {"passages", "dense/mini"}
    assert found["corpus"] == {"file": "docs.jsonl", "sha256": "eee", "documents": 3, "passages": 7}
    assert found["models"] == {
        "mini": {
            "sha256": "ccc",
            "dimension": 384,
            "faiss": "compact",
            "recall": "0.9931 of the exact top 100 (400 candidates; 500 questions)",
        }
    }
    digest = hashlib.sha256(b"{}\n").hexdigest()
    assert found["files"] == {"queries": {"path": str(read), "sha256": digest}}


def test_what_is_not_known_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "linkseek")
    index = index_at(Path("i"))
    index.parts = Parts()
    found = provenance("p", [], index, {})
    assert set(found) == {"date", "command", "versions", "machine", "index", "files", "corpus"}
    assert found["files"] == {}


def test_nothing_names_the_person_or_the_host(monkeypatch, tmp_path):
    home = tmp_path / "home" / "jane doe"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (home / "q.tsv").write_text("1\ta\n")
    arguments = ["--index", f"{home}/an index", f"--output={home}/out", "--data", "/data/jane doe/x"]
    found = provenance("p", arguments, index_at(home / "an index"), {"queries": home / "q.tsv"})
    assert found["index"]["path"] == "~/an index"
    assert found["files"]["queries"]["path"] == "~/q.tsv"
    assert str(home) not in str(found) and platform.node() not in str(found["machine"])
    # the command can still be typed: the shell puts the home back
    loop = f'for a in {found["command"]}; do echo "$a"; done'
    shell = subprocess.run(["sh", "-c", loop], capture_output=True, text=True, check=True)
    assert shell.stdout.splitlines() == ["p", *arguments]
    assert shlex.split(found["command"])[0] == "p"


def test_a_home_that_is_the_root_is_no_secret(monkeypatch):
    monkeypatch.setenv("HOME", "/")
    found = provenance("p", ["--index", "/data/i"], index_at(Path("/data/i")), {})
    assert found["command"] == "p --index /data/i" and found["index"]["path"] == "/data/i"
