"""Dual links: two passages whose documents link to each other (HLP, section 3.2, equations 3 and 4).

    query      the sentence of a that holds its first anchor to B
    positive   b of B, which has an anchor to A
    negatives  none of its own; `--negatives` adds one a pair

Example: a = "Letters to Santa is a film. It was directed by [Mitja Okorn]." and b = "Mitja Okorn is a
director. In 2011 he made [Letters to Santa]." give "It was directed by Mitja Okorn." -> b, and, in the
other direction, "In 2011 he made Letters to Santa." -> a. The query does not name A; the passage does.
"""

from __future__ import annotations

from retriever.links.source import Source
from retriever.links.topology import PassagePairs
from retriever.objectives.base import Objective, PairTexts


class DualLink(Objective):
    """A sentence with an anchor to B -> a passage of B with an anchor back."""

    name = "dual-link"
    summary = "passages whose documents link to each other (HLP)"
    query_is = "the sentence of a that holds its first anchor to B"
    positive_is = "a passage of B with an anchor to A"

    def candidates(self, source: Source) -> dict[str, PassagePairs]:
        """Every pair of passages, in both directions."""
        return {self.name: source.topology.dual_links()}

    def texts(self, source: Source, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """The anchor's sentence."""
        query = source.anchor_sentence(int(pairs.query_link[i]))
        return PairTexts(query, source.text(int(pairs.positive[i])))
