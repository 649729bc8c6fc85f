"""The contents of the search page as files and commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import orjson

from linkseek.app.answers import Answer
from linkseek.app.rendering.addresses import SearchView

TSV, JSON = "linkseek.tsv", "linkseek.json"
"""The names of the files."""

_COLUMNS = ("rank", "score", "passage_id", "document_id", "title", "url")
_SPACES = str.maketrans("\t\n\r", "   ")  # other white space may be a part of an id


def tsv(answers: Sequence[Answer]) -> bytes:
    """The hits of all pipelines, one per line, below the names of the columns."""
    lines = ["\t".join(("pipeline", *_COLUMNS))]
    for answer in answers:
        for hit in answer.hits:
            values = [answer.pipeline, *(str(getattr(hit, column)) for column in _COLUMNS)]
            lines.append("\t".join(value.translate(_SPACES) for value in values))
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def json(answers: Sequence[Answer]) -> bytes:
    """A list of the output of `linkseek search --json` for each pipeline."""
    return orjson.dumps([answer.to_json() for answer in answers], option=orjson.OPT_INDENT_2)


def files(answers: Sequence[Answer]) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Label -> name and content of each file."""
    return {"TSV": (TSV, partial(tsv, answers)), "JSON": (JSON, partial(json, answers))}


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
