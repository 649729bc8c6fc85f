"""docs/errors.md: it is what the source says, it has every error, and every error says what to do."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from command import ROOT
from damage import SAMPLE, build, search

from indexer.base import errors
from indexer.base.errors import LinkseekError

NO_HINT: dict[str, str] = {}
"""The start of a message that has no hint, and why."""


@pytest.fixture(scope="module")
def catalogue() -> ModuleType:
    """docs/errors.py."""
    spec = importlib.util.spec_from_file_location("catalogue", ROOT / "docs" / "errors.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["catalogue"] = module  # which dataclasses look for
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(catalogue):
    assert catalogue.PAGE.read_text("utf-8") == catalogue.page(), "run: python docs/errors.py"


def test_every_class_and_exit_code_is_in_it(catalogue):
    kinds = LinkseekError.__subclasses__()
    codes = [kind.exit_code for kind in kinds]
    assert len(set(codes)) == len(codes) >= 6 and not {0, 1, 130, 141} & set(codes)
    page = catalogue.page()
    for kind in kinds:
        assert f"| {kind.exit_code} | `{kind.__name__}` | " in page
        assert f"## Exit code {kind.exit_code}: {kind.__name__}" in page
    for hint in errors._OS_HINTS.values():
        assert catalogue._prose(hint) in page


def test_every_error_says_what_to_do(catalogue):
    without = [entry for entry in catalogue.entries() if not entry.hint.strip()]
    assert [entry for entry in without if not entry.message.startswith(tuple(NO_HINT) or ("\0",))] == []


def made_errors(source: str) -> set[int]:
    """The lines on which errors of ours are made, found without the script, except those that wrap others."""
    names = "|".join(kind.__name__ for kind in LinkseekError.__subclasses__())
    found = set()
    for match in re.finditer(rf"(?<!class )(?<!\.)\b(?:{names})\((?!LinkseekError)", source):
        line = source.count("\n", 0, match.start()) + 1
        call = source[match.start() :]
        for end in (place.end() for place in re.finditer(r"\)", call)):
            try:
                ast.parse(call[:end].strip())
            except SyntaxError:
                continue
            if ".message" not in call[:end]:
                found.add(line)
            break
    return found


def test_every_error_of_the_source_is_in_it(catalogue):
    """Counted in another way: by looking for the names of the classes."""
    entries = {(entry.module, entry.line) for entry in catalogue.entries()}
    made = {
        (str(path.relative_to(ROOT)), line)
        for package in catalogue.PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for line in made_errors(path.read_text("utf-8"))
    }
    assert len(made) > 150
    assert made - entries == set()


def rendered(catalogue: ModuleType, source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple]:
    (folder / "indexer").mkdir()
    (folder / "indexer" / "module.py").write_text(source)
    monkeypatch.setattr(catalogue, "ROOT", folder)
    catalogue.modules.cache_clear()
    try:
        return {(entry.message, entry.hint) for entry in catalogue.entries()}
    finally:
        catalogue.modules.cache_clear()


def test_how_messages_are_rendered(catalogue, tmp_path, monkeypatch):
    source = """
LIMIT = 1 << 20
HINT = "Do this" + " and that."

def read(path, row, names):
    place = f"{path}, line {row.number:,}"
    raise InputError(f"{place}: more than {LIMIT:,} of {', '.join(names)} in {path / 'index'}", HINT)

def helper(what, hint):
    return UsageError(f"--name: {what}", hint)

def callers(first):
    raise helper("is empty", "Fill it." if first else other())
    raise helper(f"is {first!r}", HINT)

def other():
    return f"Ask {len(names)} people."

def wraps(error):
    raise InputError(f"{path}: {error.message}", error.hint)

raise BusyError(*both(1))

def both(n):
    return f"busy {n}", "Wait."
"""
    assert rendered(catalogue, source, tmp_path, monkeypatch) == {
        ("<path>, line <number>: more than 1,048,576 of <names> in <path>/index", "Do this and that."),
        ("--name: is empty", "Fill it."),
        ("--name: is empty", "Ask <number> people."),
        ("--name: is <first>", "Do this and that."),
        ("busy <n>", "Wait."),
    }


@pytest.mark.parametrize(
    "fail",
    [
        lambda folder: search("--index", folder / "none", "q"),
        lambda folder: search("--index", folder, "q"),
        lambda folder: build("--corpus", folder / "none", "--index", folder / "i"),
        lambda folder: build("--corpus", SAMPLE, "--index", folder / "i", "--format", "none"),
        lambda folder: build("--corpus", SAMPLE),
        lambda folder: build("--corpus", "/dev/null", "--index", folder / "i"),
        lambda folder: search("--index", folder),
    ],
)
def test_messages_of_commands_are_found_in_it(
    catalogue, tmp_path, fail: Callable[[Path], subprocess.CompletedProcess]
):
    """As a reader would: the message fits one row, and its hint and exit code are those of that row."""
    done = fail(tmp_path)
    first, hint = done.stderr.partition("error: ")[2].strip().split("\n")
    fitting = [
        entry
        for entry in catalogue.entries()
        if fits(entry.message, first) and fits(entry.hint, hint.strip())
    ]
    assert fitting, done.stderr
    assert done.returncode in {catalogue.KINDS[entry.kind].exit_code for entry in fitting}


def fits(rendered: str, text: str) -> bool:
    pattern = re.sub("<[^<>]*>", "\0", " ".join(rendered.split()))
    return re.fullmatch(re.escape(pattern).replace(re.escape("\0"), ".+"), " ".join(text.split())) is not None
