"""Models that are opened for the first time in several threads, or by several processes, at the same time.

On an empty cache of converted models. Threads run in a process that has imported no library yet.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.command import Forked, python
from tests.support.tiny.models import save_tiny, save_tiny_reranker

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

models = [(encode, sys.argv[1]), (score, sys.argv[2]), (encode, sys.argv[3]), (score, sys.argv[4])]
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


def fork(script: str, cache: Path, *models: Path) -> Forked:
    return Forked(["-c", script, *models], env=os.environ | {"XDG_CACHE_HOME": str(cache)})


def output(process: Forked) -> list[str]:
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out.splitlines()


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "linkseek").iterdir())


def test_models_in_four_threads(tmp_path: Path) -> None:
    """Importing transformers, and tracing a model, are safe in one thread at a time only."""
    models = [
        save(tmp_path / f"{save.__name__}-{seed}", seed)
        for seed in (0, 1)
        for save in (save_tiny, save_tiny_reranker)
    ]
    done = python("-c", IN_THREADS, *models, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(entries(tmp_path)) == 4
    assert all((entry / "facts.json").is_file() for entry in entries(tmp_path))


def test_a_model_in_two_processes(tmp_path: Path) -> None:
    """Both convert it, one publishes it, and a damaged entry is replaced."""
    reranker = save_tiny_reranker(tmp_path / "reranker")
    both = [fork(SCORE, tmp_path, reranker) for _ in range(2)]
    scores = [output(process)[0] for process in both]
    assert scores[0] == scores[1]
    [entry] = entries(tmp_path)
    model = entry / "model.bin"
    with model.open("r+b") as file:
        file.write(b"damaged")
    assert output(fork(SCORE, tmp_path, reranker))[0] == scores[0]
    assert not model.read_bytes().startswith(b"damaged")
    assert entries(tmp_path) == [entry]
    done = python("-c", SCORE, reranker, XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout.splitlines() == [scores[0], "False"]  # which only a conversion imports
    assert entries(tmp_path) == [entry]
