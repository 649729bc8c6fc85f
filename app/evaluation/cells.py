"""The cells of an experiment: one run for each pipeline and test set, kept once it is whole.

A cell is a TREC run in OUTPUT/TEST-SET/runs/ with a small file beside it that says what it was made
from. Started again, an experiment makes only the cells that are missing or were made from something
else; measures are computed anew from the runs each time, which takes seconds. A cell that cannot be
made says why and holds nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from app.evaluation.experiments import Column, Experiment, Row
from app.evaluation.measures import bootstrap_interval, mean_of, parse_measure
from app.evaluation.runner import evaluate, search
from app.pipelines import Pipelines
from app.report import write_report
from app.testsets import LoadedTestSet
from indexer.base.errors import DamagedIndexError, LinkseekError, UsageError
from indexer.store.artifacts import file_sha256, read_json, value_sha256, write_json
from retriever.queries import evenly_spread
from retriever.search.runs import write_run

Status = Literal["done", "kept", "no pipeline", "missing", "failed", "printed only"]
"""no pipeline: nobody has named one so. missing: an index, a run, a model or data are not here."""


@dataclass(frozen=True, slots=True)
class Cell:
    """How one pipeline fared on one test set; `reason` where there is no run."""

    pipeline: str
    test_set: str
    status: Status
    reason: str = ""
    run: Path | None = None
    seconds: float | None = None


OnCell = Callable[[Cell], None]
OpenIndex = Callable[[str], Pipelines]
OpenTestSet = Callable[[str], LoadedTestSet]


def run_experiment(
    experiment: Experiment,
    open_index: OpenIndex,
    open_test_set: OpenTestSet,
    output: Path,
    on_cell: OnCell = lambda cell: None,
) -> dict[str, Any]:
    """Make what is missing, measure everything, and return the table as plain JSON.

    open_index: from a name in `experiment.indexes` to the pipelines of that index. open_test_set: from
    a name to a test set. What either raises as a `LinkseekError` is the reason why cells are missing,
    except a `UsageError`: a name that is wrong in the file.
    on_cell is told of each cell as it ends.
    Writes OUTPUT/TEST-SET/runs/*.trec and, for each test set with a run, its results.json and report.
    """
    tables = {
        name: _test_set_table(experiment, name, open_index, open_test_set, output / name, on_cell)
        for name in dict.fromkeys(column.test_set for column in experiment.columns)
    }
    return {
        "title": experiment.title,
        "source": experiment.source,
        "note": experiment.note,
        "indexes": {name: str(index.path) for name, index in experiment.indexes.items()},
        "depth": experiment.depth,
        "columns": [
            {**column.model_dump(), "title": column.title, "limit": experiment.limit_of(column.test_set)}
            for column in experiment.columns
        ],
        "rows": [
            {
                "name": row.name,
                "group": row.group,
                "cells": [
                    _figures(experiment, row, number, tables[column.test_set])
                    for number, column in enumerate(experiment.columns)
                ],
            }
            for row in experiment.rows
        ],
    }


@dataclass(frozen=True, slots=True)
class _TestSetTable:
    """The cells of one test set, what the runner measured, and the set's groups of questions."""

    name: str
    cells: Sequence[Cell]
    results: Mapping[str, Any]
    groups: Mapping[str, Sequence[str]]


def _test_set_table(
    experiment: Experiment,
    name: str,
    open_index: OpenIndex,
    open_test_set: OpenTestSet,
    folder: Path,
    on_cell: OnCell,
) -> _TestSetTable:
    """All cells of one test set, and what the runner measured."""
    wanted = _pipelines(experiment, name)
    index = next(experiment.index_of(column) for column in experiment.columns if column.test_set == name)
    try:
        test_set = open_test_set(name)
        pipelines = open_index(index)
    except UsageError:
        raise
    except LinkseekError as error:
        missing = [Cell(pipeline, name, "missing", error.message) for pipeline in wanted]
        for cell in missing:
            on_cell(cell)
        return _TestSetTable(name, missing, {}, {})
    test_set = _limited(test_set, experiment.limit_of(name) or len(test_set.queries))
    cells = []
    for pipeline in wanted:
        cells.append(_make(pipelines, pipeline, test_set, experiment.depth, folder))
        on_cell(cells[-1])
    results = _measure(experiment, pipelines, test_set, cells, folder)
    return _TestSetTable(name, cells, results, test_set.groups)


def _limited(test_set: LoadedTestSet, limit: int) -> LoadedTestSet:
    """A test set of so many questions; groups of which none is left are left out."""
    queries = evenly_spread(test_set.queries, limit)
    asked = {query.id for query in queries}
    groups = {name: tuple(id_ for id_ in ids if id_ in asked) for name, ids in test_set.groups.items()}
    return replace(test_set, queries=queries, groups={name: ids for name, ids in groups.items() if ids})


def _pipelines(experiment: Experiment, test_set: str) -> list[str]:
    """The pipelines that run on a test set, each once."""
    columns = [column for column in experiment.columns if column.test_set == test_set]
    cells = [(row, column) for row in experiment.rows for column in columns]
    return list(
        dict.fromkeys(name for row, column in cells for name in row.pipelines(column, experiment.seeds))
    )


# --- making a cell -------------------------------------------------------------------------------


def _make(pipelines: Pipelines, name: str, test_set: LoadedTestSet, depth: int, folder: Path) -> Cell:
    """Run one pipeline on one test set, unless the run is there already."""
    if name not in pipelines.entries:
        return Cell(name, test_set.name, "no pipeline", _NO_PIPELINE)
    if name not in pipelines.available(with_runs=True):
        return Cell(name, test_set.name, "missing", f'the vectors, run or model of "{name}" are not here')
    path = folder / "runs" / f"{name}.trec"
    made_from = _made_from(pipelines, name, test_set, depth)
    if _is_whole(path, made_from):
        return Cell(name, test_set.name, "kept", run=path)
    try:
        k = min(depth, len(pipelines.index.passages))
        ranking, seconds = search(pipelines.open(name), test_set.queries, k, _BATCH, name)
    except LinkseekError as error:
        return Cell(name, test_set.name, "failed", str(error))
    write_run(path, ranking, pipelines.index.passages.ids, tag=name)
    write_json(_beside(path), {"made_from": made_from, "run_sha256": file_sha256(path), "seconds": seconds})
    return Cell(name, test_set.name, "done", run=path, seconds=seconds)


_BATCH = 256
_NO_PIPELINE = "name it in a file for --pipelines-file; docs/evaluation.md tells how"


def _made_from(pipelines: Pipelines, name: str, test_set: LoadedTestSet, depth: int) -> dict[str, Any]:
    """What a run depends on: another value of any of it makes the run anew."""
    index = pipelines.index
    return {
        "entries": pipelines.fingerprint(name),
        "index": {"manifest": value_sha256(index.manifest)}
        | {part: value_sha256(manifest) for part, manifest in index.parts.items()},
        "queries": value_sha256([[query.id, query.text] for query in test_set.queries]),
        "depth": depth,
    }


def _is_whole(path: Path, made_from: Mapping[str, Any]) -> bool:
    try:
        noted = read_json(_beside(path))
        return bool(noted["made_from"] == made_from and noted["run_sha256"] == file_sha256(path))
    except (DamagedIndexError, OSError, KeyError, TypeError):
        return False


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


# --- measuring -----------------------------------------------------------------------------------


def _measure(
    experiment: Experiment,
    pipelines: Pipelines,
    test_set: LoadedTestSet,
    cells: Sequence[Cell],
    folder: Path,
) -> dict[str, Any]:
    """All runs of a test set, measured together; {} if there is none."""
    runs = [cell.run for cell in cells if cell.run]
    if not runs:
        return {}
    columns = [column for column in experiment.columns if column.test_set == test_set.name]
    results = evaluate(
        index=pipelines.index,
        queries=test_set.queries,
        pipelines={},
        runs=runs,
        qrels=test_set.qrels,
        qrels_name=test_set.name,
        answer_kind=test_set.answer_kind,
        groups=test_set.groups,
        test_set=test_set.described(),
        baseline=_baseline(experiment, columns, {run.stem for run in runs}),
        depth=experiment.depth,
        measures=list(dict.fromkeys(measure for column in columns for measure in column.measures)),
        output=folder,
    )
    write_json(folder / "results.json", results)
    write_report(results, folder)
    return results


def _baseline(experiment: Experiment, columns: Sequence[Column], names: Collection[str]) -> str | None:
    """The pipeline of the baseline's row, if it was run; None: the first that was."""
    for row in experiment.rows:
        if row.name == experiment.baseline:
            found = [name for column in columns for name in row.pipelines(column, experiment.seeds)]
            return next((name for name in found if name in names), None)
    return None


def _figures(experiment: Experiment, row: Row, number: int, table: _TestSetTable) -> dict[str, Any]:
    """One row's figures in one column, beside what the paper printed."""
    column = experiment.columns[number]
    names = row.pipelines(column, experiment.seeds)
    cells = [cell for name in names for cell in table.cells if cell.pipeline == name]
    status, reason = _status(cells)
    if column.group and column.group not in table.groups and status in ("done", "kept"):
        status = "missing"
        reason = f'the test set {table.name} has no group "{column.group}", or none of it was asked'
    measures = {}
    for place, measure in enumerate(column.measures):
        figure: dict[str, Any] = {"expected": experiment.expected(row, number, place)}
        if status in ("done", "kept"):
            figure |= _mean(table, names, parse_measure(measure).name, table.groups.get(column.group))
        measures[measure] = figure
    return {"status": status, "reason": reason, "seeds": len(names), "measures": measures}


def _status(cells: Sequence[Cell]) -> tuple[Status, str]:
    """Of the cells behind one figure: the first that has no run decides."""
    if not cells:
        return "printed only", ""
    worst = next((cell for cell in cells if cell.run is None), None)
    worst = worst or next((cell for cell in cells if cell.status == "done"), cells[0])
    return worst.status, worst.reason


def _mean(
    table: _TestSetTable, names: Sequence[str], measure: str, wanted: Sequence[str] | None
) -> dict[str, Any]:
    """The mean over queries and seeds, its interval over queries, and the spread of the seeds' means.

    wanted: the queries of a group; all where it is None.
    """
    per_seed = [table.results["pipelines"][name]["measures"][measure]["per_query"] for name in names]
    ids = [id_ for id_ in per_seed[0] if wanted is None or id_ in set(wanted)]
    values = np.array([[values[id_] for id_ in ids] for values in per_seed], np.float64)  # [seeds, n]
    low, high = bootstrap_interval(values.mean(axis=0))
    spread = float(values.mean(axis=1).std(ddof=1)) if len(names) > 1 else None
    return {
        "mean": mean_of(values),
        "low": low,
        "high": high,
        "queries": len(ids),
        "spread_of_seeds": spread,
    }
