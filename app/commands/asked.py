"""linkseek asked: the questions that people asked, from logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from linkseek.app.context.question_log import forget_asked, read_asked
from linkseek.app.preferences.record import MAX_QUESTIONS
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.indexer.program.text import counted, printable
from linkseek.indexer.store.outputs import write_output
from linkseek.retriever.queries import queries_lines
from linkseek.retriever.ranking import Query

PROGRAM = "linkseek asked"


class AskedOptions(Options):
    """List the questions that people asked most often, with their number, from logs.

    The logs are written by `linkseek serve --log-questions` and `linkseek app --log-questions FILE`.
    `linkseek compare` reads the file of --output, and finds questions on which pipelines disagree or have no
    result.
    """

    log: Positional[list[Path]] = Field([])
    """the logs"""
    words: str = ""
    """only questions with these words"""
    output: Path | None = None
    """write the most frequent questions to this file, at most 200"""
    forget: bool = False
    """remove these questions from the logs: those with --words, or all"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(AskedOptions, argv, PROGRAM)
    if not options.log:
        raise UsageError("no log is given", f"For example: {PROGRAM} serve.log")
    if options.forget:
        print(f"{counted(forget_asked(options.log, options.words), 'line')} removed")
        return
    asked, damaged = read_asked(options.log)
    texts = [text for text in asked if options.words.casefold() in text.casefold()]
    for text in texts:
        print(f"{asked[text]:>6}  {printable(text)}")
    if damaged:
        log_line(f"note: {counted(damaged, 'line')} could not be read")
    if options.output:
        queries = (Query(str(number), text) for number, text in enumerate(texts[:MAX_QUESTIONS], start=1))
        write_output(options.output, queries_lines(queries))
