"""The wheel and the source distribution: what is in them, and the demo that runs in an empty folder."""

from __future__ import annotations

import bz2
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.support.command import ROOT, python, tracked
from tests.support.wheels import built_wheel, contents

pytestmark = pytest.mark.timeout(900)

PACKAGES = ("app", "indexer", "reranker", "retriever")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    [path] = folder.glob("linkseek-*.tar.gz")
    return path


def test_the_wheel_holds_one_name_with_the_packages_and_what_comes_with_them(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = Counter(file.namelist())
    own = {name for name in tracked("linkseek") if not (ROOT / name).is_symlink()}
    assert {"linkseek/__init__.py", "linkseek/py.typed"} <= own
    samples = ["linkseek-sample.xml.bz2", "questions.jsonl", "qrels.txt", "LICENSE", "README.md"]
    samples += ["two-steps.jsonl", "two-steps.qrels.txt"]
    expected = own | {f"linkseek/{name}" for name in tracked(*PACKAGES, "configs")}
    expected |= {f"linkseek/samples/{name}" for name in samples}
    info = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert set(names) - info == expected and set(names.values()) == {1}
    assert len({name.split("/")[0] for name in info}) == 1
    licences = {name.partition("/licenses/")[2] for name in info if "/licenses/" in name}
    assert licences == {"LICENSE", "LICENSES/CC-BY-SA-4.0.txt", "samples/LICENSE"}


def test_the_source_distribution_makes_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as file:
        names = Counter(member.name.partition("/")[2] for member in file.getmembers())
        file.extractall(tmp_path, filter="data")
    assert set(names.values()) == {1}
    links = {f"linkseek/{package}" for package in PACKAGES}
    files = {name for name in tracked() if not name.startswith(".")} - links
    assert {name for name in names if not name.startswith(".")} == files | {"PKG-INFO"}
    [source] = tmp_path.iterdir()
    assert contents(built_wheel(source, tmp_path)) == contents(wheel)


SCRIPT = """
import linkseek
from pathlib import Path

records = [linkseek.Document("b", "B", "Blue.", (linkseek.Link(0, 1, "b"),))]
linkseek.build(records, "index", "linkseek-static")
rows = [{"id": "Mars", "text": "Red.", "links": [{"start": 0, "end": 3, "target": "b"}]}]
index: linkseek.Index = linkseek.build(rows, Path("index"), encoders=["linkseek-static"], passage_words=20)
hits = index.search({"q": "red"}, k=5, pipeline="bm25")
for passage, score in index.rerank(hits, "answers", depth=2):
    title: str = passage.title
    number: float = score + 1.0
results = index.evaluate([linkseek.Query("q", "red", ("a",))], {"q": {"Mars": 1}}, ["bm25"], output=None)
means: dict[str, float] = {name: score.mean for name, score in results.scores("nDCG@10").items()}
counts: dict[str, int] = index.mine("pairs.jsonl", "hlp", negatives="random")
queries: list[str] = [pair.query for pair in index.pairs()]
queries += [contrast.better.query for contrast in index.contrasts("prop")]
folder: Path = linkseek.train("pairs.jsonl", Path("model"), base="linkseek-static", training={"epochs": 1})
try:
    linkseek.open("nowhere")
except linkseek.LinkseekError as error:
    hint: str = error.hint
"""

WRONG = {
    "index.search(7)": "arg-type",
    "linkseek.open()": "call-arg",
    'index.searches("a")': "attr-defined",
    'linkseek.train("p", "m", stage="other")': "arg-type",
    "linkseek.Nothing": "attr-defined",
    'x: int = index.mine("p")': "assignment",
}


MYPY = """
[mypy]
strict = True
follow_imports = skip
[mypy-linkseek.*,numpy.*]
follow_imports = normal
"""
"""Thousands of other modules have types that no signature of the public names has."""


def test_a_script_is_checked_against_the_types_of_the_installed_package(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    [site] = tmp_path.glob("venv/lib/*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    wrong = "\n".join(WRONG)
    (tmp_path / "right.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(f'import linkseek\nindex = linkseek.open("i")\n{wrong}\n')
    (tmp_path / "mypy.ini").write_text(MYPY)
    options = ["--config-file=mypy.ini", "--python-executable", tmp_path / "venv" / "bin" / "python"]
    done = python("-m", "mypy", *options, "right.py", "wrong.py", cwd=tmp_path)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line.rpartition("[")[2] for line in errors] == [f"{code}]" for code in WRONG.values()], (
        done.stdout
    )
    assert all(line.startswith("wrong.py:") for line in errors)


def shorten_sample(bundled: Path) -> None:
    """Keep 25 pages of the installed sample, Mercury, Venus and answers to some questions among them."""
    content = (ROOT / "samples" / bundled.name).read_bytes()
    assert bundled.read_bytes() == content and ROOT not in bundled.parents
    head, *pages = re.split(r"(?=^  <page>\n)", bz2.decompress(content).decode(), flags=re.M)
    bundled.write_bytes(bz2.compress("".join([head, *pages[-95:-90], *pages[-20:]]).encode()))


FIRST_VISIT = """
import sys
from pathlib import Path
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.index import OpenIndex
pipelines = Pipelines(OpenIndex.open(Path("index/sample")))
assert pipelines.first_visit == ("bm25", "dense", "hlp", "best")
for name in pipelines.first_visit:
    pipelines.open(name)
assert "sentence_transformers" not in sys.modules, "the demo has left a model to be converted"

from linkseek.__main__ import main
main(["search", "How long does Mercury take to go around the Sun?"])
print("TEST SETS")
main(["evaluate", "--list-test-sets"])
"""


def test_the_demo_runs_from_the_wheel_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    target, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    options = ["--no-deps", "--no-index", "--target", target]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, wheel], check=True)
    shorten_sample(target / "linkseek" / "samples" / "linkseek-sample.xml.bz2")
    own = {"PYTHONPATH": str(target), "COLUMNS": "160", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    demo = python(target / "bin" / "linkseek", "demo", cwd=empty, **own)
    assert demo.returncode == 0, demo.stderr
    words = ("bm25", "dense", "hybrid-weighted", "accuracy@20", "nDCG@10", "report.html", "linkseek app")
    assert all(word in demo.stdout for word in (*words, "20 questions", "all@5", "hops"))
    assert {path.name for path in empty.iterdir()} == {"index", "results"}
    opened = python("-c", FIRST_VISIT, cwd=empty, **own)
    assert opened.returncode == 0, opened.stderr
    found, _, sets = opened.stdout.partition("TEST SETS")
    assert "Mercury" in found and "sample" in sets
