"""The results of an evaluation: the one record that is written to results.json and read by everything else.

The runner fills it; the table, the report, the pages read it. A file is valid as a whole or
refused: nothing that reads it has to expect a missing value, except where a field says None.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, model_validator

from linkseek.app.evaluation.provenance import Provenance
from linkseek.app.evaluation.records import JsonRecord, Sparse, first_fault
from linkseek.indexer.index import Level
from linkseek.indexer.program.errors import InputError
from linkseek.indexer.program.frames import data_frame
from linkseek.indexer.store.outputs import write_output_json
from linkseek.retriever.answers import AnswerKind

RESULTS = "results.json"
VERSION: Final = 1
"""The version of the format."""

SIGNIFICANT = 0.05

MARGIN = 0.01
"""Two pipelines whose difference is certainly below this, one point, are level."""

TINY = 1e-12
"""A difference below this is a rounding error."""


def difference(a: float, b: float) -> float:
    """b - a, for two values of one question; 0 if they are equal but for rounding."""
    return b - a if abs(b - a) >= TINY else 0.0


Seconds = Annotated[float, Field(ge=0, le=1e9)]


class Score(JsonRecord):
    """A mean over `queries` questions, its 95 % interval, and the value of each."""

    mean: float
    low: float
    high: float
    queries: int
    per_query: dict[str, float]


class Percentiles(JsonRecord):
    """Seconds that one stage takes for a question, over `questions` questions."""

    p50: Seconds
    p95: Seconds
    p99: Seconds
    questions: int


class PipelineResults(JsonRecord):
    """The measures of a pipeline or of a run file, by name; latency by stage, "total" last.

    run: its file, from the folder of the results; empty if it was not written.
    """

    measures: dict[str, Score]
    run: str
    source: Literal["pipeline", "file"]
    seconds: float | None
    queries_per_second: float | None
    latency: dict[str, Percentiles] | None
    queries_without_results: int


class Comparison(JsonRecord):
    """Pipeline b against pipeline a by one measure, over `queries` queries.

    difference: mean(b) - mean(a); low, high: its 95 % bootstrap interval. p_*: two-sided; *_holm: corrected
    over the pairs of this measure. p_equivalence: the p-value of a difference of `MARGIN` or more,
    uncorrected. wins, ties, losses: of b. effect_size: Cohen's d of the paired differences, 0 where all are
    equal.
    """

    measure: str
    a: str
    b: str
    difference: float
    low: float
    high: float
    p_randomisation: float
    p_t: float
    p_randomisation_holm: float
    p_t_holm: float
    wins: int
    ties: int
    losses: int
    effect_size: float
    queries: int
    p_equivalence: float

    @property
    def p(self) -> float:
        """The p that decides, after Holm's correction."""
        return self.p_randomisation_holm

    @property
    def significant(self) -> bool:
        """Whether there is a difference, after Holm's correction."""
        return self.p < SIGNIFICANT

    @property
    def level(self) -> bool:
        """Whether the test of equivalence shows a difference below `MARGIN`."""
        return self.p_equivalence < SIGNIFICANT

    def reversed(self) -> Comparison:
        """The same pair, a against b."""
        turned = {"a": self.b, "b": self.a, "wins": self.losses, "losses": self.wins}
        turned |= {"difference": -self.difference, "low": -self.high, "high": -self.low}
        return self.model_copy(update={**turned, "effect_size": -self.effect_size})


class Curves(JsonRecord):
    """The mean of a measure at every depth of `ks`, by pipeline."""

    measure: Literal["accuracy", "recall"]
    ks: list[int]
    pipelines: dict[str, list[float]]


class Share(JsonRecord):
    """A mean over some of the questions; None where a pipeline was measured on none of them."""

    mean: float | None
    low: float | None
    high: float | None


class Bin(JsonRecord):
    """The questions with a property between `low` and `high`."""

    low: int | float
    high: int | float
    queries: int
    pipelines: dict[str, Share]
    query_ids: list[str]


class Binned(JsonRecord):
    """Questions by a property that is a number. without_value: how many have none."""

    label: str
    without_value: int = 0
    bins: list[Bin]


class Group(JsonRecord):
    """Questions of one kind: pipeline -> measure -> mean."""

    queries: int
    pipelines: dict[str, dict[str, float | None]]
    query_ids: list[str]


class Analyses(Sparse):
    """The main measure over parts of the questions, and all measures over groups."""

    overlap: Binned | None = None
    length: Binned
    title: Binned | None = None
    links: Binned | None = None
    groups: dict[str, Group] | None = None


class Question(Sparse):
    """A question as it was asked. relevant: the ids that are judged relevant; None without judgements."""

    id: str
    text: str
    answers: list[str]
    relevant: list[str] | None = None


class TestSetFacts(JsonRecord):
    """The test set, where the questions come from one."""

    name: str
    description: str
    licence: str
    source: str


class QuestionCounts(Sparse):
    """How many questions and judgements there are; None without judgements."""

    queries: int
    queries_with_answers: int
    queries_with_judgements: int | None = None
    judgements: int | None = None
    judged_ids_not_in_index: int | None = None


class Seeds(JsonRecord):
    """The seeds of all that is drawn at random."""

    bootstrap: int
    randomisation: int


