"""The interface of an objective, which turns an index's texts and links into training data.

An objective works in steps, so that it can choose among millions of candidates before any text is read:

    prepare(source)                  computes once for all processes (PROP's collection model)
    candidates(source)               all possible pairs or contrasts, a row each, by kind
    complete(source, rows, draws)    adds the parts drawn for many candidates together (negatives)
    read(source, rows, draws)        a pair or a contrast for each of some candidates, in any process

`retriever.objectives.base.PairObjective` makes pairs, from which bi-encoders learn;
`reranker.objectives.base.ContrastObjective` makes contrasts, from which cross-encoders learn. To add an
objective, add a file with a subclass of one of them to its folder: `--objective NAME`, an option for each of
its settings, sampling, mixes, several processes, statistics, the table in the documentation and the contract
tests follow from it.
"""

from __future__ import annotations

import dataclasses
import zlib
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.links.source import LinkSource

Draws = NDArray[np.int64]
"""A random number in [0, 2**62) for each candidate, int64 [n]."""
Rows = Any
"""Candidates, a row each: `PassagePairs`, or numbers as int64 [n, k]."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of an objective. default: described in words. bounds: pydantic's, such as ge=1."""

    type: Any
    meaning: str
    default: str
    bounds: dict[str, Any]


def setting(default: Any, meaning: str, shown: str = "", **bounds: float) -> Any:
    """A field of an objective that the mining command has an option for; shown: the default."""
    metadata = {"meaning": meaning, "default": shown or str(default), "bounds": bounds}
    return dataclasses.field(default=default, metadata=metadata)


class Objective(ABC, Generic[T]):
    """One way to make training data. A subclass is a frozen dataclass: its fields are its settings."""

    name: ClassVar[str]
    """The value of `--objective`."""
    summary: ClassVar[str]
    """A line for --help."""
    unit: ClassVar[str]
    """The word for a mined line: pair or contrast."""
    source: ClassVar[type[LinkSource]] = LinkSource
    """The class through which it reads an index."""
    needs_links: ClassVar[bool] = True
    """Whether a corpus without links gives nothing."""
    min_for_processes: ClassVar[int] = 20_000
    """The number of results that take longer than starting processes."""

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """The settings by name, in order."""
        types = get_type_hints(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {each.name: Setting(types[each.name], **each.metadata) for each in fields if each.metadata}

    def prepare(self, source: Any) -> Self:
        """This objective with all that every process needs; it is pickled. Called once, before all else."""
        return self

    @abstractmethod
    def candidates(self, source: Any) -> Mapping[str, Rows]:
        """All candidates by the name of their kind; most objectives have one kind, their own name.

        A candidate may turn out to give nothing: no more text is read than is needed to count.
        """

    def complete(self, source: Any, rows: Rows, draws: Draws) -> Rows:
        """Candidates that were drawn together, before they are split among processes."""
        return rows

    @abstractmethod
    def read(self, source: Any, rows: Rows, draws: Draws) -> Iterator[T | None]:
        """The result of each of some candidates, in order; None for one that gives none.

        draws: decide every random choice. A candidate gives the same in any process and after any other
        calls; which candidates are together depends on their number and the seed alone.
        """

    @abstractmethod
    def line(self, made: T) -> bytes:
        """A result as a line of JSON."""

    @abstractmethod
    def numbers(self, made: T) -> Numbers:
        """Statistics of a mined line, such as lengths, overlap, number of negatives."""

    def generator(self, seed: int) -> np.random.Generator:
        """The random generator of this objective: each objective of a mix has its own."""
        return np.random.default_rng((seed, zlib.crc32(self.name.encode())))

    def counts(self, source: Any) -> dict[str, Any]:
        """This objective's part of `--stats`, in addition to the number of candidates."""
        return {}

    def why_none(self, source: Any) -> str:
        """The reason for no candidates: the rest of a sentence that begins with the objective's name."""
        return (self.needs_links and source.missing_links) or f"finds no {self.unit}"


class Numbers(NamedTuple):
    """One pair or contrast in numbers.

    kind: its objective. query_words, positive_words: of the query and of the text that should score higher.
    negatives: texts that should score lower. overlap: the share of the query's words that occur in the
    positive, if it is counted. anchors: to the positive, in the query.
    """

    kind: str
    query_words: int
    positive_words: int
    negatives: int
    overlap: float | None = None
    anchors: int = 0


@dataclass
class Statistics:
    """Counts by kind, and the lengths of queries and positives."""

    written: Counter[str] = field(default_factory=Counter)
    negatives: Counter[str] = field(default_factory=Counter)
    anchors: Counter[str] = field(default_factory=Counter)
    without_negative: int = 0
    query_words: array[int] = field(default_factory=lambda: array("l"))
    positive_words: array[int] = field(default_factory=lambda: array("l"))
    overlap: array[float] = field(default_factory=lambda: array("d"))

    def add(self, numbers: Numbers) -> None:
        """Count one pair or contrast."""
        self.written[numbers.kind] += 1
        self.negatives[numbers.kind] += numbers.negatives
        self.anchors[numbers.kind] += numbers.anchors
        self.without_negative += not numbers.negatives
        self.query_words.append(numbers.query_words)
        self.positive_words.append(numbers.positive_words)
        if numbers.overlap is not None:
            self.overlap.append(numbers.overlap)

    def to_json(self) -> dict[str, Any]:
        """Counts, means, and of pairs the overlap in ten bins, as in HLP's figure 3."""
        report: dict[str, Any] = {
            "written": dict(self.written),
            "negatives": {kind: count for kind, count in self.negatives.items() if count},
            "without_negative": self.without_negative,
            "anchors": {kind: count for kind, count in self.anchors.items() if count},
            "query_words": _mean_and_percentiles(self.query_words),
            "positive_words": _mean_and_percentiles(self.positive_words),
        }
        if self.overlap:
            bins, _ = np.histogram(self.overlap, 10, (0.0, 1.0))
            report["overlap"] = {"mean": float(np.mean(self.overlap)), "bins": bins.tolist()}
        return report


def _mean_and_percentiles(values: array[int]) -> dict[str, float] | None:
    if not values:
        return None
    low, middle, high = np.percentile(values, (5, 50, 95))
    return {"mean": float(np.mean(values)), "p5": float(low), "p50": float(middle), "p95": float(high)}
