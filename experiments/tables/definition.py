"""Experiments: a table of figures as a TOML file, with a paper's printed figures; the table as a record.

    title, source            of the table, and where the expected figures are printed
    [indexes.NAME]           path; build: the options of linkseek build that make it
    depth, limit, seeds      results for a question; questions of a set, evenly spread; one run for each seed
    long                     how re-rankers read long texts where their pipeline does not say it: "max", in
                             windows, or "first", cut off, as the papers do and as five folds are ranked
    baseline                 the row that others are tested against (default: the first that was run)
    [test_sets.NAME]         questions and judgements of the experiment's own: files of the folder of --data
    [[columns]]              test_set, measures; index: where there are several; label; group: a subset
                             of the test set; limit: for this set; fill; scales: if not at all of them
    [[rows]]                 name, pipeline, group; scales, as of columns; expected: for each column a list,
                             one number a measure
    [words], [scales.NAME], [steps.NAME], [pipelines.NAME]: how the models of rows are made, for --train;
                             see `experiments.tables.steps`; words of a scale also stand in indexes,
                             test sets and labels
    [files]                  what to get where a file of {data} is missing: "{data}/NAME" = "its address"

A pipeline is a name in pipelines.toml. "{seed}" in it is replaced by each seed, and the row shows the
mean; other words in braces are replaced by the column's `fill`, such as the set that it was trained on.
An unknown name is a model that is still to be trained: its cells say so, and the rest of the table is
made. A row without a pipeline shows a paper's figures only. Expected figures are in the paper's own
units: accuracy in percent, the rest as fractions; `nan` where it prints none.

[small] contains other values of the same keys for a table of the same rows on a small corpus, which has no
expected figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, computed_field, model_serializer

from experiments.tables.trainings import RowComparison
from linkseek.app.evaluation.measures import parse_measure
from linkseek.app.evaluation.provenance import Provenance
from linkseek.app.evaluation.records import JsonRecord
from linkseek.app.testsets.definition import Corpus, LoadedTestSet, TestSet
from linkseek.app.testsets.registry import places
from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.paths import check_name
from linkseek.indexer.program.settings import Settings, read_toml, validate
from linkseek.indexer.program.text import nearest
from linkseek.reranker.reranking import Long


class IndexSource(Settings):
    """An index folder, and how it is made if it is missing; "{data}": the folder of --data."""

    path: Path
    build: list[str] = Field([])
    cost_of_encoder: tuple[float, float] = (0.0, 0.0)
    """minutes and megabytes that each further encoder takes: its vectors, and their runs"""
    costs_of_encoder: dict[str, tuple[float, float]] = Field(default={})
    """the same by scale"""


class StepTable(Settings):
    """A command that makes a part of a model; costs: minutes and megabytes, by scale."""

    command: str
    costs: dict[str, tuple[float, float]] = Field(default={})


class OwnTestSet(Settings):
    """A test set that Linkseek does not have: names of files in the folder of --data."""

    title: str
    queries: str
    qrels: str = ""
    description: str = ""
    licence: str = ""
    source: str = ""
    group: list[str] = Field([])
    """fields of the questions whose values are groups"""

    def load(self, name: str, data: Path | None) -> LoadedTestSet:
        """Read it. Raises `InputError` if a file is missing, or has judgements without their questions."""
        files: Any = {
            "kind": "files",
            "queries": (self.queries,),
            "qrels": (self.qrels,) if self.qrels else (),
        }
        test_set = TestSet(
            name=name,
            title=self.title,
            description=self.description,
            licence=self.licence,
            citation=self.source,
            url="",
            corpus=Corpus(title="", file="", options="", index=name),
            sources=(files | {"group": tuple(self.group)},),
        )
        return test_set.load(places(data))


class TrainingFiles(Settings):
    """Questions that models have read, and their judgements: names of files in the folder of --data.

    first: only so many of the questions were read.
    """

    queries: str
    qrels: str = ""
    first: Annotated[int, Field(ge=1)] | None = None


class Column(Settings):
    """One test set, or a group of its questions, with the measures of its column."""

    test_set: str
    index: str = ""
    measures: Annotated[list[str], Field(min_length=1)]
    label: str = ""
    group: str = ""
    limit: Annotated[int, Field(ge=1)] | None = None
    fill: dict[str, str] = Field(default={})
    scales: list[str] = Field(default=[], exclude=True)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def title(self) -> str:
        """The head of the column."""
        return self.label or self.test_set


class Row(Settings):
    """One method: a pipeline under the name that the paper gives it."""

    model_config = ConfigDict(allow_inf_nan=True)

    name: str
    pipeline: str = ""
    group: str = ""
    expected: list[list[float]] = Field([])
    scales: list[str] = Field(default=[], exclude=True)

    def pipelines(self, column: Column, seeds: list[int]) -> list[str]:
        """The pipelines of one cell: none, one, or one a seed."""
        name = self.pipeline
        for word, value in column.fill.items():
            name = name.replace(f"{{{word}}}", value)
        if "{seed}" in name:
            return [name.replace("{seed}", str(seed)) for seed in seeds]
        return [name] if name else []


MAX_CELLS = 100_000
"""Of an experiment, one for each row, column and seed."""

Words = str | int | float | list[str | int | float]
"""The values of a word."""


class Experiment(Settings):
    """The content of a file; see the description of the module."""

    hint: ClassVar[str] = "See experiments/ for examples."

    title: str
    source: str
    note: str = ""
    indexes: Annotated[dict[str, IndexSource], Field(min_length=1)]
    depth: Annotated[int, Field(ge=1)] = 100
    limit: Annotated[int, Field(ge=1)] | None = None
    long: Long = "max"
    seeds: list[int] = Field([1], min_length=1, max_length=1000)
    baseline: str = ""
    test_sets: dict[str, OwnTestSet] = Field(default={})
    training: dict[str, list[TrainingFiles]] = Field(default={})
    """of a test set, what its rows' models have read: then it has the groups "answer known" and "answer not
    known", of a set without answers "read" and "not read", of its questions"""
    columns: Annotated[list[Column], Field(min_length=1)]
    rows: Annotated[list[Row], Field(min_length=1)]
    words: dict[str, Words] = Field(default={})
    scales: dict[str, dict[str, Words]] = Field({"small": {}})
    files: dict[str, str] = Field(default={})
    steps: dict[str, StepTable] = Field(default={})
    pipelines: dict[str, dict[str, Any]] = Field(default={})

    def at_scale(self, scale: str) -> Experiment:
        """The experiment with the columns of a scale, and its words in indexes, test sets and labels."""
        words = self.words | self.scales.get(scale, {})

        def fill(text: str) -> str:
            for word, value in words.items():
                text = text if isinstance(value, list) else text.replace(f"{{{word}}}", str(value))
            return text

        indexes = {
            name: IndexSource(
                path=Path(fill(str(index.path))),
                build=[fill(option) for option in index.build],
                cost_of_encoder=index.costs_of_encoder.get(scale, index.cost_of_encoder),
            )
            for name, index in self.indexes.items()
        }
        numbers = [n for n, column in enumerate(self.columns) if not column.scales or scale in column.scales]
        columns = [
            column.model_copy(update={"test_set": fill(column.test_set), "label": fill(column.label)})
            for column in (self.columns[number] for number in numbers)
        ]
        rows = [
            row.model_copy(update={"expected": [row.expected[number] for number in numbers]})
            if row.expected
            else row
            for row in self.rows
            if not row.scales or scale in row.scales
        ]
        used = {self.index_of(column) for column in columns}
        indexes = {name: index for name, index in indexes.items() if name in used}
        return self.model_copy(update={"indexes": indexes, "columns": columns, "rows": rows})

    def index_of(self, column: Column) -> str:
        """The name of the index that a column is evaluated on."""
        return column.index or next(iter(self.indexes))

    def folder_of(self, column: Column) -> str:
        """The folder of a column: its test set's, with the index if that is not the first of the set."""
        index = self.index_of(column)
        first = next(self.index_of(one) for one in self.columns if one.test_set == column.test_set)
        return column.test_set if index == first else f"{column.test_set}-{index}"

    def limit_of(self, test_set: str) -> int | None:
        """How many of a test set's questions are used: None for all."""
        limits = [c.limit for c in self.columns if c.test_set == test_set and c.limit is not None]
        return limits[0] if limits else self.limit

    def expected(self, row: Row, column: int, measure: int) -> float | None:
        """The paper's figure for one cell, None where it has none."""
        figures = row.expected[column] if column < len(row.expected) else []
        value = figures[measure] if measure < len(figures) else math.nan
        return None if math.isnan(value) else value


