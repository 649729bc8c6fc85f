"""HLP: dual links and co-mentions together (Zhou et al. 2022, section 3.2).

Each pair says which of the two it is, since a batch of HLP's training holds one kind only. Co-mentions
that are dual links too are left out here, so that no pair stands twice.
"""

from __future__ import annotations

import numpy as np

from retriever.mining.topology import Pairs
from retriever.objectives import Asked, Objective, Source
from retriever.objectives.co_mention import CoMention
from retriever.objectives.dual_link import DualLink


class Hlp(Objective):
    """Both topologies."""

    name = "hlp"
    summary = "dual links and co-mentions (HLP)"

    def candidates(self, source: Source) -> dict[str, Pairs]:
        """Dual links, and the co-mentions that are none."""
        dual, shared = source.topology.dual_links(), source.topology.co_mentions()
        other = ~np.isin(shared.keys(), dual.keys())
        return {DualLink.name: dual, CoMention.name: shared.take(other)}

    def query(self, source: Source, pairs: Pairs, i: int, draw: int) -> Asked | None:
        """The anchor's sentence, as for either."""
        return DualLink().query(source, pairs, i, draw)
