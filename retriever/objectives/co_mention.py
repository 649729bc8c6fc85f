"""Co-mentions: two passages that link to the same third document (HLP, section 3.2, equations 5 and 6).

    query      the sentence of c that holds its first qualifying anchor to E
    positive   d of D, with an anchor to E and one to C; C, D and E are different documents
    negatives  none of its own; `--negatives` adds one a pair

E's in-degree is below K, which skips the most linked tenth: a common mention of "France" says little. A
pair that is also a dual link counts here, but not among `hlp`'s co-mentions.

Example: c = "The Aristocats: [Robert Sherman] composed its songs." and d = "In Search of the
Castaways: later sang [Robert Sherman]'s theme of [The Aristocats]." give the sentence of c -> d.
"""

from __future__ import annotations

from retriever.links.source import Source
from retriever.links.topology import PassagePairs
from retriever.objectives.base import Objective, PairTexts


class CoMention(Objective):
    """A sentence with an anchor to E -> another document's passage with anchors to E and back."""

    name = "co-mention"
    summary = "passages that link to the same third document (HLP)"
    query_is = "the sentence of c that holds its first anchor to E"
    positive_is = "a passage of D with anchors to E and to C"

    def candidates(self, source: Source) -> dict[str, PassagePairs]:
        """Every pair of passages once, however many documents both mention."""
        return {self.name: source.topology.co_mentions()}

    def texts(self, source: Source, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """The anchor's sentence."""
        query = source.anchor_sentence(int(pairs.query_link[i]))
        return PairTexts(query, source.text(int(pairs.positive[i])))
