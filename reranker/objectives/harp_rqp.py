"""Representative query prediction: an anchor in its words before words of its page (HARP, 3.2.1).

    document   the page P of an anchor a in a sentence S
    better     S1: a and l words of S, drawn by the attentions of a
    worse      S2: l + 1 words of P, drawn by the attentions of [CLS]; none of a's (equation 5)

Both have l + 1 terms, the anchor being one. Example: "The [Aristocats] was scored by George Bruns." gives
"Aristocats scored Bruns" before "Disney film cats", both with the page of The Aristocats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linkseek.reranker.contrasts import Contrast
from linkseek.reranker.objectives.attentions import Attended
from linkseek.reranker.objectives.harp import Harp, Plan, mention_of, page_of, usable_links
from linkseek.reranker.objectives.source import ContrastSource
from linkseek.reranker.objectives.words import words_of


@dataclass(frozen=True)
class RepresentativeQueryPrediction(Harp):
    """An anchor with its context before words of its page."""

    name = "harp-rqp"
    summary = "a page with an anchor and words around it, before words of the page (HARP)"
    better_is = "an anchor and words of its sentence, with its page"
    worse_is = "as many words of the page, with the page"

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link to a document with text."""
        return {self.name: usable_links(source)[:, None]}

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """Two queries with the page of the link."""
        mention = mention_of(source, row[0])
        page = page_of(source, mention.target) if mention else None
        if mention is None or page is None:
            return None

        def finish(of_sentence: Attended, of_page: Attended) -> Contrast | None:
            better = self.mention_set(source, mention, of_sentence, generator)
            if not better:
                return None
            own, count = words_of(mention.anchor), len(better)
            worse = self.word_set(source, page.document, of_page, count, generator, own)
            if not worse:
                return None
            evidence = {"link": source.link_evidence(mention.link)}
            return self.contrast((" ".join(better), page), (" ".join(worse), page), evidence)

        return Plan([(mention.sentence, (mention.start, mention.end)), (page.document, None)], finish)