Status = Literal["done", "kept", "no pipeline", "missing", "failed", "printed only"]
"""no pipeline: the name is unknown. missing: an index, a run, a model or data are not here."""


class Mean(JsonRecord):
    """A mean over questions and seeds, its interval over both, and the spread of the seeds' means."""

    mean: float
    low: float
    high: float
    queries: int
    spread_of_seeds: float | None


class Figure(JsonRecord):
    """A paper's figure and the measured one; None for a missing figure."""

    expected: float | None
    measured: Mean | None

    @model_serializer
    def _flat(self) -> dict[str, Any]:
        return {"expected": self.expected} | (self.measured.model_dump() if self.measured else {})


class CellFigures(JsonRecord):
    """One row in one column: a figure for each measure; reason: why nothing was measured."""

    status: Status
    reason: str
    seeds: int
    measures: dict[str, Figure]
    questions: tuple[str, ...] = Field((), exclude=True)
    values: dict[str, list[list[float]]] = Field({}, exclude=True)
    """of each measure, by seed and question; in a file of their own next to a record"""


class RowFigures(JsonRecord):
    """One method: a cell for each column."""

    name: str
    pipeline: str
    group: str
    cells: list[CellFigures]
    processor_hours: float | None = None
    """of the steps that its models need, also of those that it shares; None: not known"""


