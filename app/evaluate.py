"""linkseek evaluate: questions through pipelines; runs, results and a report to a folder.

Entry script: reads options and files, opens the index and the pipelines, calls `app.evaluation.runner`.
"""

from __future__ import annotations

if __name__ == "__main__":
    from linkseek.indexer.program.errors import run_command

    run_command("linkseek.app.evaluate")

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import orjson
from pydantic import Field, NonNegativeInt, PositiveInt

from linkseek.app.evaluation.measures import SEED, parse_measure
from linkseek.app.evaluation.provenance import provenance
from linkseek.app.evaluation.results import RESULTS, Results, TestSetFacts
from linkseek.app.evaluation.runner import EvaluationPlan, check_baseline, evaluate, run_names, run_path
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.filters import kept_documents, near_conditions, read_filter
from linkseek.app.pipelines.open_models import Models
from linkseek.app.report.console import results_console, results_table, test_sets_table
from linkseek.app.testsets import LoadedTestSet, open_test_set
from linkseek.app.testsets.definition import write_test_set
from linkseek.app.testsets.files import read_groups
from linkseek.app.testsets.known_items import KINDS, SIZE, Kind, own_kind, own_test_set
from linkseek.app.testsets.registry import test_set_rows
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.partition_actors import searched_on_ray
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.options import Options, as_words, parse_options
from linkseek.indexer.program.settings import Seed
from linkseek.indexer.store.outputs import check_replaceable, locked, remove_outputs
from linkseek.retriever.queries import Answers, Questions, as_queries, read_queries
from linkseek.retriever.ranking import Pipeline
from linkseek.retriever.search.runs import Judgements, as_qrels, read_qrels

PROGRAM = "linkseek evaluate"


