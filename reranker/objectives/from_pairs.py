"""Contrasts from the pairs of a retriever's objective: its positive passage against random passages.

A bi-encoder takes the other passages of a batch as negatives; a cross-encoder would have to read each with
the query, so passages of other documents than the query's and the positive's are drawn.

    ict   inverse cloze task (`retriever.objectives.ict`), the baseline "Transformer_ICT" of PROP and PHP:
          "A moth flew in. It was the first bug." gives the query "It was the first bug." with "A moth flew
          in." against any other passage.
    wlp   wiki link prediction (`retriever.objectives.wlp`), PHP's "Transformer_WLP": E = "Warsaw covers 517
          km2." gives that query with "The film was shot in [Warsaw]." against any other passage, which may
          link to E as well. The direction follows HLP's figure 1 and PROP's section 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.objectives.base import ContrastObjective, ContrastSource
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.mining.objective import Draws, setting
from linkseek.retriever.objectives.base import PairObjective
from linkseek.retriever.objectives.ict import InverseCloze
from linkseek.retriever.objectives.wlp import WikiLinkPrediction

_TRIES = 16


@dataclass(frozen=True)
class FromPairs(ContrastObjective):
    """An objective of retrievers, named by each subclass, as one of cross-encoders."""

    pairs: ClassVar[PairObjective]
    """The objective that makes the pairs."""
    worse_is = "the sentence with random passages of other documents"

    negatives: int = setting(1, "worse documents in a contrast", ge=1, le=1000)

    def __init_subclass__(cls, pairs: PairObjective, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.pairs, cls.name, cls.needs_links = pairs, pairs.name, pairs.needs_links
        cls.summary = f"{pairs.summary}, before random passages"
        cls.better_is = f"{pairs.query_is}, with {pairs.positive_is}"

    def candidates(self, source: ContrastSource) -> Mapping[str, PassagePairs]:
        """Its pairs."""
        return self.pairs.candidates(source)

    def read(self, source: ContrastSource, rows: PassagePairs, draws: Draws) -> Iterator[Contrast | None]:
        """A pair and random passages; None for a pair without a query, or without another document."""
        passages = source.index.passages
        for i, draw in enumerate(draws.tolist()):
            texts = self.pairs.texts(source, rows, i, draw)
            query, positive = int(rows.query[i]), int(rows.positive[i])
            negatives = self._draw_negatives(source, (query, positive), np.random.default_rng(draw))
            if texts is None or len(negatives) < self.negatives:
                yield None
                continue
            query_id, positive_id, *negative_ids = passages.ids([query, positive, *negatives])
            better, *worse = (
                TextPair(texts.query, passage.text, passage.title)
                for passage in (passages[row] for row in (positive, *negatives))
            )
            evidence = {"query_passage_id": query_id, "better": positive_id, "worse": negative_ids}
            yield Contrast(replace(better, document=texts.positive), tuple(worse), self.name, evidence)

    def _draw_negatives(
        self, source: ContrastSource, pair: tuple[int, int], generator: np.random.Generator
    ) -> list[int]:
        """Distinct passages of other documents; too few where there are hardly any."""
        own = {source.document_of(passage) for passage in pair}
        negatives: list[int] = []
        for _ in range(_TRIES * self.negatives):
            drawn = int(generator.integers(len(source.index.passages)))
            if drawn not in negatives and source.document_of(drawn) not in own:
                negatives.append(drawn)
                if len(negatives) == self.negatives:
                    break
        return negatives


class Ict(FromPairs, pairs=InverseCloze()):
    """A sentence with the rest of its passage, before random passages."""


class Wlp(FromPairs, pairs=WikiLinkPrediction()):
    """A sentence about a document with a passage that links to it, before random passages."""
