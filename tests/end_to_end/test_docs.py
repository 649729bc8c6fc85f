"""Every command and every Python example of README and docs is run; what takes minutes, on less text.

A command that several pages show is run once. Commands run in a copy of the checkout's files, so they
neither find nor leave an index, a model or a result in the checkout.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from experiments.__main__ import COMMANDS
from linkseek.__main__ import ALL
from tests.support.command import ROOT, Done, Forked, free_port, run_forked, tracked
from tests.support.tiny.training import save_normalized

DATA = ROOT.parent / "shared" / "data"
DOCS = ROOT / "docs"
IN_ORDER = ["README.md", "CONTRIBUTING.md", "docs/tutorial.md", "docs/how-to/bi-encoder.md"]
"""Pages whose commands make what commands of other pages read."""
PAGES = [
    *(ROOT / name for name in IN_ORDER),
    *(page for page in sorted(DOCS.rglob("*.md")) if str(page.relative_to(ROOT)) not in IN_ORDER),
]
RESULTS = sorted((DOCS / "results").glob("*.md"))
MANUAL = [page for page in PAGES if page.is_relative_to(DOCS) and page not in RESULTS]
MANUAL.remove(DOCS / "releasing.md")  # for developers, as CONTRIBUTING is
LINKSEEK = set(ALL)
LABORATORY = {*COMMANDS, *LINKSEEK, *(file.stem for file in (ROOT / "experiments").glob("*.toml"))}
RECIPES = sorted((ROOT / "experiments/recipes").glob("*.sh"))
CARDS = sorted(ROOT.glob("re*er/adapters/*/README.md"))

_BLOCK = re.compile(r"^([ ]*)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
"""Also in lists, where blocks are indented."""


def blocks(page: Path, language: str) -> list[str]:
    return [dedent(body) for _, found, body in _BLOCK.findall(page.read_text("utf-8")) if found == language]


def commands(page: Path, language: str = "sh") -> list[str]:
    bodies = [page.read_text("utf-8")] if page.suffix == ".sh" else blocks(page, language)
    joined = (re.sub(r"\\\n\s*", "", body) for body in bodies)
    return [line for body in joined for line in body.splitlines() if line and not line.startswith("#")]


_FEW_TOKENS = ["--set", "texts.passage_tokens=32", "--set", "training.batch=8"]
_TINY = ["--set", "model.base=tiny", "--set", "texts.tokens=32", "--set", "training.batch=2"]

LESS = {
    ("evaluate", "--output"): ["--latency", "1", "--limit", "8", "--no-report"],
    ("build", "samples/linkseek-sample.xml.bz2"): ["--limit", "8"],
    ("mine-contrasts", "harp"): ["--index", "index/mine"],
    ("build", "docs"): ["--limit", "8"],
    ("rerank",): ["--depth", "2"],
    ("pretrain",): [*_TINY, "--set", "training.precision=float32"],
    ("finetune",): _TINY,
    ("train", "configs/small-pretrain.toml"): _FEW_TOKENS,
    ("train", "configs/small-finetune.toml"): [*_FEW_TOKENS, "--set", "data.shots=4"],
    ("train", "static-pretrain"): ["--set", "training.steps=2"],
    ("mlm",): ["--set", "training.batch=2"],
    ("experiments", "hlp-1"): ["--index", "index/sample"],
}
"""What is added to commands that have all of these words, so that models read few texts."""


def all_commands() -> dict[str, Path]:
    """Each command once, with the first page that shows it."""
    pages: dict[str, Path] = {}
    for page in PAGES:
        for command in commands(page):
            pages.setdefault(shlex.join(shlex.split(command)), page.relative_to(ROOT))
    return pages


ALL_COMMANDS = all_commands()
assert len(ALL_COMMANDS) >= 60


def run_python(words: list[str], cwd: Path) -> Done:
    """`python WORDS`, which must not end with a traceback."""
    done = run_forked(words, cwd=cwd)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the checkout: the code as links, what commands read as copies."""
    folder = tmp_path_factory.mktemp("checkout")
    copied = ("configs", "docs", "experiments", "samples")
    for name in ("linkseek", "indexer", "retriever", "reranker", "app", "benchmarks", "Makefile"):
        (folder / name).symlink_to(ROOT / name)
    for name in copied:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.png", "__pycache__"))
    save_normalized(folder / "tiny")
    questions = folder / "samples" / "questions.jsonl"
    questions.write_text("".join(questions.read_text("utf-8").splitlines(keepends=True)[:20]), "utf-8")
    return folder


@pytest.fixture(scope="module")
def copied_index(checkout: Path, sample_index: Path) -> None:
    shutil.copytree(sample_index, checkout / "index" / "sample")


