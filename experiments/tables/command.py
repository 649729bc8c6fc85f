"""python -m experiments NAME: a table of figures, cell by cell.

Entry script: reads the experiment's file, builds a missing index, opens it, and calls
`experiments.tables.cells`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import orjson
from pydantic import Field

from experiments.tables.cells import CellRun, run_experiment
from experiments.tables.definition import Experiment, ExperimentTable, IndexSource, read_experiment
from experiments.tables.document import console_table, reasons, table_document
from experiments.tables.groups import with_known_answers
from experiments.tables.making import (
    PIPELINES,
    make_models,
    make_steps,
    run_step,
    show_plan,
    untrained,
    write_pipelines,
)
from experiments.tables.markdown import markdown_page
from experiments.tables.records import check_committed, write_record
from experiments.tables.steps import Steps
from linkseek.app.evaluation.provenance import provenance
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.report import write_report
from linkseek.app.report.console import results_console
from linkseek.app.report.render import html_page
from linkseek.app.testsets import LoadedTestSet, open_test_set
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.bundled import bundled, find_preset
from linkseek.indexer.program.errors import InputError, UsageError, log_line
from linkseek.indexer.program.options import Options, Positional, parse_options
from linkseek.indexer.program.paths import inside
from linkseek.indexer.store.outputs import check_replaceable, locked, write_output, write_output_json

PROGRAM = "python -m experiments"
_TABLES = Path(__file__).parents[1]
_EXPERIMENT = "experiment.json"


class ExperimentOptions(Options):
    """Make a table: pipelines x test sets x seeds, next to a paper's figures.

    experiments/ has a file for each table. Finished cells are kept: after an interruption, the same
    command resumes. Cells whose pipeline or data are missing say so. Writes
    OUTPUT/table.html and table.md, OUTPUT/experiment.json, and for each test set a folder with its report.
    """

    file: Positional[Path] = Field(...)
    """the experiment: a file, or the name of one in experiments/, such as hlp-1"""
    small: bool = False
    """the same rows on a small corpus, by the file's table [small]; for trying it out"""
    index: Path | None = None
    """an index to use instead of the one in the file"""
    data: Path | None = None
    """the folder with your own corpora and test sets; default: $LINKSEEK_DATA"""
    train: bool = False
    """first make the models of all rows, by the steps of the file; those that are made are kept"""
    only: list[str] = Field([])
    """with --train: only steps of these names, such as "pairs-*", and those that they need; no table"""
    jobs: int = Field(1, ge=1)
    """with --train: number of steps at a time, for several trainings on one GPU; logs are in OUTPUT/logs"""
    seeds: list[int] = Field([])
    """these seeds instead of the seeds of the file"""
    plan: bool = False
    """print what --train would make, with time and disk, and end"""
    scale: str = "small"
    """size of the models, if the file has several: small (two cores), gpu, or paper (the papers' settings)"""
    ray: str | None = None
    """with --train: build, mine and search for the models on a Ray cluster: its address, or local"""
    download: bool = False
    """download missing test sets, where that is possible"""
    pipelines_file: Path | None = None
    """a TOML file with pipelines of your own"""
    output: Path | None = None
    """the folder for runs and table; default: results/NAME"""
    record: bool = False
    """also write experiments/records/NAME.json, without paths of this machine, and its values by question;
    docs/ is compared with it, and the code must be a commit's"""
    json_: bool = Field(False, alias="json")
    """print the table as JSON to the standard output, everything else to the standard error"""


