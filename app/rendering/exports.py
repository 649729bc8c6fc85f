"""The contents of the search page as files and commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from linkseek.app.answers import Answer
from linkseek.app.rendering.addresses import SearchView
from linkseek.retriever.ranking import Ranking
from linkseek.retriever.search.runs import run_lines

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


def files(
    answers: Sequence[Answer], ids: Callable[[NDArray[np.int64]], Sequence[str]]
) -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Label -> name and content of each file. ids: of passages by their rows."""
    runs = {
        f"TREC run of {answer.pipeline}": (f"{answer.pipeline}.run", partial(trec_run, answer, ids))
        for answer in answers
    }
    return {"TSV": (TSV, partial(tsv, answers)), "JSON": (JSON, partial(json, answers)), **runs}


def trec_run(answer: Answer, ids: Callable[[NDArray[np.int64]], Sequence[str]]) -> bytes:
    """All ranks that are known of a pipeline as a TREC run, with 1 as the question's id.

    ids: of passages by their rows.
    """
    scored = ([*answer.places], [place.score for place in answer.places.values()])
    ranking = Ranking.of_candidates(["1"], [scored], len(answer.places))
    return b"".join(run_lines(ranking, ids, tag=answer.pipeline))


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