class EvaluateOptions(Options):
    """Evaluate pipelines on a test set, by its name or as a file of questions.

    Writes OUTPUT/runs/NAME.trec for every pipeline, OUTPUT/results.json, and the report as
    OUTPUT/report.html; files of an earlier evaluation in the same folder are replaced, files of yours never.
    """

    not_keywords = Options.not_keywords | {
        *("test_set", "data", "download", "write_test_set", "list_test_sets"),
        *("queries", "pipelines_file", "ray", "replicas", "json_"),
    }

    index: Path | None = None
    """the index folder (always needed)"""
    test_set: str | None = None
    """the name of a test set that --list-test-sets lists; headings, anchors or titles: questions made from
    the index itself, drawn by --seed, --limit of them (default 200)
    """
    only: list[str] = Field([])
    """with headings, anchors or titles: only pages of a folder, namespace or metadata value, as NAME:VALUE,
    such as folder:docs or language:de; may be repeated
    """
    data: Path | None = None
    """the folder with your own test sets; default: $LINKSEEK_DATA"""
    download: bool = False
    """download the test set if it is missing, after printing its size"""
    write_test_set: bool = False
    """write the questions, judgements and official folds of the test set to OUTPUT, as queries.jsonl,
    qrels.txt and folds.tsv, for fine-tuning or other tools, and stop
    """
    list_test_sets: bool = False
    """list the test sets, with what they need, and stop"""
    queries: Path | None = None
    """instead of a test set, questions: JSONL, TSV (MS MARCO) or CSV (DPR), also compressed"""
    answers: Literal["tokens", "regex"] | None = None
    """how answers match: tokens (DPR; the default) or regex (CuratedTREC's patterns)"""
    qrels: Path | None = None
    """judgements: a TREC file or BEIR's TSV, on passages or on documents"""
    group: list[str] = Field([])
    """with --queries: fields of the JSONL, such as type; all measures are also computed for the questions of
    each value
    """
    pipeline: list[str] = Field([])
    """the pipelines to run, by name; by default bm25 and the recommended one, unless runs are given"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    run: list[Path] = Field([])
    """TREC runs of other systems, to be measured next to the pipelines"""
    baseline: str | None = None
    """the pipeline that the others are compared with; by default the first"""
    depth: PositiveInt = 100
    """the number of passages to retrieve for a question"""
    limit: PositiveInt | None = None
    """measure only the first N questions; default: all"""
    measure: list[str] = Field([])
    """measures: accuracy@K, all@K, or any name of ir-measures; by default the usual ones"""
    batch_size: PositiveInt = 256
    """questions at a time"""
    latency: NonNegativeInt = 100
    """measure the latency of each stage on N questions, one at a time; 0 disables it"""
    seed: Seed = SEED
    """the seed of bootstrap samples, random signs and drawn questions"""
    ray: str | None = None
    """search on a Ray cluster, with an actor for each partition and at most one per core: its address, or
    local to start one here
    """
    replicas: Annotated[int, Field(ge=1, le=100)] = 1
    """with --ray: the number of actors for each partition"""
    report: bool = True
    """write a report: report.html"""
    json_: bool = Field(False, alias="json")
    """print results.json to the standard output, everything else to the standard error"""
    output: Path | None = None
    """the folder for runs and results (always needed)"""


def main(argv: Sequence[str]) -> None:
    """Run the command with these arguments."""
    options = parse_options(EvaluateOptions, argv, PROGRAM)
    if options.list_test_sets:
        results_console(stderr=False).print(test_sets_table(test_set_rows(options.data)))
        return
    if options.write_test_set and options.output is not None:
        index = OpenIndex.open(options.index) if options.index and own_kind(options.test_set) else None
        for path in write_test_set(load_test_set(options, index), options.output):
            print(path)
        return
    if options.index is None or options.output is None:
        missing = "--output" if options.output is None else "--index"
        raise UsageError(f"{missing} is missing", f"Name a folder: {missing} DIR. See {PROGRAM} --help.")
    results = run_evaluation(options, as_words(options) if options.config else argv)
    if options.json_:
        sys.stdout.buffer.write(orjson.dumps(results.to_json(), option=orjson.OPT_INDENT_2) + b"\n")
        sys.stdout.buffer.flush()
    console = results_console(stderr=options.json_)
    for warning in results.warnings:
        console.print(f"warning: {warning}", style="bold", markup=False, highlight=False)
    console.print(results_table(results))
    for note in results.notes:
        console.print(f"note: {note}", markup=False, highlight=False)
    if options.report:
        console.print(f"report: {options.output / 'report.html'}", markup=False, highlight=False)


def run_evaluation(
    options: EvaluateOptions,
    argv: Sequence[str],
    index: OpenIndex | None = None,
    models: Models | None = None,
    test_set: LoadedTestSet | None = None,
    program: str = PROGRAM,
    own: Mapping[str, Pipeline] = {},
) -> Results:
    """Run an evaluation, and write its files if there is an output.

    index, test_set: instead of those in the options. models: shared with other pipelines. own: functions of
    the caller, among the pipelines of the options.
    """
    output = options.output
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"--output {output}: is a file", "Name a folder.")
    for measure in options.measure:
        parse_measure(measure)
    with ExitStack() as stack:
        if index is None:
            assert options.index is not None  # `main` has checked it
            index = OpenIndex.open(options.index)
        index = stack.enter_context(searched_on_ray(index, options.ray, replicas=options.replicas))
        pipelines = Pipelines(index, options.pipelines_file, models)
        if test_set is None and not (options.pipeline or options.run):
            chosen = [name for name in ("bm25", pipelines.recommended) if name in pipelines.available()]
            options = options.model_copy(update={"pipeline": list(dict.fromkeys(chosen))})
        names = run_names(options.pipeline, options.run)
        check_baseline(options.baseline, names)
        pipelines.check(name for name in options.pipeline if name not in own)
        if output is not None:
            stack.enter_context(locked(output / RESULTS))
            report = output / "report.html"
            runs = [run_path(output, name) for name in options.pipeline]
            check_replaceable(output / RESULTS, *runs, *[report] * options.report)
        test_set = test_set or load_test_set(options, index)
        results = _measure(options, pipelines, test_set, argv, program, own)
        if output is None:
            return results
        results.write(output)
        if options.report:
            from linkseek.app.report import write_report

            write_report(results, output)
        else:  # an earlier one would lie next to results that are not its own
            remove_outputs(report)
        return results


def _measure(
    options: EvaluateOptions,
    pipelines: Pipelines,
    test_set: LoadedTestSet,
    argv: Sequence[str],
    program: str,
    own: Mapping[str, Pipeline],
) -> Results:
    """Run the pipelines and measure their runs, with where everything is from."""
    opened = {name: own.get(name) or pipelines.open(name) for name in options.pipeline}
    named = [name for name in opened if name not in own]
    notes: list[str] = [*filter(None, map(pipelines.language_note, named)), *test_set.notes]
    if test_set.copies and (by_links := [name for name in named if pipelines.reads_links(name)]):
        notes.append(f"{', '.join(by_links)}: follows links, including those that made the questions")
    results = evaluate(
        EvaluationPlan(
            index=pipelines.index,
            test_set=test_set,
            pipelines=opened,
            runs=options.run,
            judged_by=str(options.qrels or test_set.name),
            facts=TestSetFacts(**test_set.described()) if options.test_set else None,
            baseline=options.baseline,
            depth=options.depth,
            measures=options.measure,
            batch_size=options.batch_size,
            latency=options.latency,
            seed=options.seed,
            notes=notes,
            output=options.output,
        )
    )
    files = {"queries": options.queries, "qrels": options.qrels, "pipelines": options.pipelines_file}
    files |= {f"run {path.name}": path for path in options.run}
    read = {role: path for role, path in files.items() if path is not None}
    facts = test_set.origin if options.test_set else None
    origin = provenance(program, argv, pipelines.index, read, pipelines.models, facts)
    return results.model_copy(update={"provenance": origin})


def load_test_set(options: EvaluateOptions, index: OpenIndex | None = None) -> LoadedTestSet:
    """The named test set, or one made of files; --qrels, --answers and --limit change either.

    index: the source of headings, anchors and titles. Raises `UsageError` unless exactly one of the two is
    given, and for options that belong to another kind of questions.
    """
    _check_kind(options)
    if options.queries is None and (own := own_kind(options.test_set)):
        test_set = _own_test_set(options, own, index)
        return replace(test_set, qrels=read_qrels(options.qrels) if options.qrels else test_set.qrels)
    if options.test_set is not None and options.queries is None:
        test_set = open_test_set(options.test_set, options.data, download=options.download)
    elif options.queries is not None and options.test_set is None:
        queries = read_queries(options.queries, options.limit)
        groups = read_groups(options.queries, options.group)
        test_set = LoadedTestSet(str(options.queries), queries, groups=groups)
    else:
        hint = "--list-test-sets lists the test sets."
        raise UsageError("give either --test-set NAME or --queries FILE", hint)
    return replace(
        test_set,
        queries=test_set.queries[: options.limit],
        qrels=read_qrels(options.qrels) if options.qrels else test_set.qrels,
        answer_kind=options.answers or test_set.answer_kind,
    )


def given_test_set(
    options: EvaluateOptions, questions: Questions, qrels: Judgements | None, answers: Answers | None
) -> LoadedTestSet:
    """Questions, judgements and answers as they are given in Python.

    Raises the errors of `as_queries` and `as_qrels`, and `UsageError` for options of other questions.
    """
    _check_kind(options)
    queries, judged = as_queries(questions, answers), None if qrels is None else as_qrels(qrels)
    groups = read_groups(options.queries, options.group) if options.queries else {}
    kind = options.answers or "tokens"
    return LoadedTestSet("the judgements", queries[: options.limit], judged, kind, groups)


def _own_test_set(options: EvaluateOptions, kind: Kind, index: OpenIndex | None) -> LoadedTestSet:
    if index is None:
        raise UsageError(f"--test-set {kind} needs an index", "Name it: --index DIR.")
    only = read_filter(options.only)
    kept = kept_documents(index, only) if only else None
    if kept is not None and not kept.any():
        raise UsageError(f"no document has {', '.join(options.only)}", near_conditions(index, options.only))
    return own_test_set(index, kind, options.limit or SIZE, options.seed, kept)


def _check_kind(options: EvaluateOptions) -> None:
    """Raises `UsageError` for options that belong to another kind of questions."""
    if options.only and not own_kind(options.test_set):
        raise UsageError(f"--only belongs to --test-set {', '.join(KINDS)}", "Omit it.")
    if options.group and options.queries is None:
        raise UsageError("--group belongs to --queries", "Give a file whose questions have the field.")
