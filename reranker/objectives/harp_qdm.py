"""Query disambiguation: an anchor in its words -> its page, before another page of that anchor (HARP, 3.2.2).

    query    S1 of `harp_rqp`: an anchor and words of its sentence, drawn by the attentions of the anchor
    better   with the page that the anchor leads to here
    worse    with a random other page that the same anchor leads to elsewhere

Anchors with 2 to 10 pages (the released code's limit; the paper names none). Case and spacing do not count.
Example: "He ate an [apple|Apple]." and "The [Apple|Apple Inc.] phone rang." give
"apple ate" with Apple before Apple Inc.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.store.ids import hash_ids
from linkseek.reranker.contrasts import Contrast
from linkseek.reranker.objectives.attentions import Attended
from linkseek.reranker.objectives.harp import (
    Harp,
    Plan,
    anchor_key,
    mention_of,
    page_of,
    usable_links,
)
from linkseek.reranker.objectives.source import ContrastSource

_MAX_PAGES = 10


@dataclass(frozen=True)
class QueryDisambiguation(Harp):
    """The page of an ambiguous anchor before another of its pages."""

    name = "harp-qdm"
    summary = "an ambiguous anchor and words around it, with its page before another of the anchor's (HARP)"
    better_is = "an ambiguous anchor and words of its sentence, with its page"
    worse_is = "the same query, with another page that this anchor leads to elsewhere"

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link whose anchor leads to several documents: [n, 10], the link and the others, else -1."""
        links = usable_links(source)
        target = np.asarray(source.index.links.target)[links].astype(np.int64)  # [n]
        anchor = anchor_hashes(source, links)  # [n]
        order = np.lexsort((target, anchor))
        new = np.ones(len(links), np.bool_)
        new[1:] = np.diff(anchor[order]).astype(np.bool_) | np.diff(target[order]).astype(np.bool_)
        anchors, targets = anchor[order][new], target[order][new]  # [m], each pair once
        low = np.searchsorted(anchors, anchor, side="left")  # [n]
        count = np.searchsorted(anchors, anchor, side="right") - low
        several = np.flatnonzero((count > 1) & (count <= _MAX_PAGES))
        column = np.arange(_MAX_PAGES)
        places = np.minimum(low[several, None] + column, max(len(targets) - 1, 0))  # [k, 10]
        others = np.where(column < count[several, None], targets[places], -1)
        # One of the ten is the link's own: its place is the link's.
        own = np.argmax(others == target[several, None], axis=1)
        others[np.arange(len(several)), own] = others[:, 0]
        others[:, 0] = links[several]
        return {self.name: others}

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """The page of the link and another page of its anchor."""
        mention = mention_of(source, row[0])
        if mention is None:
            return None

        def finish(of_sentence: Attended) -> Contrast | None:
            query = " ".join(self.mention_set(source, mention, of_sentence, generator))
            other = int(generator.choice([document for document in row[1:] if document >= 0]))
            better, worse = page_of(source, mention.target), page_of(source, other)
            if not query or better is None or worse is None:
                return None
            evidence = {"link": source.link_evidence(mention.link), "worse": source.document_id(other)}
            return self.contrast((query, better), (query, worse), evidence)

        return Plan([(mention.sentence, (mention.start, mention.end))], finish)


def anchor_hashes(source: ContrastSource, links: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each link's anchor, uint64 [n], in one pass over the texts. links: ascending."""
    graph = source.index.links
    passage, start, end = (np.asarray(column)[links] for column in (graph.passage, graph.start, graph.end))
    hashes, row = [np.empty(0, np.uint64)], 0
    for (texts,) in source.index.passages.table.batches(["text"]):
        low, high = np.searchsorted(passage, [row, row + len(texts)])
        spans = zip(*(column[low:high].tolist() for column in (passage - row, start, end)), strict=True)
        hashes.append(hash_ids(anchor_key(texts[p].as_py()[s:e]) for p, s, e in spans))
        row += len(texts)
    return np.concatenate(hashes)