@pytest.fixture(scope="module")
def small_index(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Callable[[str], Path]:
    """Runs a command that builds an index, on its first documents."""

    @cache
    def build(command: str) -> Path:
        words = shlex.split(command.replace("$DATA", str(DATA)))
        index = tmp_path_factory.mktemp("small") / "index"
        words[words.index("--index") + 1] = str(index)
        done = run_python(["-m", *words, "--limit", "5"], checkout)
        assert done.returncode == 0, done.stderr
        return index

    return build


@pytest.mark.parametrize("command", ALL_COMMANDS, ids=lambda command: command[:60])
def test_command(command, checkout, copied_index, small_index, tmp_path):
    page = ALL_COMMANDS[command]
    words = shlex.split(command)
    if words[:2] == ["linkseek", "serve"]:
        assert_healthy(["linkseek", "serve", "--port"], words[2:], "ready", checkout)
        return
    if words[:2] == ["linkseek", "app"]:
        words = ["streamlit", "run", "app/main.py", "--", *words[2:]]
    elif words[0] == "linkseek":
        words = ["python", "-m", *words]
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    elif words[:2] == ["streamlit", "run"]:
        assert_serves(words[2:], checkout)
    elif any("$DATA" in word for word in words):
        if not DATA.is_dir():
            pytest.skip(f"{page} measures real corpora, which are not at {DATA}")
        if words[3:4] == ["build"]:
            small_index(command)
        else:
            run_small(words, small_index, tmp_path / "result", checkout)
    else:
        assert words[0] == "python", f"{page}: do not know how to run {command!r}"
        less = [word for having, added in LESS.items() if set(having) <= set(words) for word in added]
        for option in {"--limit", "--depth", "--index"} & {*less} & {*words}:
            del words[(at := words.index(option)) : at + 2]
        done = run_python([*words[1:], *less], checkout)
        assert done.returncode == 0, done.stderr


def run_small(words: list[str], small_index: Callable[[str], Path], output: Path, checkout: Path) -> None:
    """A command on the first questions of real data, over an index of the first documents."""
    words = [word.replace("$DATA", str(DATA)) for word in words]
    named = words[words.index("--index") + 1]
    build = next(c for c in ALL_COMMANDS if f"--index {named}" in c and c.startswith("linkseek build"))
    words[words.index("--index") + 1] = str(small_index(build))
    words[words.index("--output") + 1] = str(output)
    done = run_python([*words[1:], "--limit", "3", "--no-report"], checkout)
    # Judgements on documents that so small an index lacks are an error that says so.
    lacks_all = "--qrels" in words and "none of the judged ids is in the index" in done.stderr
    assert done.returncode == 0 or lacks_all, done.stderr


def assert_serves(arguments: list[str], checkout: Path) -> None:
    options = ["--server.headless", "true", "--server.address", "127.0.0.1", "--server.port"]
    assert_healthy(["streamlit", "run", *arguments[:1], *options], arguments[1:], "_stcore/health", checkout)


def assert_healthy(words: list[str], more: list[str], path: str, checkout: Path) -> None:
    port = str(free_port())
    server = Forked(["-m", *words, port, *more], checkout)
    try:
        wait_for(f"http://127.0.0.1:{port}/{path}", server)
    finally:
        server.kill()
        output = "\n".join(server.communicate())
    assert "Traceback" not in output, output


def wait_for(url: str, server: Forked) -> None:
    until = time.monotonic() + 300
    while True:
        assert server.poll() is None, server.communicate()
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:  # not there yet, or busy
            assert time.monotonic() < until, f"{url} does not answer"
            time.sleep(0.1)


def examples() -> Iterator[tuple[str, str]]:
    seen = set()
    for page in [*PAGES, *CARDS]:
        for body in blocks(page, "python"):
            if body not in seen:
                seen.add(body)
                yield str(page.relative_to(ROOT)), body


@pytest.mark.parametrize(("page", "example"), examples(), ids=lambda value: str(value)[:30])
def test_example(page: str, example: str, checkout: Path, copied_index: None, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(example, "utf-8")
    done = run_python([str(tmp_path / "example.py")], checkout)
    assert done.returncode == 0, f"{page}: {done.stderr}"
    assert done.stdout.strip() or "print" not in example


# --- commands that are shown without being run ----------------------------------------------------


PROGRAMS = {"linkseek ": (LINKSEEK, "linkseek"), "python -m experiments ": (LABORATORY, "experiments")}
"""What a command begins with, with the words that may follow and the module that runs them."""


@cache
def help_of(module: str, word: str) -> str:
    return run_forked(["-m", module, word, "--help"]).stdout


@pytest.mark.parametrize("page", [*PAGES, *RECIPES], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_not_run_have_options_that_exist(page: Path) -> None:
    for command in commands(page, "text"):
        start = next((start for start in PROGRAMS if command.startswith(start)), None)
        if start is None:
            continue
        words, module = PROGRAMS[start]
        word, *rest = shlex.split(command.removeprefix(start), comments=True)
        assert word in words, f"{page.name}: {command}"
        known = set(re.findall(r"--?[a-z][\w-]*", help_of(module, word))) | {"--set"}
        options = [option.split("=")[0] for option in rest if re.match("--?[a-z]", option)]
        unknown = [option for option in options if option not in known and "." not in option]
        assert not unknown, f"{page.name}: {command}: {unknown}"


def test_the_commands_that_texts_name_exist() -> None:
    for page in PAGES:
        named = set(re.findall(r"\blinkseek ([a-z][a-z-]+)(?=[ `])", page.read_text("utf-8")))
        prose = {"is", "must", "and", "in", "to"}
        assert named - prose <= LINKSEEK, f"{page.name}: {named - prose - LINKSEEK}"
        tried = set(re.findall(r"python -m experiments ([a-z][\w-]*)", page.read_text("utf-8")))
        assert tried <= LABORATORY, f"{page.name}: {tried - LABORATORY}"


# --- links and paths ------------------------------------------------------------------------------


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, *CARDS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_of_a_page_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for name, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {name}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {name}#{anchor}"
    quoted = re.findall(
        r"`((?:indexer|retriever|reranker|app|benchmarks|docs|experiments|samples|tests)/[\w./-]*)`", text
    )
    for name in quoted:
        assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_pages_that_code_and_messages_name_exist() -> None:
    named = 0
    for name in tracked():
        path = ROOT / name
        if path.suffix not in {".py", ".toml", ".html", ".md", ".yml"} and path.name != "Makefile":
            continue
        if path.is_relative_to(DOCS) or path.is_symlink() or name == "CHANGELOG.md":
            continue
        for place in re.findall(
            r"(?<![\w/.-])docs/[\w/-]+\.(?:md|toml|py|css|png)\b", path.read_text("utf-8")
        ):
            named += 1
            assert (ROOT / place).exists() or name.startswith("tests/"), f"{name} names {place}"
    assert named >= 40


# --- size, and generated parts --------------------------------------------------------------------


def words_of(pages: list[Path]) -> int:
    return sum(len(page.read_text("utf-8").split()) for page in pages)


def test_the_manual_and_the_readme_stay_short() -> None:
    assert words_of(MANUAL) <= 27_500
    assert words_of(RESULTS) <= 25_000
    assert words_of([ROOT / "README.md"]) <= 650


def test_words_that_the_glossaries_forbid_are_not_used() -> None:
    """In prose, code and the names of JSON; "certain" is "significant" on the pages of results."""
    for name in tracked():
        path = ROOT / name
        own = not name.startswith(("tests/", "samples/", "CONTRIBUTING.md")) and not path.is_symlink()
        if own and path.suffix in {".py", ".md", ".toml", ".html", ".j2", ".js", ".css"} and path.exists():
            forbidden = r"\bbeside\b|\bleft_out\b" + r"|\bcertain\b" * (path in RESULTS)
            assert not re.search(forbidden, path.read_text("utf-8")), name


def test_no_paragraph_stands_on_two_pages() -> None:
    """Of the manual; generated tables, and commands, may be shared."""
    seen: dict[str, Path] = {}
    for page in [ROOT / "README.md", *MANUAL]:
        text = re.sub(r"<!-- generated.*?<!-- end", "", page.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        for paragraph in re.split(r"\n\s*\n|\n(?=- )", text):
            words = " ".join(paragraph.split())
            if len(words.split()) >= 20:
                assert words not in seen, f"{page.name} and {seen[words].name}: {words[:80]}"
                seen[words] = page


def test_generated_parts_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    tables = importlib.import_module("tables")
    parts = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        parts += len(tables.PART.findall(text))
        assert tables.filled(text) == text, f"{page.name} is out of date: run make docs"
    assert parts >= 3


def test_plots_are_those_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    plots = importlib.import_module("plots")
    shown = "".join(page.read_text("utf-8") for page in RESULTS)
    for name, draw in plots.PLOTS.items():
        title, rows, _ = draw()
        svg = (plots.PICTURES / f"{name}.svg").read_text("utf-8")
        said = plots.words(svg) - {row["pipeline"] for row in rows}  # which lines say
        assert said and said == {row["says"] for row in rows}, f"{name}: run make docs"
        assert f"![{title}](../pictures/results/{name}.svg)" in shown


def test_pictures_of_concepts_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    figures = importlib.import_module("figures")
    shown = (DOCS / "concepts.md").read_text("utf-8")
    for name, draw in figures.FIGURES.items():
        assert (figures.PICTURES / f"{name}.svg").read_text("utf-8") == draw(), "run make docs"
        assert f"pictures/concepts/{name}.svg" in shown
