"""The contents of the search page as a file and commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import orjson

from linkseek.app.answers import Answer
from linkseek.app.rendering.addresses import SearchView


def json(answers: Sequence[Answer]) -> bytes:
    """A list of the output of `linkseek search --json` for each pipeline."""
    return orjson.dumps([answer.to_json() for answer in answers], option=orjson.OPT_INDENT_2)


def commands(view: SearchView, index: Path, pipelines_file: Path | None) -> str:
    """For each pipeline, the command that prints the answers on the page."""
    options = ["--index", index.as_posix()]
    options += ["--pipelines-file", pipelines_file.as_posix()] if pipelines_file else []
    only = [word for condition in view.only for word in ("--only", condition)]
    end = ["--"] if view.question.startswith("-") else []

    def command(name: str) -> str:
        words = ["linkseek", "search", *options, *only, "--pipeline", name, "-k", str(view.k)]
        return shlex.join([*words, *end, view.question])

    return "\n".join(map(command, view.pipelines))
