"""Wiki link prediction: a sentence about E -> a passage that links to E (Chang et al. 2020).

    query      a random sentence of E's first section
    positive   a passage of another document with an anchor to E
    negatives  none of its own

The direction follows HLP's figure 1, PROP's section 1 and PHP's section 2.2; PHP's 4.2 can be read either
way. Example: E = "Warsaw covers 517 km2. It lies on the Vistula." and p = "The film was shot in [Warsaw]."
give "It lies on the Vistula." -> p.
"""

from __future__ import annotations

import numpy as np

from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.objectives.base import PairObjective, PairTexts, pairs_without_query_link


class WikiLinkPrediction(PairObjective):
    """A sentence of a document's first section -> a passage that links to the document."""

    name = "wlp"
    summary = "a sentence of a document's first section and a passage that links to it (wiki link prediction)"
    query_is = "a sentence of a document's first section"
    positive_is = "a passage of another document that links to it"

    def candidates(self, source: LinkSource) -> dict[str, PassagePairs]:
        """Every passage with every document that it links to."""
        topology, offsets = source.topology, np.asarray(source.index.passages.offsets)
        with_text = np.flatnonzero(np.diff(offsets)[topology.target] > 0)  # E may be without text
        return {
            self.name: pairs_without_query_link(
                offsets[topology.target[with_text]], topology.passage[with_text], topology.link[with_text]
            )
        }

    def texts(self, source: LinkSource, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """A random sentence of the first section of the document that the link leads to."""
        lead = source.first_section(int(source.index.links.target[pairs.positive_link[i]]))
        sentences = source.sentences(lead)
        if not sentences:
            return None
        start, end = sentences[draw % len(sentences)]
        return PairTexts(lead[start:end], source.text(int(pairs.positive[i])))
