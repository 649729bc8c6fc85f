"""linkseek compare: where two pipelines disagree, for a person to judge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.preferences.comparison_files import FILE, write_preferences
from linkseek.app.preferences.judged_sets import check_set_name
from linkseek.app.preferences.record import Preferences, find_disagreements, read_questions
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import Options, parse_options
from linkseek.indexer.program.progress import progress
from linkseek.retriever.queries import read_queries

PROGRAM = "linkseek compare"


class CompareOptions(Options):
    """Ask two pipelines the same questions, for a person to judge where they disagree, without labels.

    The search pages show the first results of both side by side, the largest disagreement first, and report
    which pipeline is better.
    """

    index: Path
    """the index folder"""
    pipeline: Annotated[list[str], Field(min_length=2, max_length=2)]
    """the two pipelines, by name"""
    queries: Path
    """questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    output: Path
    """the folder of the comparison, in the folder of results that the pages show"""
    judged: Annotated[str, AfterValidator(lambda name: name and check_set_name(name))] = ""
    """the test set for the judgements, new or existing; default: a new one"""
    origin: str = ""
    """a description of the origin of the questions; default: the name of their file"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(CompareOptions, argv, PROGRAM)
    if (options.output / FILE).exists():
        raise UsageError(f"--output {options.output}: already contains a comparison", "Name another folder.")
    a, b = options.pipeline
    if a == b:
        raise UsageError(f"both pipelines are {a}", "Name two different ones.")
    index = OpenIndex.open(options.index)
    questions = read_questions(query.text for query in read_queries(options.queries))
    pipelines = Pipelines(index, options.pipelines_file)
    pipelines.check(options.pipeline)
    first, second = map(pipelines.open, options.pipeline)
    with progress("comparing", len(questions), "questions") as advance:
        found = find_disagreements(index, questions, first, second, advance)
    name, origin = options.index.resolve().name, options.origin or options.queries.name
    preferences = Preferences(
        index=name, a=a, b=b, origin=origin, created=time.time(), judged=options.judged, questions=found
    )
    write_preferences(options.output, preferences)
    log_line(f"{options.output}: {len(preferences.to_judge)} of {len(found)} questions to judge")
