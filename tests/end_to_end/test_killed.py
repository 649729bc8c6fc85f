"""A build that is killed goes on where it was, and ends with the same content as an undisturbed one."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from linkseek.indexer.building import stages
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.search.lucene_index import BM25
from linkseek.indexer.store.artifacts import read_json
from tests.end_to_end import driver
from tests.support.command import ROOT, Forked, run_forked
from tests.support.tiny.corpus import linked_rows, write_jsonl

DRIVER = Path(__file__).with_name("driver.py")


def start(corpus: Path, index: Path, seconds: float, *more: str) -> Forked:
    return Forked([DRIVER, corpus, index, seconds, *more])


def finish(process: Forked) -> str:
    _, said = process.communicate()
    assert process.returncode == 0, said
    return said


def content(index: Path) -> dict[str, object]:
    """Everything that must be the same, by hash or by value."""
    opened = OpenIndex.open(index)
    opened.verify()
    names = ("documents", "passages", "links")
    parts = {name: read_json(index / name / "manifest.json") for name in names}
    return {
        "documents": parts["documents"]["content_sha256"],
        "source": parts["documents"]["source_sha256"],
        "passages": parts["passages"]["content_sha256"],
        "files": {f"{n}/{f}": entry for n in names for f, entry in parts[n]["files"].items()},
        "vectors": opened.dense().manifest.vectors_sha256,
        "index": opened.parts["dense/encoder"].files,
        "counts": opened.manifest.counts,
        "skipped": opened.manifest.skipped,
    }


def finished_shards(index: Path) -> int:
    """How many whole shards a workspace holds."""
    return len(list(index.with_name(index.name + ".linkseek-building").glob("vectors/**/[0-9]*.json")))


def finished_segments(index: Path) -> int:
    """How many whole segments of documents a workspace holds."""
    return len(list(index.with_name(index.name + ".linkseek-building").glob("documents/redirects-*.arrow")))


def wait_for(process: Forked, finished: Callable[[Path], int], index: Path, count: int) -> None:
    while finished(index) < count:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.001)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("killed") / "corpus.jsonl", linked_rows(200))


@pytest.fixture(scope="module")
def undisturbed(corpus) -> dict[str, object]:
    index = corpus.with_name("undisturbed")
    finish(start(corpus, index, 0))
    assert len(list((index / "documents").glob("0*.arrow"))) == 7
    return content(index)


POINTS = [(finished_segments, n) for n in (1, 4)] + [(finished_shards, n) for n in (0, 2, 6)]


def test_killed_at_five_points_it_goes_on_and_ends_with_the_same_content(corpus, undisturbed, tmp_path):
    """One build, killed again and again, each time a random moment after it has got a little further.

    The index that it replaces is in use until the end.
    """
    draw = random.Random(5)
    index, other = tmp_path / "index", write_jsonl(tmp_path / "other.jsonl", linked_rows(60, seed=9))
    finish(start(other, index, 0))
    old = content(index)
    for finished, count in POINTS:
        process = start(corpus, index, 0.05)
        wait_for(process, finished, index, count)
        time.sleep(draw.uniform(0, 0.05))
        process.kill()
        process.communicate()
        assert content(index) == old
    before = finished_shards(index)
    assert before >= 6
    said = finish(start(corpus, index, 0))
    resumed = re.search(r"dense/encoder: (\d+) of (\d+) shards are finished, resuming at the next", said)
    assert resumed is not None, said
    assert int(resumed[1]) == before < int(resumed[2])
    assert "documents: unchanged, reused" in said
    assert content(index) == undisturbed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "other.jsonl"]


_IN_FAISS = """
import os, signal, sys
from tests.end_to_end import driver
from linkseek.indexer.building import stages
from linkseek.indexer.search import compact, faiss_index

corpus, index, factory, moment = sys.argv[1:]
build_faiss = stages.build_faiss

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "training":
    compact.training_sample = faiss_index.training_sample = die
stages.build_faiss = lambda *details: build_faiss(*details[:-1], die)  # after the first block of vectors
driver.main(corpus, index, "0", f"faiss={factory}")
"""


@pytest.mark.parametrize("factory", ["compact", "IVF4,SQfp16"])
def test_killed_in_the_training_or_the_fill_of_faiss_the_vectors_are_kept(
    corpus, tmp_path, factory, capsys, monkeypatch
):
    monkeypatch.setattr(stages, "write_documents", stages.write_documents)  # which the driver replaces
    index, whole = tmp_path / "index", tmp_path / "whole"
    for moment in ("training", "fill"):
        done = run_forked(["-c", _IN_FAISS, corpus, index, factory, moment])
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not index.exists()
    capsys.readouterr()
    driver.main(str(corpus), str(index), "0", f"faiss={factory}")
    assert "vectors/encoder: unchanged, reused" in capsys.readouterr().err
    driver.main(str(corpus), str(whole), "0", f"faiss={factory}")
    assert content(index) == content(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "whole"]


def finished_lucene(index: Path) -> int:
    """1 if a workspace holds a whole Lucene index, else 0."""
    return len(list(index.with_name(index.name + ".linkseek-building").glob("bm25/manifest.json")))


def begun_lucene(index: Path) -> int:
    """1 if Lucene's index is being written."""
    return len(list(index.with_name(index.name + ".linkseek-building").glob("bm25/*.lock")))


def test_killed_while_lucene_and_the_encoder_work_both_end_with_the_same_content(
    corpus, undisturbed, tmp_path
):
    index = tmp_path / "index"
    for finished, count in [(begun_lucene, 1), (finished_shards, 2), (finished_lucene, 1)]:
        process = start(corpus, index, 0.2, "lucene")
        wait_for(process, finished, index, count)
        process.kill()
        process.communicate()
    before = finished_shards(index)
    said = finish(start(corpus, index, 0, "lucene"))
    assert "bm25: unchanged, reused" in said
    resumed = re.search(r"dense/encoder: (\d+) of (\d+) shards are finished", said)
    assert resumed is not None, said  # the encoder was not done when Lucene was
    assert 2 <= before == int(resumed[1]) < int(resumed[2])
    assert content(index) == undisturbed
    finish(start(corpus, tmp_path / "whole", 0, "lucene"))
    questions = [*[passage.text for passage in OpenIndex.open(index).passages][:40], "word1", "word2 東京"]
    killed, whole = (
        OpenIndex.open(path).lucene().search(questions, 50, BM25()) for path in (index, tmp_path / "whole")
    )
    for (ids, scores), (whole_ids, whole_scores) in zip(killed, whole, strict=True):
        assert ids == whole_ids
        np.testing.assert_array_equal(scores, whole_scores)
    assert any(len(set(scores.tolist())) < len(scores) for _, scores in whole)  # there are ties


def command_line(pid: str) -> str:
    """Empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_processes_of_a_killed_build_end(tmp_path):
    sample = str(ROOT / "samples" / "linkseek-sample.xml.bz2")
    options = f"--corpus {sample} --index {tmp_path / 'index'} --no-bm25 --no-dense --processes 2".split()
    code = "from linkseek.indexer.building import corpus; corpus._START = 0\n"
    code += f"from linkseek.indexer.build import main; main({options})"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    parsing: list[str] = []
    while len(parsing) < 2:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)  # it needs the processor to start
        parsing = [pid for pid in children.read_text().split() if "spawn_main" in command_line(pid)]
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while any(command_line(pid) for pid in parsing):
        assert time.monotonic() < until, f"{parsing} go on"
        time.sleep(0.05)
