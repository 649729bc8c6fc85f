"""linkseek search: a question on the command line, or a file of them for a TREC run.

Entry script: it reads options, asks `app.service` or all questions in batches, and prints or writes.
"""

from __future__ import annotations

if __name__ == "__main__":
    from linkseek.indexer.program.errors import run_command

    run_command("linkseek.app.search")

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import orjson
from pydantic import Field
from rich.console import Console
from rich.text import Text

from linkseek.app.answers import Answer
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.filters import near_conditions, read_filter
from linkseek.app.service import SearchService
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.partition_actors import searched_on_ray
from linkseek.indexer.program.errors import UsageError, log_line
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.indexer.program.text import counted, printable
from linkseek.indexer.store.manifest_files import is_index
from linkseek.indexer.store.outputs import check_replaceable, write_output
from linkseek.retriever.queries import read_queries
from linkseek.retriever.search.explanation import Explanation, explanation_lines
from linkseek.retriever.search.runs import run_lines
from linkseek.retriever.search.searching import search

PROGRAM = "linkseek search"
_DEPTH = 100


class SearchOptions(Options):
    """Ask an index a question: ranked passages with title, address, and the question's words marked.

    With --queries, writes a TREC run for all questions of a file, which needs no answers or judgements.
    """

    question: Positional[list[str]] = Field([])
    """the question"""
    index: Path = Path("index/sample")
    """the folder of the index"""
    pipeline: str | None = None
    """the pipeline, one that --pipelines lists; default hybrid-weighted (hybrid-static for vectors of
    linkseek-static, bm25 without vectors or where their encoder cannot read the texts)
    """
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    only: list[str] = Field([])
    """only documents of a folder, namespace or value of the metadata, as NAME:VALUE; may be repeated"""
    k: Annotated[int, Field(ge=1, le=1000)] | None = None
    """the number of passages for each question; default: 5, with --queries 100"""
    queries: Path | None = None
    """questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    output: Path | None = None
    """with --queries: the run to write"""
    explain: bool = False
    """explain the score of each passage, as a sum over words, pipelines, models or features"""
    json_: bool = Field(False, alias="json")
    """print JSON for programs"""
    pipelines: bool = False
    """list the pipelines that this index can run, and stop"""
    ray: str | None = None
    """search on a Ray cluster, with an actor for each partition and at most one per core: its address, or
    local to start one here
    """
    replicas: Annotated[int, Field(ge=1, le=100)] = 1
    """with --ray: the number of actors for each partition"""
    partial: bool = False
    """with --ray: skip and list partitions that do not answer, instead of failing"""


def main(argv: Sequence[str]) -> None:
    """Run the command."""
    options = parse_options(SearchOptions, argv, PROGRAM)
    if options.question and "index" not in options.model_fields_set and is_index(Path(options.question[0])):
        raise UsageError(f"{options.question[0]} is an index", f"Did you mean --index {options.question[0]}?")
    index = OpenIndex.open(options.index)
    if options.pipelines:
        print("\n".join(Pipelines(index, options.pipelines_file).available()))
        return
    if options.queries or options.output:
        _write_run(index, options)
        return
    only = read_filter(options.only)
    if not options.question:
        raise UsageError("the question is missing", f'For example: {PROGRAM} "Who named oxygen?"')
    with _searched(index, options) as searched:
        service = SearchService(searched, options.pipelines_file)
        pipeline = _pipeline(service.pipelines, options)
        k = options.k or 5
        answer = service.search(" ".join(options.question), pipeline, k, only)
        explained = service.explained(answer, k) if options.explain else []
        if answer.excluded == len(index.documents):
            near = near_conditions(index, options.only)
            log_line(f"note: no document has {', '.join(options.only)}. {near}")
    if options.json_:
        json = orjson.dumps(answer.to_json(explained), option=orjson.OPT_INDENT_2)
        sys.stdout.buffer.write(json + b"\n")
    else:
        print_answer(answer, Console(), explained)


def _pipeline(pipelines: Pipelines, options: SearchOptions) -> str:
    """The pipeline to ask. Prints a note if it, or the usual one, cannot read the passages."""
    if note := pipelines.language_note(options.pipeline):
        log_line(f"note: {printable(note)}")
    return options.pipeline or pipelines.recommended


def _searched(index: OpenIndex, options: SearchOptions) -> AbstractContextManager[OpenIndex]:
    return searched_on_ray(index, options.ray, replicas=options.replicas, partial=options.partial)


def _write_run(index: OpenIndex, options: SearchOptions) -> None:
    """All questions of a file through one pipeline, and their results into a TREC run."""
    if not (options.queries and options.output):
        raise UsageError("--queries and --output belong together", "Name the questions, and the run.")
    if options.question:
        raise UsageError(
            f'--queries writes a run, and "{" ".join(options.question)[:100]}" is a question',
            "Omit one of them; --pipeline takes one name.",
        )
    if options.json_ or options.explain or options.only:
        raise UsageError("--queries writes a run", "Omit --json, --explain and --only.")
    check_replaceable(options.output)
    queries = read_queries(options.queries)
    with _searched(index, options) as searched:
        pipelines = Pipelines(searched, options.pipelines_file)
        name = _pipeline(pipelines, options)
        pipeline = pipelines.open(name)
        k = min(options.k or _DEPTH, len(index.passages))
        ranking, seconds, _ = search(pipeline, queries, k, name=name)
        missing = searched.searches.missing if searched.searches else []
    write_output(options.output, run_lines(ranking, index.passages.ids, tag=name))
    asked = f"{counted(len(queries), 'question')} in {seconds:,.1f} s ({len(queries) / seconds:,.0f}/s)"
    log_line(f"{options.output}: {asked}")
    nothing = [query.id for query, rows in zip(queries, ranking.rows, strict=True) if (rows < 0).all()]
    if nothing:
        have = counted(len(nothing), "question has", "questions have")
        log_line(f"note: {have} no results, such as {printable(nothing[0])!r}")
    if missing:
        log_line(f"without {counted(len(missing), 'partition')}: {', '.join(map(printable, missing))}")


def print_answer(answer: Answer, console: Console, explained: Sequence[Explanation | None] = ()) -> None:
    """Ranked passages for people, with the question's words in bold. No text is taken for markup.

    explained: the explanation of each hit, or none.
    """
    for hit, explanation in zip_longest(answer.hits, explained):
        title = printable(hit.title if hit.title.strip() else hit.document_id)
        heading = Text(f"{hit.rank:>2}  ").append(title, style="bold")
        console.print(heading.append(f"  {hit.score:.4f}", style="dim"))
        if hit.url:
            console.print(Text(f"    {printable(hit.url)}", style="cyan"), soft_wrap=True)
        for step in hit.path:
            console.print(Text(f"    {printable(str(step))}", style="magenta"), soft_wrap=True)
        text = Text(printable(hit.text))
        for start, end in hit.marks:
            text.stylize("bold yellow", start, end)
        console.print(text, soft_wrap=not console.is_terminal)
        if explanation:
            for line in explanation_lines(explanation, hit.text):
                console.print(Text(f"    {printable(line)}", style="green"), soft_wrap=True)
        console.print()
    if answer.missing:
        missing = ", ".join(map(printable, answer.missing))
        console.print(
            Text(f"without {counted(len(answer.missing), 'partition')}: {missing}", style="bold red")
        )
    if answer.excluded:
        console.print(Text(f"{counted(answer.excluded, 'document')} excluded by the filter", style="dim"))
    hits = counted(len(answer.hits), "passage") if answer.hits else "no results"
    console.print(Text(f"{answer.pipeline}: {hits} in {answer.seconds * 1000:.0f} ms", style="dim"))
