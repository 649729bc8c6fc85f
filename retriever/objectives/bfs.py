"""Body first selection: a sentence of a document's first section -> another passage (Chang et al. 2020).

    query      a random sentence of the document's first section that the positive does not contain
    positive   a passage of the same document
    negatives  none of its own

Every passage of a document is the positive of one pair. Example: the passages "Warsaw covers 517 km2. It
lies on the Vistula." and "Its uprising began in 1944." give "It lies on the Vistula." -> the second.
"""

from __future__ import annotations

import numpy as np

from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.objectives.base import PairObjective, PairTexts, pairs_without_query_link


class BodyFirstSelection(PairObjective):
    """A sentence of a document's first section -> another passage of the document."""

    name = "bfs"
    summary = "a sentence of a document's first section and another of its passages (body first selection)"
    query_is = "a sentence of a document's first section"
    positive_is = "another passage of the document"
    needs_links = False

    def candidates(self, source: LinkSource) -> dict[str, PassagePairs]:
        """Every passage of a document that has several."""
        offsets = np.asarray(source.index.passages.offsets)
        counts = np.diff(offsets)  # [D]
        positive = np.flatnonzero(np.repeat(counts > 1, counts))
        return {self.name: pairs_without_query_link(np.repeat(offsets[:-1], counts)[positive], positive)}

    def texts(self, source: LinkSource, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """A random sentence of the first section."""
        passage = int(pairs.positive[i])
        text = source.text(passage)
        document = source.index.passages.document_rows(np.array([passage]))
        lead = source.first_section(int(document[0]))
        sentences = [lead[start:end] for start, end in source.sentences(lead)]
        others = [sentence for sentence in sentences if sentence not in text]
        return PairTexts(others[draw % len(others)], text) if others else None