def main(argv: Sequence[str]) -> None:
    """Run the command. Raises `InputError` at the end if a cell failed, or none has a figure."""
    options = parse_options(ExperimentOptions, argv, PROGRAM)
    if options.record:
        check_committed()
    file = find_preset(_TABLES, options.file)
    experiment = read_experiment(file, small=options.small)
    if options.index:
        if len(experiment.indexes) > 1:
            hint = "Change them in a copy of its file."
            raise UsageError("--index: this experiment has several indexes", hint)
        indexes = {name: IndexSource(path=options.index, build=[]) for name in experiment.indexes}
        experiment = experiment.model_copy(update={"indexes": indexes})
    if options.seeds:
        experiment = experiment.model_copy(update={"seeds": options.seeds})
    experiment = experiment.at_scale(options.scale)
    name = file.stem + ("-small" if options.small else "")
    if options.scale != "small" and "small" in experiment.scales:
        name += f"-{options.scale}"  # another table, with its own runs
    output = options.output or inside(Path("results"), name, "the experiment")
    if output.exists() and not output.is_dir():
        raise UsageError(f"--output {output}: is a file", "Name a folder.")
    if (options.train or options.plan) and not experiment.steps:
        hint = "docs/results/experiments.md says how models get their rows."
        raise UsageError(f"{file}: this table has no steps that make its models", hint)
    for option, given in {"ray": options.ray, "only": options.only, "jobs": options.jobs > 1}.items():
        if given and not options.train:
            raise UsageError(f"--{option} is for the steps of --train", "Add --train, or leave it out.")
    if options.plan:
        show_plan(_steps(options, experiment, output), experiment, output)
        return
    with locked(output / _EXPERIMENT):
        if options.only:
            steps = _steps(options, experiment, output).of_rows(experiment.rows, options.only)
            make_steps(steps, output, options.ray, options.jobs)
            return
        table = _make_table(options, experiment, file, output, argv)
    if options.json_:
        json = orjson.dumps(table.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
        sys.stdout.buffer.write(json + b"\n")
        sys.stdout.buffer.flush()
    if options.record:
        log_line(f"record: {write_record(table, name)}")
    console = results_console(stderr=options.json_)
    console.print(console_table(table))
    for reason in reasons(table):
        console.print(reason, markup=False, highlight=False, soft_wrap=True)
    console.print(str(output / "table.html"), markup=False, highlight=False)
    cells = [cell for row in table.rows for cell in row.cells]
    failed = [cell.reason for cell in cells if cell.status == "failed"]
    if failed:
        raise InputError(f"{len(failed)} cells failed; the first: {failed[0]}", "The others are kept.")
    if not any(cell.status in ("done", "kept") for cell in cells):
        raise InputError(f"{file}: no cell could be measured", "The lines above say what is missing.")


def _make_table(
    options: ExperimentOptions,
    experiment: Experiment,
    file: Path,
    output: Path,
    argv: Sequence[str],
) -> ExperimentTable:
    """Make the missing cells and write the table's files; returns the table."""
    check_replaceable(*(output / name for name in (_EXPERIMENT, "table.html", "table.md")))
    data, pipelines_file = _data(options), options.pipelines_file
    missing: Mapping[str, str] = {}
    hours: list[float | None] = [None] * len(experiment.rows)
    if options.train:
        steps = _steps(options, experiment, output)
        show_plan(steps, experiment, output)
        build = partial(build_index, data=data, ray=options.ray)
        pipelines_file = make_models(steps, experiment, build, output, options.ray, options.jobs)
        missing = steps.missing
        hours = [steps.processor_hours(row) for row in experiment.rows]
    elif experiment.pipelines and pipelines_file is None:
        steps = _steps(options, experiment, output, is_plan=bool(experiment.steps))
        missing = untrained(steps, experiment) if experiment.steps else {}
        pipelines_file = output / PIPELINES
        if not (missing and pipelines_file.exists()):  # of a training, with all pipelines
            pipelines_file = write_pipelines(steps, output)

    @cache
    def open_index(name: str) -> Pipelines:
        source = experiment.indexes[name]
        if source.build and not (source.path / "manifest.json").exists():
            if str(source.path) in missing:
                raise InputError(f"{source.path}: no index", missing[str(source.path)])
            build_index(source, data)
        return Pipelines(OpenIndex.open(source.path), pipelines_file)

    def open_named(name: str) -> LoadedTestSet:
        own = experiment.test_sets.get(name)
        found = own.load(name, data) if own else open_test_set(name, data=data, download=options.download)
        return with_known_answers(found, experiment.training.get(name, []), data)

    table = run_experiment(experiment, open_index, open_named, output, log_cell, write_report, missing)
    rows = [
        row.model_copy(update={"processor_hours": spent})
        for row, spent in zip(table.rows, hours, strict=True)
    ]
    origins = {
        name: provenance(PROGRAM, argv, open_index(name).index, {"experiment": file}, open_index(name).models)
        for name, source in experiment.indexes.items()
        if (source.path / "manifest.json").exists()
    }
    table = table.model_copy(update={"provenance": origins, "rows": rows})
    write_output_json(output / _EXPERIMENT, table.model_dump(mode="json"))
    document = table_document(table)
    write_output(output / "table.html", html_page(document).encode())
    write_output(output / "table.md", markdown_page(document).encode())
    return table


def _steps(
    options: ExperimentOptions, experiment: Experiment, output: Path, *, is_plan: bool = False
) -> Steps:
    """The steps of the experiment at its scale. Raises `UsageError` for an unknown one."""
    is_plan = is_plan or options.plan
    return Steps(experiment, options.scale, _data(options), output / "steps", is_plan=is_plan)


def _data(options: ExperimentOptions) -> Path | None:
    """The folder of the user's own data."""
    return options.data or (Path(os.environ["LINKSEEK_DATA"]) if os.environ.get("LINKSEEK_DATA") else None)


def build_index(source: IndexSource, data: Path | None, ray: str | None = None) -> None:
    """Build an index with the options in the experiment's file, in a process of its own or on a Ray cluster.

    Raises `InputError` if it cannot be built; the build itself says why.
    """
    if any("{data}" in option for option in source.build) and data is None:
        raise InputError(
            f"{source.path}: no index here, and its corpus lies among the user's own data",
            "Say where: --data DIR, or LINKSEEK_DATA.",
        )
    arguments = [option.replace("{data}", str(data)) for option in source.build]
    arguments = [str(bundled(a)) if a.startswith("samples/") else a for a in arguments]
    arguments += ["--ray", ray] if ray else []
    run_step(["build", "--index", str(source.path), *arguments], f"the index {source.path}")


def log_cell(cell: CellRun) -> None:
    """A line for each cell."""
    text = f"{cell.test_set}, {cell.pipeline}: {cell.status}"
    if cell.seconds is not None:
        text += f", {cell.seconds:,.1f} s"
    log_line(text + (f" ({cell.reason})" if cell.reason else ""))
