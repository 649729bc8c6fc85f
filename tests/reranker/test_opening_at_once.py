"""Models that are opened for the first time in several threads, or by several processes, at the same time.

On an empty cache of converted models. Threads run in a process that has imported no library yet.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import ROOT, Forked
from tiny_models import save_tiny, save_tiny_reranker

IN_THREADS = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

def encode(name):
    at_once.wait()
    from linkseek.retriever.models.biencoder import open_biencoder
    return open_biencoder(name, streams=1).encode_queries(["a question"]).shape

def score(name):
    at_once.wait()
    from linkseek.reranker.models.scoring import open_scorer
    return open_scorer(name).score(["a question"], ["a passage"]).shape

models = list(zip([encode, score] * 2, sys.argv[1:], strict=True))
at_once = threading.Barrier(len(models))
with ThreadPoolExecutor(len(models)) as threads:
    opened = [threads.submit(*model) for model in models]
assert [each.result() for each in opened] == [(1, 32), (1,)] * 2
"""

SCORE = """
import sys
from linkseek.reranker.models.scoring import open_scorer
print(open_scorer(sys.argv[1]).score(["a question"], ["a passage"]).tolist())
print("sentence_transformers" in sys.modules)
"""


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """Of both kinds, in turn; an import and a conversion of small models are those of large ones."""
    kinds = [save_tiny, save_tiny_reranker] * 2
    return [save(tmp_path / f"model{number}", seed=number) for number, save in enumerate(kinds)]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def start(script: str, cache: Path, *models: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, models)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fork(script: str, cache: Path, model: Path) -> Forked:
    return Forked(["-c", script, model], env=os.environ | {"XDG_CACHE_HOME": str(cache)})


def output(process: subprocess.Popen[str] | Forked) -> list[str]:
    out, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return out.splitlines()


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "linkseek").iterdir())


def test_models_in_four_threads(models: list[Path], cache: Path) -> None:
    """Importing transformers, and tracing a model, are safe in one thread at a time only."""
    output(start(IN_THREADS, cache, *models))
    assert len(entries(cache)) == 4
    assert all((entry / "facts.json").is_file() for entry in entries(cache))


def test_a_model_in_two_processes(models: list[Path], cache: Path) -> None:
    """Both convert it, one publishes it, and a damaged entry is replaced."""
    reranker = models[1]
    both = [fork(SCORE, cache, reranker) for _ in range(2)]
    scores = [output(process)[0] for process in both]
    assert scores[0] == scores[1]
    [entry] = entries(cache)
    model = entry / "model.bin"
    with model.open("r+b") as file:
        file.write(b"damaged")
    assert output(fork(SCORE, cache, reranker))[0] == scores[0]
    assert not model.read_bytes().startswith(b"damaged")
    assert entries(cache) == [entry]
    assert output(start(SCORE, cache, reranker)) == [scores[0], "False"]  # which only a conversion imports
    assert entries(cache) == [entry]
