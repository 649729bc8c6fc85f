"""The cells of an experiment: one run for each pipeline and test set, kept once it is complete.

A cell is a TREC run in OUTPUT/TEST-SET/runs/ with a small file next to it that records its inputs. Started
again, an experiment makes only the cells that are missing or have other inputs; measures are computed anew
from the runs each time, which takes seconds. A cell that cannot be made has a reason and stops no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.tables.definition import (
    CellFigures,
    Column,
    Experiment,
    ExperimentTable,
    Figure,
    Mean,
    Row,
    RowFigures,
    Status,
)
from experiments.tables.trainings import RowComparison, Trainings, compare_rows, estimate
from linkseek.app.evaluation.measures import bootstrap_interval, mean_of, parse_measure
from linkseek.app.evaluation.results import Results, TestSetFacts
from linkseek.app.evaluation.runner import EvaluationPlan, evaluate, run_path
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.app.pipelines.pipeline_kinds import RerankEntry
from linkseek.app.testsets import LoadedTestSet
from linkseek.indexer.files.hashes import file_sha256
from linkseek.indexer.program.errors import DamagedIndexError, LinkseekError, UsageError, raise_of_machine
from linkseek.indexer.program.paths import inside
from linkseek.indexer.store.artifacts import DENSE, read_json, value_sha256, vector_part
from linkseek.indexer.store.outputs import check_replaceable, write_output_json
from linkseek.reranker.reranking import Long
from linkseek.retriever.queries import evenly_spread
from linkseek.retriever.search.runs import write_run
from linkseek.retriever.search.searching import search

_BATCH = 256


@dataclass(frozen=True, slots=True)
class CellRun:
    """One pipeline on one test set; `reason` where there is no run."""

    pipeline: str
    test_set: str
    status: Status
    reason: str = ""
    run: Path | None = None
    seconds: float | None = None


def run_experiment(
    experiment: Experiment,
    open_index: Callable[[str], Pipelines],
    open_test_set: Callable[[str], LoadedTestSet],
    output: Path,
    on_cell: Callable[[CellRun], None] = lambda cell: None,
    on_results: Callable[[Results, Path], None] = lambda results, folder: None,
    missing: Mapping[str, str] = MappingProxyType({}),
) -> ExperimentTable:
    """Make the missing cells, measure everything, and return the table.

    open_index: from a name in `experiment.indexes` to the pipelines of that index. open_test_set: from
    a name to a test set. A `LinkseekError` of either is the reason why cells are missing, except a
    `UsageError`: then the file names something unknown. on_cell: called with each cell as it ends.
    on_results: called with the results of each test set, and their folder. missing: what to get for a
    pipeline, by its name.
    Writes OUTPUT/TEST-SET/runs/*.trec and, for each test set with a run, its results.json; a test set that
    is asked of several indexes has a folder TEST-SET-INDEX for each further one.
    """
    columns: dict[str, list[Column]] = {}  # by folder
    for column in experiment.columns:
        columns.setdefault(experiment.folder_of(column), []).append(column)
    tables = {
        name: _test_set_table(
            experiment, name, group, open_index, open_test_set, inside(output, name), on_cell, missing
        )
        for name, group in columns.items()
    }
    for name, table in tables.items():
        if table.results:
            on_results(table.results, inside(output, name))
    numbered = [
        (number, tables[experiment.folder_of(column)]) for number, column in enumerate(experiment.columns)
    ]
    rows = [
        RowFigures(
            name=row.name,
            pipeline=row.pipeline,
            group=row.group,
            cells=[_figures(experiment, row, number, table) for number, table in numbered],
        )
        for row in experiment.rows
    ]
    return ExperimentTable(
        title=experiment.title,
        source=experiment.source,
        note=experiment.note,
        indexes={name: str(index.path) for name, index in experiment.indexes.items()},
        depth=experiment.depth,
        columns=[
            column.model_copy(update={"limit": experiment.limit_of(column.test_set)})
            for column in experiment.columns
        ],
        rows=rows,
        differences=[row_differences(experiment, rows, number) for number, _ in numbered],
    )


def _reading(pipelines: Pipelines, long: Long) -> Pipelines:
    """The pipelines, with re-rankers that read long texts in this way unless their table says another."""
    for name, entry in pipelines.entries.items():
        if isinstance(entry, RerankEntry) and "long" not in entry.model_fields_set:
            pipelines.entries[name] = entry.model_copy(update={"long": long})
    return pipelines


@dataclass(frozen=True, slots=True)
class _TestSetTable:
    """The cells of one test set by pipeline, the results of their runs, and the set's groups of questions."""

    cells: Mapping[str, CellRun]
    results: Results | None
    groups: Mapping[str, Sequence[str]]


def _test_set_table(
    experiment: Experiment,
    name: str,
    columns: Sequence[Column],
    open_index: Callable[[str], Pipelines],
    open_test_set: Callable[[str], LoadedTestSet],
    folder: Path,
    on_cell: Callable[[CellRun], None],
    missing: Mapping[str, str],
) -> _TestSetTable:
    """name: for messages. columns: of the same test set and the same index."""
    set_name = columns[0].test_set
    names: dict[str, None] = {}  # of the pipelines, each once
    for row in experiment.rows:
        for column in columns:
            names |= dict.fromkeys(row.pipelines(column, experiment.seeds))
    try:
        test_set = open_test_set(set_name)
        pipelines = _reading(open_index(experiment.index_of(columns[0])), experiment.long)
    except UsageError:
        raise
    except LinkseekError as error:
        without = [CellRun(pipeline, name, "missing", f"{error.message}. {error.hint}") for pipeline in names]
        for cell in without:
            on_cell(cell)
        return _TestSetTable({cell.pipeline: cell for cell in without}, None, {})
    queries = evenly_spread(test_set.queries, experiment.limit_of(set_name) or len(test_set.queries))
    ids = {query.id for query in queries}
    groups = {group: tuple(i for i in members if i in ids) for group, members in test_set.groups.items()}
    groups = {group: members for group, members in groups.items() if members}
    test_set = replace(test_set, queries=queries, groups=groups)
    cells = {}
    for pipeline in names:
        if pipeline in missing and pipeline not in pipelines.entries:
            cells[pipeline] = CellRun(pipeline, name, "missing", missing[pipeline])
        else:
            cells[pipeline] = _make(pipelines, pipeline, name, test_set, experiment.depth, folder)
        on_cell(cells[pipeline])
    results = _measure(experiment, columns, pipelines, test_set, [*cells.values()], folder)
    return _TestSetTable(cells, results, groups)


def _make(
    pipelines: Pipelines, name: str, called: str, test_set: LoadedTestSet, depth: int, folder: Path
) -> CellRun:
    """Run one pipeline on one test set, unless its run is complete. called: what messages call the set."""
    if name not in pipelines.entries:
        hint = "name it in a file for --pipelines-file; see docs/results/experiments.md"
        return CellRun(name, called, "no pipeline", hint)
    if name not in pipelines.available():
        return CellRun(name, called, "missing", f'the vectors, run or model of "{name}" are not here')
    path = run_path(folder, name)
    made_from = _made_from(pipelines, name, test_set, depth)
    if _is_complete(path, made_from):
        return CellRun(name, called, "kept", run=path)
    check_replaceable(path, path.with_suffix(".json"))
    try:
        k = min(depth, len(pipelines.index.passages))
        ranking, seconds, _ = search(pipelines.open(name), test_set.queries, k, _BATCH, name)
    except LinkseekError as error:
        return CellRun(name, called, "failed", str(error))
    write_run(path, ranking, pipelines.index.passages.ids, tag=name)
    record = {"made_from": made_from, "run_sha256": file_sha256(path), "seconds": seconds}
    write_output_json(path.with_suffix(".json"), record)
    return CellRun(name, called, "done", run=path, seconds=seconds)


def _made_from(pipelines: Pipelines, name: str, test_set: LoadedTestSet, depth: int) -> dict[str, Any]:
    """The inputs of a run: if any of them changes, it is made anew.

    A part's fingerprint says when the corpus was last written; what counts is what is in the part.
    """
    index, entries = pipelines.index, pipelines.fingerprint(name)
    encoders = (entry["encoder"] for entry in entries.values() if "encoder" in entry)
    default = index.manifest.default_encoder
    used = {vector_part(str(encoder or default)) for encoder in encoders}
    return {
        "entries": entries,
        "index": {"text": index.manifest.text.to_json()}
        | {
            part: value_sha256(
                {key: value for key, value in record.to_json().items() if key != "fingerprint"}
            )
            for part, record in index.parts.items()
            if part in used or not part.startswith(f"{DENSE}/")
        },
        "queries": value_sha256([[query.id, query.text] for query in test_set.queries]),
        "depth": depth,
    }


def _is_complete(path: Path, made_from: Mapping[str, Any]) -> bool:
    try:
        record = read_json(path.with_suffix(".json"))
        return bool(record["made_from"] == made_from and record["run_sha256"] == file_sha256(path))
    except (DamagedIndexError, OSError, KeyError, TypeError) as error:
        raise_of_machine(error)
        return False


def _measure(
    experiment: Experiment,
    columns: Sequence[Column],
    pipelines: Pipelines,
    test_set: LoadedTestSet,
    cells: Sequence[CellRun],
    folder: Path,
) -> Results | None:
    """All runs of a test set, measured together; None without runs."""
    runs = [cell.run for cell in cells if cell.run]
    if not runs:
        return None
    results = evaluate(
        EvaluationPlan(
            index=pipelines.index,
            test_set=test_set,
            pipelines={},
            runs=runs,
            judged_by=test_set.name,
            facts=TestSetFacts(**test_set.described()),
            baseline=_baseline(experiment, columns, {run.stem for run in runs}),
            depth=experiment.depth,
            measures=list(dict.fromkeys(measure for column in columns for measure in column.measures)),
            output=folder,
        )
    )
    results.write(folder)
    return results


def _baseline(experiment: Experiment, columns: Sequence[Column], names: Collection[str]) -> str | None:
    """The pipeline of the baseline's row, if it was run; None: the first that was."""
    for row in experiment.rows:
        if row.name == experiment.baseline:
            pipelines = [name for column in columns for name in row.pipelines(column, experiment.seeds)]
            return next((name for name in pipelines if name in names), None)
    return None


def _figures(experiment: Experiment, row: Row, number: int, table: _TestSetTable) -> CellFigures:
    """One row's figures in one column, next to the paper's."""
    column = experiment.columns[number]
    names = row.pipelines(column, experiment.seeds)
    cells = [table.cells[name] for name in names if name in table.cells]
    status: Status = "printed only"
    reason = ""
    if cells:  # the first without a run decides, else the first that is new
        decisive = next((cell for cell in cells if cell.run is None), None)
        decisive = decisive or next((cell for cell in cells if cell.status == "done"), cells[0])
        status, reason = decisive.status, decisive.reason
    if column.group and column.group not in table.groups and status in ("done", "kept"):
        unknown = f'the test set {column.test_set} has no group "{column.group}"'
        status, reason = "missing", f"{unknown}, or none of its questions is used"
    results = table.results if status in ("done", "kept") else None
    group = table.groups[column.group] if results and column.group else None
    measures, by_measure = {}, {}
    questions: tuple[str, ...] = ()
    for place, measure in enumerate(column.measures):
        mean = None
        if results:
            questions, values = _values(results, names, measure, group)
            mean, by_measure[measure] = mean_and_interval(values), values.tolist()
        measures[measure] = Figure(expected=experiment.expected(row, number, place), measured=mean)
    return CellFigures(
        status=status,
        reason=reason,
        seeds=len(names),
        measures=measures,
        questions=questions,
        values=by_measure,
    )


def _values(
    results: Results, names: Sequence[str], measure: str, group: Collection[str] | None
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Ids of queries, and a measure's values of some pipelines for them, float64 [pipelines, n].

    group: the ids of its queries; None for all.
    """
    name = parse_measure(measure).name
    per_seed = [results.pipelines[pipeline].measures[name].per_query for pipeline in names]
    members = set(per_seed[0] if group is None else group)
    ids = tuple(id_ for id_ in per_seed[0] if id_ in members)
    return ids, np.array([[values[id_] for id_ in ids] for values in per_seed], np.float64)


def mean_and_interval(values: NDArray[np.float64]) -> Mean:
    """The mean over queries and seeds, its interval over both, and the spread of the seeds' means.

    values: float64 [seeds, n].
    """
    by_query, by_seed = values.mean(axis=0), values.mean(axis=1)
    low, high = bootstrap_interval(by_query)
    if len(values) > 1 and (both := estimate(by_query, by_seed)).error:
        low, high = np.clip(both.interval(), 0.0, 1.0).tolist()
    spread = float(by_seed.std(ddof=1)) if len(values) > 1 else None
    return Mean(mean=mean_of(values), low=low, high=high, queries=values.shape[1], spread_of_seeds=spread)


def row_differences(experiment: Experiment, rows: Sequence[RowFigures], number: int) -> list[RowComparison]:
    """The pairs of rows of each group in a column; then a baseline outside of groups with each row of one.

    A name that rows of several groups have is shown with its group.
    """
    names_of = Counter(row.name for row in rows)
    column = experiment.columns[number]
    measured: dict[str, dict[str, dict[str, Trainings]]] = {}  # group -> row -> measure
    for row in rows:
        cell = row.cells[number]
        if cell.values:
            found = {m: np.array(values, np.float64) for m, values in cell.values.items()}
            of_group = measured.setdefault(row.group, {})
            several = row.group and names_of[row.name] > 1
            label = f"{row.group}: {row.name}" if several else row.name
            of_group[label] = {m: Trainings(cell.questions, v) for m, v in found.items()}
    pairs = [pair for group in measured.values() for pair in compare_rows(group, column.measures)]
    alone = measured.pop("", {})
    if experiment.baseline in alone:
        first = {experiment.baseline: alone[experiment.baseline]}
        others = {name: values for group in measured.values() for name, values in group.items()}
        pairs += compare_rows(first | others, column.measures, experiment.baseline)
    return pairs
