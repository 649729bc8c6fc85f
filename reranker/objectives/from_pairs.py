"""Contrasts from the pairs of a retriever's objective: its positive passage against random passages.

A bi-encoder takes the other passages of a batch as negatives; a cross-encoder would have to read each with
the query, so passages of other documents than the query's and the positive's are drawn.

    ict   inverse cloze task (`retriever.objectives.ict`), the baseline "Transformer_ICT" of PROP and PHP:
          "A moth flew in. It was the first bug." gives the query "It was the first bug." with "A moth flew
          in." against any other passage.
    wlp   wiki link prediction (`retriever.objectives.wlp`), PHP's "Transformer_WLP": E = "Warsaw covers 517
          km2." gives that query with "The film was shot in [Warsaw]." against any other passage, which may
          link to E as well. The direction is that of HLP's figure 1 and PROP's section 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import linkseek.retriever.objectives.base
from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.objectives.base import Objective, setting
from linkseek.reranker.objectives.source import Source
from linkseek.retriever.objectives.base import pairs_without_query_link
from linkseek.retriever.objectives.examples import Example, passage_text
from linkseek.retriever.objectives.ict import InverseCloze
from linkseek.retriever.objectives.wlp import WikiLinkPrediction

_TRIES = 16


@dataclass(frozen=True)
class FromPairs(Objective):
    """What `ict` and `wlp` share."""

    pairs: ClassVar[linkseek.retriever.objectives.base.Objective]
    """The objective that makes the pairs."""

    negatives: int = setting(1, "worse documents in a contrast", ge=1, le=1000)

    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Its pairs, [n, 3]: the query's passage (or its document's first), the positive, and the link."""
        (pairs,) = self.pairs.candidates(source).values()
        return np.stack([pairs.query, pairs.positive, pairs.positive_link], axis=1).astype(np.int64)

    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """A pair and random passages; None for a pair without a query, or without another document."""
        passages, pairs = source.index.passages, pairs_without_query_link(*rows.T)
        for i, draw in enumerate(draws.tolist()):
            texts = self.pairs.texts(source, pairs, i, draw)
            negatives = self._draw_negatives(source, rows[i], np.random.default_rng(draw))
            if texts is None or len(negatives) < self.negatives:
                yield None
                continue
            query, positive = rows[i, :2].tolist()
            query_id, positive_id, *negative_ids = passages.ids([query, positive, *negatives])
            better, *worse = (
                TextPair(texts.query, passage.text, passage.title)
                for passage in (passages[row] for row in (positive, *negatives))
            )
            evidence = {"query_passage_id": query_id, "better": positive_id, "worse": negative_ids}
            yield Contrast(replace(better, document=texts.positive), tuple(worse), self.name, evidence)

    def documents(self, source: Source, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the queries' passages."""
        return source.index.passages.document_rows(rows[:, 0])

    def example(self, source: Source, contrast: Contrast) -> Example:
        """The passages; in the better one, the anchors that lead to the query's document are marked."""
        evidence, better, graph = contrast.evidence, contrast.better, source.index.links
        ids = [evidence["query_passage_id"], evidence["better"], *evidence["worse"]]
        query, positive, *negatives = source.index.passages.rows_of(ids).tolist()
        anchors = []
        if better.document == source.text(positive):
            document = source.document_of(query)
            links = [link for link in graph.from_passage(positive) if graph.target[link] == document]
            anchors = [(int(graph.start[link]), int(graph.end[link])) for link in links]
        worse = zip(negatives, contrast.worse, strict=True)
        return Example(
            contrast.objective,
            passage_text(source, query, better.query),
            replace(passage_text(source, positive, better.document), strong=tuple(anchors)),
            tuple(passage_text(source, row, pair.document) for row, pair in worse),
        )

    def _draw_negatives(
        self, source: Source, row: NDArray[np.int64], generator: np.random.Generator
    ) -> list[int]:
        """Distinct passages of other documents; too few where there are hardly any."""
        own = {source.document_of(int(passage)) for passage in row[:2]}
        negatives: list[int] = []
        for _ in range(_TRIES * self.negatives):
            drawn = int(generator.integers(len(source.index.passages)))
            if drawn not in negatives and source.document_of(drawn) not in own:
                negatives.append(drawn)
                if len(negatives) == self.negatives:
                    break
        return negatives


@dataclass(frozen=True)
class IctContrasts(FromPairs):
    """A sentence's own passage against another."""

    name = "ict"
    summary = "a sentence with the passage it was cut out of, and with another"
    better_is = "a sentence of a passage, with the passage without it (with it in one of ten contrasts)"
    worse_is = "the sentence with random passages of other documents"
    needs_links = False
    pairs = InverseCloze()


@dataclass(frozen=True)
class WlpContrasts(FromPairs):
    """A passage that links to E against another."""

    name = "wlp"
    summary = "a sentence about a document with a passage that links to it, and with another"
    better_is = "a sentence of E's first section, with a passage of another document that links to E"
    worse_is = "the sentence with random passages of third documents"
    pairs = WikiLinkPrediction()
