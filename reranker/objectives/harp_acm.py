"""Anchor co-occurrence: words of one anchor's page -> the page of another in its sentence (HARP, 3.2.4).

    query    S1: an anchor a1 and l words of its page P1, drawn by the attentions of [CLS]
    better   with P2, the page of another anchor of the same sentence
    worse    with a random page of the corpus

One pair of anchors per sentence, in a random order. The random page is not one of the sentence's, nor of the
document that holds it. Example: "The [cat] chased a [mouse] home." gives "mouse small rodent" with the page
of cat before the page of Warsaw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linkseek.reranker.contrasts import Contrast
from linkseek.reranker.objectives.attentions import Attended
from linkseek.reranker.objectives.harp import (
    Harp,
    Plan,
    first_of_several,
    mentions_beginning_with,
    page_of,
)
from linkseek.reranker.objectives.source import ContrastSource
from linkseek.reranker.objectives.words import draw_count

_TRIES = 16


@dataclass(frozen=True)
class AnchorCoOccurrence(Harp):
    """The page of an anchor's neighbour before a random one."""

    name = "harp-acm"
    summary = "an anchor and words of its page, with the page of an anchor next to it before any other (HARP)"
    better_is = "an anchor and words of its page, with the page of another anchor of its sentence"
    worse_is = "the same query, with a random page"

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link that may be the first of several in its sentence."""
        return {self.name: first_of_several(source)}

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """Two pages for a word set of the sentence."""
        mentions = mentions_beginning_with(source, row[0])
        pairs = [(m, n) for m in mentions for n in mentions if m.target != n.target]
        if not pairs:
            return None
        first, second = pairs[generator.integers(len(pairs))]
        page, better = page_of(source, first.target), page_of(source, second.target)
        if page is None or better is None:
            return None
        own = {source.document_of(int(source.index.links.passage[row[0]])), *(m.target for m in mentions)}
        drawn = generator.integers(0, len(source.index.documents), _TRIES).tolist()
        pages = ((other, page_of(source, other)) for other in drawn if other not in own)
        other, worse = next(((other, page) for other, page in pages if page), (-1, None))
        if worse is None:
            return None

        def finish(of_page: Attended) -> Contrast | None:
            count = draw_count(self.mean_words, generator)
            words = self.word_set(source, page.document, of_page, count, generator)
            query = " ".join([first.anchor, *words])
            evidence = {
                "asked": source.link_evidence(first.link),
                "better": source.link_evidence(second.link),
                "worse": source.document_id(other),
            }
            return self.contrast((query, better), (query, worse), evidence) if words else None

        return Plan([(page.document, None)], finish)
