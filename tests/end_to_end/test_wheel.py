"""The wheel: what is in it, and the demo that it runs in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from command import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", *options, ROOT], check=True)
    [path] = folder.glob("linkseek-*.whl")
    return path


def test_the_wheel_holds_the_packages_and_what_comes_with_them(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    packages = ("app/", "indexer/", "retriever/", "reranker/")
    expected = {name for name in listed.stdout.splitlines() if name.startswith(packages)}
    expected |= {f"linkseek/{p.relative_to(ROOT)}" for p in ROOT.glob("configs/*.toml")}
    expected |= {f"linkseek/{p.relative_to(ROOT)}" for p in ROOT.glob("experiments/*.toml")}
    samples = ("linkseek-sample.xml.bz2", "questions.jsonl", "qrels.txt", "LICENSE")
    expected |= {f"linkseek/samples/{name}" for name in samples}
    assert expected <= names
    others = {name.split("/")[0] for name in names} - {"app", "indexer", "retriever", "reranker", "linkseek"}
    assert len(others) == 1 and others.pop().endswith(".dist-info")


FIRST_VISIT = """
import sys
from pathlib import Path
from linkseek.app.pipelines import Pipelines
from linkseek.indexer.index import Index
pipelines = Pipelines(Index.open(Path("index/sample")))
assert pipelines.first_visit == ("bm25", "dense", "hlp", "best")
for name in pipelines.first_visit:
    pipelines.open(name)
assert "sentence_transformers" not in sys.modules, "a model was converted"
"""


def test_the_demo_runs_from_the_wheel_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    target, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    options = ["--no-deps", "--no-index", "--target", target]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, wheel], check=True)
    own = {"PYTHONPATH": str(target), "COLUMNS": "160", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment = os.environ | own

    def linkseek(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, target / "bin" / "linkseek", *words],
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    words = ("bm25", "dense", "hybrid-weighted", "accuracy@20", "nDCG@10", "report.html")
    printed = linkseek("demo")
    assert all(word in printed for word in words)
    assert {path.name for path in empty.iterdir()} == {"index", "results"}
    opened = subprocess.run([sys.executable, "-c", FIRST_VISIT], cwd=empty, env=environment, check=False)
    assert opened.returncode == 0, "the demo has left a model of the first visit to be converted"
    assert "Mercury" in linkseek("search", "How long does Mercury take to go around the Sun?")
    described = linkseek("evaluate", "--list-test-sets")
    assert "sample" in described
