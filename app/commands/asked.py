"""linkseek asked: the questions that people asked, from logs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from linkseek.app.context.asked import forget_asked, read_asked
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.preferences.record import MAX_QUESTIONS, Disagreement, find_disagreements, read_questions
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.indexer.program.text import counted, printable
from linkseek.indexer.store.outputs import write_output
from linkseek.retriever.queries import queries_lines
from linkseek.retriever.ranking import Query

PROGRAM = "linkseek asked"


class AskedOptions(Options):
    """List the questions that people asked most often, from logs; with --index, what is found for them.

    Logs are those of `linkseek serve --log-questions` and `linkseek app --log-questions FILE`. For each
    question: how often it was asked, and which share of their first ten results two pipelines have in common.
    """

    log: Positional[list[Path]] = Field([])
    """the logs"""
    index: Path | None = None
    """the index folder"""
    pipeline: Annotated[list[str], Field(min_length=2, max_length=2)] | None = None
    """the two pipelines to compare, by name; default: the first and the last of a first visit"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    only: Literal["all", "nothing", "disagreement"] = "all"
    """with --index: only questions for which a pipeline finds `nothing`; or by `disagreement`, the largest
    first"""
    words: str = ""
    """only questions with these words"""
    limit: Annotated[int, Field(ge=1, le=MAX_QUESTIONS)] = MAX_QUESTIONS
    """the number of questions"""
    output: Path | None = None
    """a file for the questions, which `linkseek compare` and `linkseek evaluate` take"""
    forget: bool = False
    """remove the questions, those with --words or all, from the logs"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(AskedOptions, argv, PROGRAM)
    if not options.log:
        raise UsageError("no log is named", f"For example: {PROGRAM} serve.log")
    wanted = options.words.casefold()
    if options.forget:
        removed = forget_asked(options.log, lambda text: wanted in text.casefold())
        print(f"{counted(removed, 'question')} removed")
        return
    asked, damaged = read_asked(options.log)
    texts = [text for text in asked if wanted in text.casefold()][: options.limit]
    found = _compared(options, texts) if options.index and texts else {}
    if options.only == "nothing":
        texts = [
            text for text in texts if text in found and None in (found[text].first_a, found[text].first_b)
        ]
    elif options.only == "disagreement":
        texts = [*found]
    for text in texts:
        common = f"{found[text].overlap:>6.0%}" if text in found else ""
        print(f"{asked[text]:>6}{common}  {printable(text)}")
    if damaged:
        print(f"note: {counted(damaged, 'line')} could not be read", file=sys.stderr)
    if options.output:
        queries = (Query(str(number), text) for number, text in enumerate(texts, start=1))
        write_output(options.output, queries_lines(queries))


def _compared(options: AskedOptions, texts: Sequence[str]) -> dict[str, Disagreement]:
    """Question -> how two pipelines differ, the largest difference first."""
    assert options.index
    index = OpenIndex.open(options.index)
    pipelines = Pipelines(index, options.pipelines_file)
    names = options.pipeline or [pipelines.first_visit[0], pipelines.first_visit[-1]]
    pipelines.check(names)
    a, b = map(pipelines.open, names)
    found = find_disagreements(index, read_questions(texts), a, b)
    return {each.text: each for each in found}
