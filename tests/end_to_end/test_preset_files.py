"""Every file that a preset reads is made by a command of its header, or of a page that the header names.

End to end: so are the files that this command reads, and so on, until files that are downloaded, packed or
bundled. Models may also be those of another preset. All of these commands are parsed by their programs.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import ROOT
from tests.support.commands_read import CONFIGS, OPTIONS, read_command

PRESETS = [
    path
    for path in sorted([*(ROOT / "configs").glob("*.toml"), *(ROOT / "experiments").rglob("*.toml")])
    if "output" in tomllib.loads(path.read_text("utf-8"))
]
MODELS = {tomllib.loads(path.read_text("utf-8"))["output"]["folder"] for path in PRESETS}
BUNDLED = {"index/sample"}
"""Which `linkseek build` without arguments makes."""

_FILE = re.compile(r"\b(?:results|index|models)/[\w.+/-]*[\w-]")
_MADE = re.compile(r"""(?:--output|output\.folder=|>|-o|save_pretrained\(") ?((?:results|models)/[^\s")]+)""")
_PAGE = re.compile(r"(?<![\w/.])(?:(?:docs|retriever|reranker)/[\w/-]+\.md|experiments/recipes/[\w-]+\.sh)")
"""Pages, and scripts of commands."""
_LOOP = re.compile(r"for (\w+) in ([\w ]+); do (.*); done$")


def commands_of(text: str) -> list[str]:
    """The commands of a page's blocks, one for each turn of a loop."""
    blocks = re.findall(r"^```(?:sh|text)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    found = []
    for line in re.sub(r"\\\n\s*", "", "\n".join(blocks)).splitlines():
        loop = _LOOP.match(line)
        found += [loop[3].replace(f"${loop[1]}", word) for word in loop[2].split()] if loop else [line]
    return [line for line in found if line]


def header_of(preset: str) -> str:
    """The comment at the head of a preset as a page: indented lines are commands."""
    lines = re.match(r"(?:#.*\n)*", preset)[0].splitlines()
    return "\n".join(
        f"```sh\n{line[4:]}\n```" if line.startswith("#   ") else line for line in lines
    ).replace("\n```\n```sh\n", "\n")


def made_by(command: str) -> list[str]:
    """The files and folders that a command makes."""
    built = re.findall(r"--index (\S+)", command) if command.startswith("linkseek build") else []
    return _MADE.findall(command) + built


def reads(preset: dict[str, Any]) -> set[str]:
    """The files that a preset reads; a teacher's vectors are written by the training itself."""
    tables = {name: table for name, table in preset.items() if name != "output"}
    tables["teacher"] = {**preset.get("teacher", {}), "vectors": ""}
    return set(_FILE.findall(str(tables)))


def pages_of(text: str) -> list[str]:
    """The pages that a header names, with those that these name, the nearest first."""
    found: dict[str, str] = {}
    waiting = [text]
    while waiting:
        for name in _PAGE.findall(waiting.pop(0)):
            if name not in found:
                text = (ROOT / name).read_text("utf-8")
                found[name] = f"```sh\n{text}\n```" if name.endswith(".sh") else text
                waiting.append(found[name])
    return [*found.values()]


def makers_of(preset: str) -> dict[str, str]:
    """The commands of a preset's header and its pages by what they make; the header's win."""
    header = header_of(preset)
    every = [line for text in reversed([header, *pages_of(header)]) for line in commands_of(text)]
    return {made: line for line in every for made in made_by(line)}


def unmade(preset: str) -> list[str]:
    """What a preset, or a command on the way to its files, reads and no command makes."""
    makers = makers_of(preset)
    waiting, seen, lacking = [*reads(tomllib.loads(preset))], BUNDLED | MODELS, []
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        maker = next((line for made, line in makers.items() if f"{file}/".startswith(f"{made}/")), None)
        if maker is None:
            lacking.append(file)
        else:
            waiting += [name for name in _FILE.findall(maker) if name not in made_by(maker)]
    return sorted(lacking)


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_commands_make_every_file_of_a_preset(path: Path) -> None:
    assert unmade(path.read_text("utf-8")) == []


def test_a_file_that_nothing_makes_is_found() -> None:
    """Also one that a command on the way reads, and one of another name."""
    preset = """\
# Pairs: docs/how-to/bi-encoder.md
#   for part in a b; do linkseek negatives --index index/sample --run results/$part.trec --queries q.jsonl \\
#     --output results/$part.jsonl; done
#   linkseek search --index index/other --queries q.jsonl --output results/a.trec

[data]
pairs = ["results/a.jsonl", "results/b.jsonl", "results/labelled.jsonl", "results/a.jsonl.zst"]

[output]
folder = "models/x"
"""
    assert unmade(preset) == ["index/other", "results/a.jsonl.zst", "results/b.trec"]


@cache
def understand(command: str) -> None:
    """A command, or the first of a pipe, as its program reads it. Raises `UsageError`."""
    word, *words = shlex.split(command.split(" | ")[0])[1:]
    read_command(word, words)


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_programs_understand_the_commands_of_header_and_pages(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    header = header_of(path.read_text("utf-8"))
    for text in [header, *pages_of(header)]:
        for command in commands_of(text):
            if command.startswith("linkseek ") and command.split()[1] in OPTIONS.keys() | CONFIGS.keys():
                understand(command)
