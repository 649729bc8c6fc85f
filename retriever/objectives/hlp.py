"""HLP: dual links, co-mentions, and both together (Zhou et al. 2022, section 3.2).

    co-mention   two passages that link to the same third document (equations 5 and 6)
        query      the sentence of c that contains its first qualifying anchor to E
        positive   d of D, with an anchor to E and one to C; C, D and E are different documents

    dual-link    two passages whose documents link to each other (equations 3 and 4)
        query      the sentence of a that contains its first anchor to B
        positive   b of B, which has an anchor to A

None has negatives of its own; `--negatives` adds one a pair. The E of a co-mention has an in-degree below
K, which skips the most linked tenth: a common mention of "France" says little. A pair that is also a dual
link counts here, but not among `hlp`'s co-mentions, so that no pair occurs twice there. Each pair names its
topology, since a batch of HLP's training contains one kind only.

Co-mention: c = "The Aristocats: [Robert Sherman] composed its songs." and d = "In Search of the
Castaways: later sang [Robert Sherman]'s theme of [The Aristocats]." give the sentence of c -> d.

Dual link: a = "Letters to Santa is a film. It was directed by [Mitja Okorn]." and b = "Mitja Okorn is a
director. In 2011 he made [Letters to Santa]." give "It was directed by Mitja Okorn." -> b, and, in the
other direction, "In 2011 he made Letters to Santa." -> a. The query does not name A; the passage does.
"""

from __future__ import annotations

import numpy as np

from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.objectives.base import PairObjective, PairTexts


class AnchorSentences(PairObjective):
    """The base of the three objectives: the query is the sentence of a pair's link."""

    def texts(self, source: LinkSource, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """The anchor's sentence."""
        query = source.anchor_sentence(int(pairs.query_link[i]))
        return PairTexts(query, source.text(int(pairs.positive[i])))


class CoMention(AnchorSentences):
    """A sentence with an anchor to E -> another document's passage with anchors to E and back."""

    name = "co-mention"
    summary = "passages that link to the same third document (HLP)"
    query_is = "the sentence of c that contains its first anchor to E"
    positive_is = "a passage of D with anchors to E and to C"

    def candidates(self, source: LinkSource) -> dict[str, PassagePairs]:
        """Every pair of passages once, however many documents both mention."""
        return {self.name: source.topology.co_mentions()}


class DualLink(AnchorSentences):
    """A sentence with an anchor to B -> a passage of B with an anchor back."""

    name = "dual-link"
    summary = "passages whose documents link to each other (HLP)"
    query_is = "the sentence of a that contains its first anchor to B"
    positive_is = "a passage of B with an anchor to A"

    def candidates(self, source: LinkSource) -> dict[str, PassagePairs]:
        """Every pair of passages, in both directions."""
        return {self.name: source.topology.dual_links()}


class Hlp(AnchorSentences):
    """Dual links and co-mentions together."""

    name = "hlp"
    summary = "dual links and co-mentions (HLP)"
    query_is = "both of the above; each pair once, with the name of its topology"

    def candidates(self, source: LinkSource) -> dict[str, PassagePairs]:
        """Dual links, and the co-mentions that are not dual links."""
        dual, shared = source.topology.dual_links(), source.topology.co_mentions()
        other = ~np.isin(shared.keys(), dual.keys())
        return {DualLink.name: dual, CoMention.name: shared[other]}

    def kind(self, pairs: PassagePairs, i: int) -> str:
        """Only co-mentions have a shared link."""
        return CoMention.name if pairs.shared_link[i] >= 0 else DualLink.name
