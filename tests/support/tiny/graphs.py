"""Random graphs of links, and their topologies without an index."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from linkseek.indexer.links import LinkGraph
from linkseek.retriever.links.topology import Topology

Links = list[tuple[int, int]]
"""(passage, target document), in reading order"""


def topology_from(passages: list[int], links: Links) -> Topology:
    """passages: of each document."""
    columns = np.array(sorted(links, key=lambda link: link[0]), np.int32).reshape(-1, 2)
    nothing = np.zeros(len(links), np.int32)
    graph = LinkGraph(
        target=columns[:, 1],
        passage=columns[:, 0],
        start=nothing,
        end=nothing,
        offsets=np.zeros(1, np.int64),
        incoming=nothing,
        incoming_offsets=np.zeros(1, np.int64),
    )
    return Topology(graph, np.concatenate([[0], np.cumsum(passages)]).astype(np.int64))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], Links]:
    """The passages of each document, and links."""
    passages = draw(st.lists(st.integers(0, 4), min_size=1, max_size=9))
    link = st.tuples(st.integers(0, max(sum(passages) - 1, 0)), st.integers(0, len(passages) - 1))
    return passages, draw(st.lists(link, max_size=70)) if sum(passages) else []