class ExperimentTable(JsonRecord):
    """An experiment's results, as experiment.json contains them.

    differences: for each column, every pair of the measured rows of a group, and a baseline that is in no
    group with every row of one, by the mean of a row's seeds for each question. Seeds are as random as
    questions. Holm's correction is over the pairs of a group, and over those with the baseline.
    provenance: by index.
    """

    title: str
    source: str
    note: str
    indexes: dict[str, str]
    depth: int
    columns: list[Column]
    rows: list[RowFigures]
    differences: list[list[RowComparison]]
    provenance: dict[str, Provenance] = Field(default_factory=dict)

    def figures(self, row: RowFigures) -> Iterator[tuple[str, Status, Figure]]:
        """Measure, status and figure of a row, in the order of columns."""
        for column, cell in zip(self.columns, row.cells, strict=True):
            for measure in column.measures:
                yield measure, cell.status, cell.measures[measure]


def read_experiment(path: Path, *, small: bool = False) -> Experiment:
    """An experiment from a file; small: with the values of its table [small].

    Raises `UsageError` naming file and key for an unreadable file, an unknown key, a value of the
    wrong type, an unknown measure, a number of expected figures that does not fit the columns.
    """
    values = read_toml(path, Experiment.hint)
    smaller = values.pop("small", None)
    if small:
        if not isinstance(smaller, dict):
            raise UsageError(f"{path}: no table [small]", "Run it without --small.")
        values = {**values, **smaller}
        rows = values.get("rows")
        for row in rows if isinstance(rows, list) else []:
            if isinstance(row, dict):
                row.pop("expected", None)
    experiment = validate(Experiment, values, file=path)
    if small:  # at every scale, its steps have the costs of the small one
        for step in experiment.steps.values():
            step.costs.update(
                dict.fromkeys(experiment.scales, step.costs["small"]) if "small" in step.costs else {}
            )
    for name in experiment.indexes:
        check_name(name, f"{path}: the index")
    used = {experiment.folder_of(c): (c.test_set, c.index) for c in reversed(experiment.columns)}
    for column in experiment.columns:
        check_name(column.test_set, f"{path}: the test set")
        folder = experiment.folder_of(column)
        if used[folder] != (column.test_set, column.index):
            raise UsageError(f'{path}: two test sets have the folder "{folder}"', "Rename one of them.")
    cells = len(experiment.rows) * len(experiment.columns) * len(experiment.seeds)
    if cells > MAX_CELLS:
        raise UsageError(
            f"{path}: {cells:,} cells (rows x columns x seeds), expected {MAX_CELLS:,} at most",
            "Use fewer seeds, or several files.",
        )
    parts = {f'column "{column.title}"': column.scales for column in experiment.columns}
    parts |= {f'row "{row.name}"': row.scales for row in experiment.rows}
    for part, scales in parts.items():
        for scale in scales:
            if scale not in experiment.scales:
                raise UsageError(f'{path}: {part}: no scale "{scale}"', nearest(scale, experiment.scales))
    for column in experiment.columns:
        for measure in column.measures:
            try:
                parse_measure(measure)
            except UsageError as error:
                raise UsageError(f'{path}: column "{column.title}": {error.message}', error.hint) from None
        if column.index not in ("", *experiment.indexes):
            raise UsageError(
                f'{path}: column "{column.title}": no index "{column.index}"',
                nearest(column.index, set(experiment.indexes)),
            )
        if not column.index and len(experiment.indexes) > 1:
            raise UsageError(
                f'{path}: column "{column.title}" does not say its index',
                f"One of: {', '.join(experiment.indexes)}.",
            )
    widths = [len(column.measures) for column in experiment.columns]
    for row in experiment.rows:
        given = [len(figures) for figures in row.expected]
        fits = len(given) == len(widths) and all(n in (0, w) for n, w in zip(given, widths, strict=True))
        if given and not fits:
            raise UsageError(
                f'{path}: row "{row.name}": expected has lists of {given} figures, the columns have {widths}',
                "Give one list per column and one number per measure; [] or nan for missing ones.",
            )
    names = Counter((row.group, row.name) for row in experiment.rows)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice:
        raise UsageError(f'{path}: two rows are called "{twice[1]}"', "Give each row a name of its own.")
    if experiment.baseline and experiment.baseline not in {row.name for row in experiment.rows}:
        raise UsageError(
            f'{path}: baseline "{experiment.baseline}" is no row',
            nearest(experiment.baseline, {row.name for row in experiment.rows}),
        )
    return experiment
