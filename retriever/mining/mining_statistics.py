"""Statistics of mined lines."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Numbers:
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
