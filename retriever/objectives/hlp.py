"""HLP: dual links and co-mentions together (Zhou et al. 2022, section 3.2).

Each pair names its topology, since a batch of HLP's training holds one kind only. Co-mentions that are
dual links too are skipped here, so that no pair occurs twice.
"""

from __future__ import annotations

import numpy as np

from retriever.links.source import Source
from retriever.links.topology import PassagePairs
from retriever.objectives.base import Objective, PairTexts
from retriever.objectives.co_mention import CoMention
from retriever.objectives.dual_link import DualLink


class Hlp(Objective):
    """Both topologies."""

    name = "hlp"
    summary = "dual links and co-mentions (HLP)"
    query_is = "both of the above; each pair once, with the name of its topology"

    def candidates(self, source: Source) -> dict[str, PassagePairs]:
        """Dual links, and the co-mentions that are no dual links."""
        dual, shared = source.topology.dual_links(), source.topology.co_mentions()
        other = ~np.isin(shared.keys(), dual.keys())
        return {DualLink.name: dual, CoMention.name: shared[other]}

    def texts(self, source: Source, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """The anchor's sentence, as for either."""
        return DualLink().texts(source, pairs, i, draw)
