"""Every command and every Python example of README and docs is run; what takes minutes, on less text."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from command import ROOT, Done, free_port, run_forked

DATA = ROOT.parent / "shared" / "data"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
CARDS = sorted(ROOT.glob("re*er/adapters/*/README.md"))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for found, body in _BLOCK.findall(page.read_text("utf-8")) if found == language]


def commands(page: Path) -> list[str]:
    joined = (re.sub(r"\\\n\s*", "", body) for body in blocks(page, "sh"))
    return [line for body in joined for line in body.splitlines() if line and not line.startswith("#")]


LESS = {
    ("rerank",): ["--depth", "2"],
    ("pretrain",): ["--set", "texts.tokens=32"],
    ("finetune", "configs/small-reranker.toml"): ["--set", "texts.tokens=32"],
    ("train",): ["--set", "texts.passage_tokens=32", "--set", "training.batch=8"],
    ("mlm",): ["--set", "training.batch=8"],
}
"""What is added to commands that have all of these words, so that models read few texts."""

ALL_COMMANDS = [(page.name, command) for page in PAGES for command in commands(page)]


def run_python(words: list[str]) -> Done:
    """`python WORDS`, which must not end with a traceback."""
    done = run_forked(words)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def run_make(words: list[str], **options: object) -> Done:
    done = subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True, timeout=500, **options)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def sample_index() -> None:
    done = run_python(["indexer/build.py"])
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def small_index(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Runs a command that builds an index, on its first documents, and once if pages repeat it."""

    @cache
    def build(command: str) -> Path:
        words = shlex.split(command.replace("$DATA", str(DATA)))
        index = tmp_path_factory.mktemp("small") / "index"
        words[words.index("--index") + 1] = str(index)
        done = run_python([*words[1:], "--limit", "5"])
        assert done.returncode == 0, done.stderr
        return index

    return build


def test_the_pages_hold_commands_and_examples() -> None:
    assert len(ALL_COMMANDS) >= 15
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("page", "command"), ALL_COMMANDS, ids=lambda value: str(value)[:60])
def test_command(
    page: str, command: str, sample_index: None, small_index: Callable[[str], Path], tmp_path: Path
) -> None:
    words = shlex.split(command)
    if words[:2] == ["linkseek", "app"]:
        words = ["streamlit", "run", "app/main.py", "--", *words[2:]]
    elif words[0] == "linkseek":
        words = ["python", "-m", "linkseek", *words[1:]]
    if words[0] == "make":
        run_make(["-n", *words[1:]])
    elif words[:2] == ["streamlit", "run"]:
        assert_serves(words[2:])
    elif any("$DATA" in word for word in words):
        if not DATA.is_dir():
            pytest.skip(f"{page} measures real corpora, which are not at {DATA}")
        if words[3:4] == ["build"]:
            small_index(command)
        else:
            run_small(words, small_index, tmp_path / "result")
    else:
        assert words[0] == "python", f"{page}: do not know how to run {command!r}"
        less = [word for having, added in LESS.items() if set(having) <= set(words) for word in added]
        done = run_python([*words[1:], *less])
        assert done.returncode == 0, done.stderr


def run_small(words: list[str], small_index: Callable[[str], Path], output: Path) -> None:
    """A command on the first questions of real data, over an index of the first documents."""
    words = [word.replace("$DATA", str(DATA)) for word in words]
    named = words[words.index("--index") + 1]
    build = next(c for _, c in ALL_COMMANDS if f"--index {named}" in c and c.startswith("linkseek build"))
    words[words.index("--index") + 1] = str(small_index(build))
    words[words.index("--output") + 1] = str(output)
    done = run_python([*words[1:], "--limit", "3"])
    # Judgements on documents that so small an index lacks are an error that says so.
    lacks_all = "--qrels" in words and "none of the judged ids is in the index" in done.stderr
    assert done.returncode == 0 or lacks_all, done.stderr


def assert_serves(arguments: list[str]) -> None:
    port = str(free_port())
    options = ["--server.port", port, "--server.headless", "true", "--server.address", "127.0.0.1"]
    server = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", *options, *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert "ok" in wait_for(f"http://127.0.0.1:{port}/_stcore/health", server)
    finally:
        server.terminate()
        server.wait(60)


def wait_for(url: str, server: subprocess.Popen[bytes]) -> str:
    for _ in range(240):
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read(), "utf-8")
        except OSError:  # not there yet, or busy
            time.sleep(0.25)
    raise AssertionError(f"{url} does not answer")


def examples() -> Iterator[tuple[str, str]]:
    for page in [*PAGES, *CARDS]:
        for body in blocks(page, "python"):
            yield str(page.relative_to(ROOT)), body


@pytest.mark.slow
@pytest.mark.parametrize(("page", "example"), examples(), ids=lambda value: str(value)[:30])
def test_example(page: str, example: str, sample_index: None, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(example, "utf-8")
    done = run_python([str(tmp_path / "example.py")])
    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout.strip() or "print" not in example


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_of_a_page_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    quoted = re.findall(
        r"`((?:indexer|retriever|reranker|app|benchmarks|docs|samples|tests)/[\w./-]*)`", text
    )
    for name in linked:
        assert (page.parent / name).exists(), f"{page.name} links to {name}"
    for name in quoted:
        assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_generated_parts_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    tables = importlib.import_module("tables")
    parts = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        parts += len(tables.PART.findall(text))
        assert tables.filled(text) == text, f"{page.name} is out of date: run make docs"
    assert parts >= 3


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".venv" / "installed").exists(), reason="make demo would install")
def test_make_demo_prints_the_comparison() -> None:
    done = run_make(["demo"], env={**os.environ, "COLUMNS": "160"})
    for name in ("bm25", "dense", "hybrid-weighted", "accuracy@20", "nDCG@10", "linkseek app"):
        assert name in done.stdout
