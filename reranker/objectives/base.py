"""The interface of an objective, which turns texts and links into contrasts.

An objective works in three steps, so that it can choose among millions of contrasts before any text is read:

    prepare(source)                    computes once what all processes need (PROP's collection model)
    candidates(source)                 one row of numbers for each possible contrast
    contrasts(source, rows, draws)     the contrasts of some candidates, in any process

To add an objective, add a file with a subclass of `Objective` to this folder: `--objective NAME`, an option
for each of its settings, sampling, mixing, several processes, statistics, the table in docs/contrasts.md,
the page of an article and the contract tests follow from it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self, get_type_hints

import numpy as np
from numpy.typing import NDArray

from linkseek.reranker.contrasts import Contrast
from linkseek.reranker.objectives.examples import document_text
from linkseek.reranker.objectives.source import Source
from linkseek.retriever.objectives.examples import Example, Text


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """A setting of an objective. default: in words. bounds: pydantic's, such as ge=1."""

    type: Any
    meaning: str
    default: str
    bounds: dict[str, Any]


def setting(default: Any, meaning: str, shown: str = "", **bounds: float) -> Any:
    """A field of an objective that `linkseek mine-contrasts` has an option for; shown: the default."""
    metadata = {"meaning": meaning, "default": shown or str(default), "bounds": bounds}
    return dataclasses.field(default=default, metadata=metadata)


class Objective(ABC):
    """One way to make contrasts. A subclass is a frozen dataclass: its fields are its settings."""

    name: ClassVar[str]
    """The value of `--objective`, and the objective that its contrasts name."""
    summary: ClassVar[str]
    """One line for --help."""
    better_is: ClassVar[str]
    """The better pair, for the table in the documentation."""
    worse_is: ClassVar[str]
    """The worse pairs, for the same table."""
    needs_links: ClassVar[bool] = True
    """Whether a corpus without links gives no contrasts."""
    needs_whole: ClassVar[bool] = False
    """Whether a document's candidates depend on more of the index than the links around the document."""
    missing: ClassVar[str] = ""
    """What a passage needs to have candidates and most passages lack."""
    loss: ClassVar[Literal["hinge", "lce"]] = "lce"
    """The loss for its contrasts, unless a training has another."""
    masks_query: ClassVar[bool] = True
    """Whether masked language modelling also masks tokens of its queries."""
    min_for_processes: ClassVar[int] = 20_000
    """The number of contrasts that take longer than starting processes."""

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """The settings by name, in order."""
        types = get_type_hints(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {each.name: Setting(types[each.name], **each.metadata) for each in fields if each.metadata}

    def prepare(self, source: Source) -> Self:
        """This objective with whatever every process needs; it is pickled. Called once, before all else."""
        return self

    @abstractmethod
    def candidates(self, source: Source) -> NDArray[np.int64]:
        """All possible contrasts, int64 [n, k], a row each, as `contrasts` takes them.

        Reads no more text than is needed to count: a candidate may turn out to give nothing.
        """

    @abstractmethod
    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """One contrast for each of some candidates, in order; None for one that gives none.

        rows: int64 [m, k]. draws: int64 [m], in [0, 2**62), decide every random choice. A candidate gives the
        same in any process and after any other calls; which m are together depends on the number of
        contrasts and the seed alone.
        """

    @abstractmethod
    def documents(self, source: Source, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document that each of some candidates is mined from, int64 [m], for the page of an article.

        Of a link it is the one that holds it.
        """

    def example(self, source: Source, contrast: Contrast) -> Example:
        """A contrast for people; overridden where the evidence has more to show."""
        worse = tuple(document_text(pair) for pair in contrast.worse)
        return Example(self.name, Text(contrast.better.query), document_text(contrast.better), worse)

    def counts(self, source: Source) -> dict[str, Any]:
        """This objective's part of `--stats`, in addition to the number of candidates."""
        return {}

    def why_none(self, source: Source) -> str:
        """Why there is no candidate, as the rest of a sentence that begins with the name."""
        return (self.needs_links and source.missing_links) or "finds nothing to contrast"

    @property
    def needed_encoder(self) -> str:
        """A folder or a name of the Hub, if the objective reads with an encoder."""
        return ""
