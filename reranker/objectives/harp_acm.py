"""Anchor co-occurrence: words of one anchor's page -> the page of another in its sentence (HARP, 3.2.4).

    query    S1: an anchor a1 and l words of its page P1, drawn by what [CLS] looks at
    better   with P2, the page of another anchor of the same sentence
    worse    with a random page of the corpus

One pair of anchors a sentence, in a random order. The random page is none of the sentence's, and not the
document that holds it. Example: "The [cat] chased a [mouse] home." gives "mouse small rodent" with the page
of cat before that of Warsaw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reranker.contrasts import Contrast, TextPair
from reranker.objectives.harp import (
    Harp,
    Mention,
    contrast,
    each,
    first_of_several,
    mentions_beginning_with,
    page_of,
)
from reranker.objectives.source import Source
from reranker.objectives.words import draw_count

_TRIES = 16


@dataclass(frozen=True)
class AnchorCoOccurrence(Harp):
    """The page of an anchor's neighbour before a random one."""

    name = "harp-acm"
    summary = "an anchor and words of its page, with the page of an anchor beside it before any other (HARP)"

    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Every link that may be the first of several in its sentence."""
        return first_of_several(source)

    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """Two pages for a word set of each sentence."""
        drawn = [_draw(source, row[0], generator) for row, generator in each(rows, draws)]
        asked = [(found.asked.document, None) for found in drawn if found]
        attended = iter(self.attentions.of(asked))
        for found in drawn:
            of_page = next(attended) if found else None
            if found is None or of_page is None:
                yield None
                continue
            count = draw_count(self.mean_words, found.generator)
            words = self.word_set(source, found.asked.document, of_page, count, found.generator)
            query = " ".join([found.first.anchor, *words])
            evidence = {
                "asked": source.link_evidence(found.first.link),
                "better": source.link_evidence(found.second.link),
                "worse": source.document_id(found.other),
            }
            yield contrast(self, (query, found.better), (query, found.worse), evidence) if words else None


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Two anchors of a sentence with their pages, and a random one."""

    first: Mention
    second: Mention
    other: int
    asked: TextPair
    better: TextPair
    worse: TextPair
    generator: np.random.Generator


def _draw(source: Source, link: int, generator: np.random.Generator) -> _Drawn | None:
    mentions = mentions_beginning_with(source, link)
    pairs = [(m, n) for m in mentions for n in mentions if m.target != n.target]
    if not pairs:
        return None
    first, second = pairs[generator.integers(len(pairs))]
    asked, better = page_of(source, first.target), page_of(source, second.target)
    if asked is None or better is None:
        return None
    own = {source.document_of(int(source.index.links.passage[link])), *(m.target for m in mentions)}
    for other in generator.integers(0, len(source.index.documents), _TRIES).tolist():
        worse = None if other in own else page_of(source, other)
        if worse is not None:
            return _Drawn(first, second, other, asked, better, worse, generator)
    return None
