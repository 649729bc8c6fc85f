"""results.json as records. What is missing or no number is left out, and said to be; nothing is an error.

A report of half the results is better than none: runs of other systems have no latency, questions without
answers no overlap, and an older version of the runner wrote fewer keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

T = TypeVar("T")

_MAIN = ("accuracy@20", "nDCG@10")


def _each_item(value: Any, valid: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """The items of a list that are whole; the others are noted in the context."""
    kept: list[Any] = []
    for item in value if isinstance(value, list) else []:
        try:
            kept += valid([item])
        except ValidationError:
            _note(info)
    return kept


def _each_entry(value: Any, valid: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """The same of a mapping."""
    kept: dict[str, Any] = {}
    for key, entry in value.items() if isinstance(value, Mapping) else ():
        try:
            kept |= valid({key: entry})
        except ValidationError:
            _note(info)
    return kept


def _note(info: ValidationInfo) -> None:
    if info.context is not None:
        info.context.append(info.field_name)


def _maybe(value: Any, valid: ValidatorFunctionWrapHandler) -> Any:
    try:
        return valid(value)
    except ValidationError:
        return None


Items = Annotated[list[T], WrapValidator(_each_item)]
Named = Annotated[dict[str, T], WrapValidator(_each_entry)]
Maybe = Annotated[T | None, WrapValidator(_maybe)]
Number = Maybe[FiniteFloat]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Score(_Record):
    """A mean over questions, with its 95 % interval."""

    mean: FiniteFloat
    low: Number = None
    high: Number = None
    queries: Maybe[int] = None


class Percentiles(_Record):
    """Seconds of one stage for a question."""

    p50: Number = None
    p95: Number = None
    p99: Number = None
    questions: Maybe[int] = None


class Pipeline(_Record):
    """What was measured of a pipeline or of a run file."""

    measures: Named[Score] = {}
    latency: Named[Percentiles] = {}
    queries_without_results: Maybe[int] = None


class Comparison(_Record):
    """b less a, over the questions that both were measured on."""

    measure: str
    a: str
    b: str
    difference: FiniteFloat
    low: Number = None
    high: Number = None
    p_randomisation_holm: Number = None
    p_t_holm: Number = None
    wins: Maybe[int] = None
    ties: Maybe[int] = None
    losses: Maybe[int] = None
    effect_size: Number = None
    queries: Maybe[int] = None

    @property
    def tested(self) -> bool:
        """Whether there is a p-value."""
        return self.p_randomisation_holm is not None

    @property
    def significant(self) -> bool:
        """Whether the randomisation test finds a difference after Holm's correction."""
        return self.p_randomisation_holm is not None and self.p_randomisation_holm < 0.05

    def turned(self) -> Comparison:
        """The same, seen from the other side: a less b."""
        return self.model_copy(
            update={
                "a": self.b,
                "b": self.a,
                "difference": -self.difference,
                "low": None if self.high is None else -self.high,
                "high": None if self.low is None else -self.low,
                "wins": self.losses,
                "losses": self.wins,
                "effect_size": None if self.effect_size is None else -self.effect_size,
            }
        )


class Curves(_Record):
    """A measure at every depth; values None where unknown."""

    measure: str = ""
    ks: list[int] = []
    pipelines: Named[list[Number]] = {}


class Share(_Record):
    """A mean over a part of the questions; None where a pipeline was measured on none of them."""

    mean: Number = None
    low: Number = None
    high: Number = None


class Bin(_Record):
    """Questions of which something lies between `low` and `high`."""

    low: FiniteFloat
    high: FiniteFloat
    queries: Maybe[int] = None
    pipelines: Named[Share] = {}


class Binned(_Record):
    """Questions by something that can be counted. left_out: those of which it cannot."""

    label: str = ""
    left_out: int = 0
    bins: Items[Bin] = []


class Group(_Record):
    """Questions of one kind: pipeline -> measure -> mean."""

    queries: Maybe[int] = None
    pipelines: Named[Named[Number]] = {}


class Analyses(_Record):
    """The main measure over parts of the questions."""

    overlap: Maybe[Binned] = None
    length: Maybe[Binned] = None
    groups: Named[Group] = {}


class Top(_Record):
    """The first passage of a pipeline for a question."""

    title: str = ""
    text: str = ""
    right: Maybe[bool] = None


class Difference(_Record):
    """A question that two pipelines answer differently; ranks of the first right result."""

    a: str
    b: str
    query_id: str = ""
    question: str = ""
    answers: Items[str] = []
    rank_a: Maybe[int] = None
    rank_b: Maybe[int] = None
    top_a: Maybe[Top] = None
    top_b: Maybe[Top] = None


class TestSet(_Record):
    """What was asked."""

    __test__ = False  # no test, whatever pytest makes of the name

    name: Maybe[str] = None
    description: Maybe[str] = None
    licence: Maybe[str] = None
    source: Maybe[str] = None


class Results(_Record):
    """An evaluation. left_out: what could not be read, by name, as often as it occurred."""

    test_set: Maybe[TestSet] = None
    pipelines: Named[Pipeline] = {}
    measures: Items[str] = []
    main_measure: Maybe[str] = None
    baseline: Maybe[str] = None
    comparisons: Items[Comparison] = []
    curves: Maybe[Curves] = None
    analyses: Maybe[Analyses] = None
    differences: Items[Difference] = []
    counts: Named[int] = {}
    seeds: Named[int] = {}
    depth: Maybe[int] = None
    judged_level: Maybe[str] = None
    notes: Items[str] = []
    provenance: Named[Any] = {}
    left_out: list[str] = Field([], exclude=True)

    @property
    def names(self) -> list[str]:
        """The pipelines, in the order given."""
        return list(self.pipelines)

    @property
    def reference(self) -> str:
        """The pipeline that others are compared with."""
        return self.baseline if self.baseline in self.pipelines else next(iter(self.pipelines), "")

    @property
    def measured(self) -> list[str]:
        """The measures of at least one pipeline, in order."""
        found = dict.fromkeys(m for pipeline in self.pipelines.values() for m in pipeline.measures)
        return [*(m for m in self.measures if m in found), *(m for m in found if m not in self.measures)]

    @property
    def main(self) -> str:
        """The measure that is told first; empty where nothing was measured."""
        return next((m for m in (self.main_measure, *_MAIN, *self.measured) if m in self.measured), "") or ""

    def score(self, pipeline: str, measure: str) -> Score | None:
        """What a pipeline got by a measure."""
        return self.pipelines[pipeline].measures.get(measure)

    def comparison(self, a: str, b: str, measure: str) -> Comparison | None:
        """b less a, whichever way round it was computed."""
        for found in self.comparisons:
            if found.measure == measure and (found.a, found.b) == (a, b):
                return found
            if found.measure == measure and (found.a, found.b) == (b, a):
                return found.turned()
        return None


def read_results(raw: Mapping[str, Any]) -> Results:
    """The records of what the runner returned or results.json holds."""
    left_out: list[str] = []
    results = Results.model_validate({k: v for k, v in raw.items() if v is not None}, context=left_out)
    return results.model_copy(update={"left_out": left_out})