class Results(JsonRecord):
    """An evaluation: docs/reference/formats.md explains the keys."""

    version: Literal[1]
    test_set: TestSetFacts | None
    questions: list[Question]
    answer_kind: AnswerKind = "tokens"
    baseline: str
    pipelines: dict[str, PipelineResults] = Field(min_length=1)
    measures: list[str] = Field(min_length=1)
    main_measure: str
    comparisons: list[Comparison]
    curves: Curves
    analyses: Analyses
    counts: QuestionCounts
    judged_level: Level | None
    depth: int
    batch_size: int
    seeds: Seeds
    warnings: list[str] = Field(default_factory=list)  # reasons to doubt the figures
    notes: list[str]
    provenance: Provenance | None = None

    @model_validator(mode="after")
    def _names_fit(self) -> Results:
        """Every pipeline and measure that is named was evaluated."""
        for pipeline in self._named_pipelines():
            if pipeline not in self.pipelines:
                raise ValueError(f'no pipeline "{pipeline}" was evaluated')
        measures = [m for pipeline in self.pipelines.values() for m in pipeline.measures]
        for measure in [self.main_measure, *measures, *(c.measure for c in self.comparisons)]:
            if measure not in self.measures:
                raise ValueError(f'no measure "{measure}"')
        if self.main_measure not in measures:
            raise ValueError(f'the main measure "{self.main_measure}" was not measured')
        latencies = [pipeline.latency for pipeline in self.pipelines.values() if pipeline.latency]
        if any("total" not in latency for latency in latencies):
            raise ValueError('the latency of a pipeline has no stage "total"')
        if any(len(values) != len(self.curves.ks) for values in self.curves.pipelines.values()):
            raise ValueError("a curve is not as long as its ks")
        return self

    def _named_pipelines(self) -> Iterator[str]:
        yield self.baseline
        yield from self.curves.pipelines
        for pair in self.comparisons:
            yield from (pair.a, pair.b)
        analyses = self.analyses
        bins = analyses.overlap, analyses.length, analyses.title, analyses.links
        for binned in bins:
            for bin_ in binned.bins if binned else ():
                yield from bin_.pipelines
        for group in (analyses.groups or {}).values():
            yield from group.pipelines

    @property
    def names(self) -> list[str]:
        """The pipelines, in the order given."""
        return list(self.pipelines)

    @property
    def title(self) -> str:
        """The name of the test set, or of the file of questions; empty where unknown."""
        if self.test_set:
            return self.test_set.name
        queries = self.provenance.files.get("queries") if self.provenance else None
        return Path(queries.path).name if queries else ""

    def scores(self, measure: str) -> dict[str, Score]:
        """The scores of all pipelines that have the measure; a run of documents has no accuracy."""
        values = {name: pipeline.measures for name, pipeline in self.pipelines.items()}
        return {name: scores[measure] for name, scores in values.items() if measure in scores}

    def comparison(self, a: str, b: str, measure: str) -> Comparison | None:
        """b against a, in whichever order it was computed; None if they share no question."""
        for pair in self.comparisons:
            if pair.measure == measure and {pair.a, pair.b} == {a, b}:
                return pair if pair.a == a else pair.reversed()
        return None

    def significant(self, name: str, measure: str) -> Comparison | None:
        """A pipeline against the baseline, if they differ significantly."""
        pair = self.comparison(self.baseline, name, measure)
        return pair if pair and pair.significant else None

    def __str__(self) -> str:
        """Warnings, and the means, a column for each pipeline.

        A star marks a significant difference from the baseline.
        """
        rows = [["", *self.names]]
        for measure in self.measures:
            scores = self.scores(measure)
            stars = {name: "*" * bool(self.significant(name, measure)) for name in scores}
            cells = [f"{scores[n].mean:.3f}{stars[n]:1}" if n in scores else "-" for n in self.names]
            rows.append([measure, *cells])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.rjust, row, widths)) for row in rows)
        warnings = (f"warning: {warning}" for warning in self.warnings)
        return "\n".join([*warnings, *map(str.rstrip, lines)])

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each measure of each pipeline.

        Its columns: pipeline, measure, mean over the questions, low and high end of its 95 % interval,
        number of questions, and p against the baseline (randomisation test, Holm's correction). Raises
        `MachineError` if pandas is not installed.
        """
        return data_frame(
            ["pipeline", "measure", "mean", "low", "high", "queries", "p"],
            [self._figure(name, measure) for measure in self.measures for name in self.scores(measure)],
        )

    def _figure(self, name: str, measure: str) -> list[Any]:
        score = self.pipelines[name].measures[measure]
        pair = self.comparison(self.baseline, name, measure)
        return [name, measure, score.mean, score.low, score.high, score.queries, pair.p if pair else None]

    def to_json(self) -> dict[str, Any]:
        """The content of results.json; without warnings, it has no such key."""
        return self.model_dump(mode="json", exclude=None if self.warnings else {"warnings"})

    def write(self, folder: Path) -> None:
        """Write FOLDER/results.json atomically."""
        write_output_json(folder / RESULTS, self.to_json())


def parse_results(content: bytes, name: str) -> Results:
    """The results in a file; name: for errors.

    Raises `InputError` for anything else, with the first key that is invalid.
    """
    try:
        return Results.model_validate_json(content)
    except ValidationError as error:
        problem = f"the results of {name} are damaged, or their version is not 1: "
        raise InputError(problem + first_fault(error), "Evaluate again, or remove its folder.") from None
