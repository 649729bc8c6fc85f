"""The interface of an objective, which turns an index's texts and links into training data.

An objective works in steps, so that it can choose among millions of candidates before any text is read:

    prepare(source)                  computes once what all processes need (PROP's collection model)
    candidates(source)               all possible pairs or contrasts, a row each, by kind
    complete(source, rows, draws)    adds what is drawn for many candidates together (negatives)
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.mining.mining_statistics import Numbers

Draws = NDArray[np.int64]
"""A random number in [0, 2**62) for each candidate, int64 [n]."""
Rows = Any
"""Candidates, a row each: `PassagePairs`, or numbers as int64 [n, k]."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of an objective. default: in words. bounds: pydantic's, such as ge=1."""

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
    """One line for --help."""
    unit: ClassVar[str]
    """The word for what it makes: pair or contrast."""
    source: ClassVar[type[LinkSource]] = LinkSource
    """The index as it reads it."""
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
        """A result in numbers."""

    def generator(self, seed: int) -> np.random.Generator:
        """The source of its random choices: each objective of a mix has its own."""
        return np.random.default_rng((seed, zlib.crc32(self.name.encode())))

    def counts(self, source: Any) -> dict[str, Any]:
        """This objective's part of `--stats`, in addition to the number of candidates."""
        return {}

    def why_none(self, source: Any) -> str:
        """Why there is no candidate, as the rest of a sentence that begins with the name."""
        return (self.needs_links and source.missing_links) or f"finds no {self.unit}"
