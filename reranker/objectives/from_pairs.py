"""Contrasts from the pairs of a retriever's objective: its positive passage against random ones.

A bi-encoder takes the other passages of a batch as negatives; a cross-encoder would have to read each with
the query, so passages are drawn: of other documents than the query's and the positive's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import retriever.objectives.base
from reranker.contrasts import Contrast, TextPair
from reranker.objectives.base import Objective
from reranker.objectives.source import Source
from retriever.objectives.base import pairs_without_query_link

_TRIES = 16


@dataclass(frozen=True)
class FromPairs(Objective):
    """What `ict` and `wlp` share. negatives: how many passages the positive is set against."""

    pairs: ClassVar[retriever.objectives.base.Objective]
    """The objective that makes the pairs."""

    negatives: int = 1

    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Its pairs, [n, 3]: the query's passage (or its document's first), the positive, and the link."""
        (found,) = self.pairs.candidates(source).values()
        return np.stack([found.query, found.positive, found.positive_link], axis=1).astype(np.int64)

    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """A pair and random passages; none for a pair without a query, or without another document."""
        pairs = pairs_without_query_link(*rows.T)
        for i, draw in enumerate(draws.tolist()):
            asked = self.pairs.texts(source, pairs, i, draw)
            negatives = self._negatives(source, rows[i], np.random.default_rng(draw))
            if asked is None or len(negatives) < self.negatives:
                yield None
                continue
            query, positive = rows[i, :2].tolist()
            better = replace(_read(source, asked.query, positive), document=asked.positive)
            evidence = {
                "query_passage_id": source.index.passages.ids([query])[0],
                "better": source.index.passages.ids([positive])[0],
                "worse": list(source.index.passages.ids(negatives)),
            }
            yield Contrast(
                better, tuple(_read(source, asked.query, row) for row in negatives), self.name, evidence
            )

    def documents(self, source: Source, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the queries' passages."""
        return source.index.passages.document_rows(rows[:, 0])

    def _negatives(self, source: Source, row: NDArray[np.int64], generator: np.random.Generator) -> list[int]:
        """Different passages of other documents; fewer than wanted where hardly any are."""
        own = {source.document_of(int(passage)) for passage in row[:2]}
        found: list[int] = []
        for _ in range(_TRIES * self.negatives):
            drawn = int(generator.integers(len(source.index.passages)))
            if drawn not in found and source.document_of(drawn) not in own:
                found.append(drawn)
                if len(found) == self.negatives:
                    break
        return found


def _read(source: Source, query: str, passage: int) -> TextPair:
    found = source.index.passages[passage]
    return TextPair(query, found.text, found.title)
