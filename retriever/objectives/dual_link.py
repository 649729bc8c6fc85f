"""Dual links: two passages whose documents link to each other (HLP, section 3.2, equations 3 and 4).

    query      the sentence of a that holds its first anchor to B
    positive   b of B, which has an anchor to A
    negatives  none of its own; `--negatives` adds one a pair

Example: a = "Letters to Santa is a film. It was directed by [Mitja Okorn]." and b = "Mitja Okorn is a
director. In 2011 he made [Letters to Santa]." give "It was directed by Mitja Okorn." -> b, and, since
each side is asked, "In 2011 he made Letters to Santa." -> a. The document asked from, which no one
names in the query, is what b answers with.
"""

from __future__ import annotations

from retriever.mining.topology import Pairs
from retriever.objectives import Asked, Objective, Source, anchor_sentence


class DualLink(Objective):
    """A sentence with an anchor to B -> a passage of B with an anchor back."""

    name = "dual-link"
    summary = "passages whose documents link to each other (HLP)"

    def candidates(self, source: Source) -> dict[str, Pairs]:
        """Every pair of passages, in both directions."""
        return {self.name: source.topology.dual_links()}

    def query(self, source: Source, pairs: Pairs, i: int, draw: int) -> Asked | None:
        """The anchor's sentence."""
        return Asked(anchor_sentence(source, int(pairs.query_link[i])), source.text(int(pairs.positive[i])))
