"""Co-mentions: two passages that link to the same third document (HLP, section 3.2, equations 5 and 6).

    query      the sentence of c that holds its first qualifying anchor to E
    positive   d of D, with an anchor to E and one to C; C, D and E are different documents
    negatives  none of its own; `--negatives` adds one a pair

E's in-degree is below K (the topmost tenth is left out): a common mention of "France" says little. A
pair that is a dual link as well is kept here and left out of `hlp`'s co-mentions.

Example: c = "The Aristocats: [Robert Sherman] composed its songs." and d = "In Search of the
Castaways: later sang [Robert Sherman]'s theme of [The Aristocats]." give the sentence of c -> d.
"""

from __future__ import annotations

from retriever.mining.topology import Pairs
from retriever.objectives import Asked, Objective, Source, anchor_sentence


class CoMention(Objective):
    """A sentence with an anchor to E -> another document's passage with anchors to E and back."""

    name = "co-mention"
    summary = "passages that link to the same third document (HLP)"

    def candidates(self, source: Source) -> dict[str, Pairs]:
        """Every pair of passages once, however many documents both mention."""
        return {self.name: source.topology.co_mentions()}

    def query(self, source: Source, pairs: Pairs, i: int, draw: int) -> Asked | None:
        """The anchor's sentence."""
        return Asked(anchor_sentence(source, int(pairs.query_link[i])), source.text(int(pairs.positive[i])))
