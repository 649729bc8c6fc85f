"""The interface of an objective, which turns texts and links into contrasts.

An objective works in three steps, so that it can choose among millions of contrasts before any text is read:

    prepare(source)                    computes once what all processes need (PROP's collection model)
    candidates(source)                 one row of numbers for each possible contrast
    contrasts(source, rows, draws)     the contrasts of some candidates, in any process

To add an objective, add a file with a subclass of `Objective` to this folder: `--objective NAME`, sampling,
mixing, several processes, statistics and the contract tests follow from it. Its settings are the fields of
the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from reranker.contrasts import Contrast
from reranker.objectives.source import Source


class Objective(ABC):
    """One way to make contrasts. A subclass is a frozen dataclass: its fields are its settings."""

    name: ClassVar[str]
    """What `--objective` calls it, and what its contrasts say."""
    summary: ClassVar[str]
    """One line for --help."""
    needs_links: ClassVar[bool] = True
    """Whether a corpus without links gives no contrasts."""
    needs_whole: ClassVar[bool] = False
    """Whether a document's candidates hang on more of the index than the links around the document."""
    loss: ClassVar[Literal["hinge", "lce"]] = "lce"
    """What is learnt from its contrasts, unless a training says otherwise."""
    masks_query: ClassVar[bool] = True
    """Whether tokens of its queries are masked too when a model learns to predict tokens beside."""
    min_for_processes: ClassVar[int] = 20_000
    """How many contrasts take longer than starting processes."""

    def prepare(self, source: Source) -> Self:
        """This objective with what every process needs; it is pickled. Called once, before all else."""
        return self

    @abstractmethod
    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Everything that may give a contrast, int64 [n, k]: a row is what `contrasts` wants to know.

        Of texts, only what is needed to count: a candidate may turn out to give nothing.
        """

    @abstractmethod
    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """One contrast for each of some candidates, in order; None for one that gives none.

        rows: int64 [m, k]. draws: int64 [m], in [0, 2**62), by which whatever is random is chosen. A
        candidate gives the same whatever the process and the calls before; which m are together depends on
        the number of contrasts and the seed alone.
        """

    @abstractmethod
    def documents(self, source: Source, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The document that each of some candidates is mined from, int64 [m]; the page of an article asks.

        Of a link it is the one that holds it.
        """

    def counts(self, source: Source) -> dict[str, Any]:
        """What `--stats` says of the corpus for this objective, besides the number of candidates."""
        return {}

    def why_none(self, source: Source) -> str:
        """Why there is no candidate, as the rest of a sentence that begins with the name."""
        return (self.needs_links and source.missing_links) or "finds nothing to contrast"
