"""The interface of an objective of cross-encoders (`retriever.mining.objective`), which makes contrasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from linkseek.reranker.contrasts import Contrast, contrast_line
from linkseek.reranker.objectives.source import ContrastSource
from linkseek.retriever.mining.mining_statistics import Numbers
from linkseek.retriever.mining.objective import Objective


@dataclass(frozen=True)
class ContrastObjective(Objective[Contrast]):
    """One way to make contrasts: a pair that should score higher than others."""

    unit, source = "contrast", ContrastSource
    better_is: ClassVar[str]
    """The better pair, for the table in the documentation."""
    worse_is: ClassVar[str]
    """The worse pairs, for the same table."""
    loss: ClassVar[Literal["hinge", "lce"]] = "lce"
    """The loss for its contrasts, unless a training has another."""
    masks_query: ClassVar[bool] = True
    """Whether masked language modelling also masks tokens of its queries."""

    def line(self, contrast: Contrast) -> bytes:
        """A line of its file."""
        return contrast_line(contrast)

    def numbers(self, contrast: Contrast) -> Numbers:
        """Lengths and anchors of the better pair."""
        better = contrast.better
        lengths = len(better.query.split()), len(better.document.split())
        return Numbers(contrast.objective, *lengths, len(contrast.worse), anchors=len(better.anchors))
