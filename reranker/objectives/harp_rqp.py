"""Representative query prediction: an anchor in its words before words of its page (HARP, 3.2.1).

    document   the page P of an anchor a in a sentence S
    better     S1: a and l words of S, drawn by what a looks at
    worse      S2: l + 1 words of P, drawn by what [CLS] looks at; none of a's (equation 5)

Both have l + 1 terms, the anchor being one. Example: "The [Aristocats] was scored by George Bruns." gives
"Aristocats scored Bruns" before "Disney film cats", both with the page of The Aristocats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reranker.contrasts import Contrast
from reranker.objectives.attentions import Span
from reranker.objectives.harp import Harp, contrast, each, mention_of, page_of, usable_links
from reranker.objectives.source import Source
from reranker.objectives.words import words_of


@dataclass(frozen=True)
class RepresentativeQueryPrediction(Harp):
    """An anchor with its context before words of its page."""

    name = "harp-rqp"
    summary = "a page with an anchor and words around it, before words of the page (HARP)"

    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Every link to a document with text."""
        return usable_links(source)[:, None]

    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """Two queries with the page of each link."""
        mentions = [mention_of(source, link) for link in rows[:, 0].tolist()]
        pages = [page_of(source, mention.target) if mention else None for mention in mentions]
        asked: list[tuple[str, Span | None]] = []
        for mention, page in zip(mentions, pages, strict=True):
            if mention and page:
                asked += [(mention.sentence, (mention.start, mention.end)), (page.document, None)]
        attended = iter(self.attentions.of(asked))
        for mention, page, (_, generator) in zip(mentions, pages, each(rows, draws), strict=True):
            if mention is None or page is None:
                yield None
                continue
            of_sentence, of_page = next(attended), next(attended)
            query = self.mention_set(source, mention, of_sentence, generator)
            if query is None or of_page is None:
                yield None
                continue
            anchor = words_of(mention.anchor)
            worse = self.word_set(source, page.document, of_page, query[1], generator, anchor)
            yield (
                contrast(
                    self,
                    (query[0], page),
                    (" ".join(worse), page),
                    {"link": source.link_evidence(mention.link)},
                )
                if worse
                else None
            )
