"""Progressive hyperlink prediction: a segment -> a document more closely linked to it than others are (PHP).

    query      a segment s of a document d: a passage
    better     s with a document that d links to, from a nearer group (`link_groups`: D1 to D4)
    worse      s with n documents that d links to, from the next farther group
    anchors    the anchors in s that lead to the document; documents of D4 have none

    php-hp     hyperlink prediction             D1, D2, D3 before D4    documents that s itself links to
    php-shp    symmetric hyperlink prediction   D1, D2 before D3        documents that link back to d
    php-mrds   most relevant document selection D1 before D2            those whose first segment links back

The paper trains them one after another (one epoch, one epoch, two), each from the model before. Equation
3 sums over the better documents, so each of them is a contrast of its own. Where there are fewer than n
worse documents each is taken once, then they are drawn again (section 4.5.4 samples repeatedly).
Documents without text are skipped in the contrasts, but not in the groups. A document of one segment has
no D4, so it gives no php-hp.

Example: "[Apple] sells [electronics] as a [company]." with Apple, electronics and company all linked
from Jobs' first passage; only Apple and electronics link back, Apple from its first passage, electronics
from its second; a later passage of Jobs links to Zen. Then php-hp has Apple, electronics and company each
before Zen, php-shp Apple and electronics each before company, php-mrds Apple before electronics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from linkseek.reranker.contrasts import Contrast, TextPair
from linkseek.reranker.objectives.base import ContrastObjective, ContrastSource
from linkseek.retriever.links.sentences import Span
from linkseek.retriever.mining.objective import Draws, setting


@dataclass(frozen=True)
class PhpStage(ContrastObjective):
    """The base of the three stages: a candidate is one of the topology's links, by its place."""

    negatives: int = setting(24, "worse documents in a contrast", ge=1, le=1000)  # the best of section 4.5.4
    min_for_processes: ClassVar[int] = 2000

    farthest_better: ClassVar[int]
    """The last group that is better; the next one is worse."""
    missing: ClassVar[str]
    """What a passage needs to have candidates, and most passages lack."""

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link of a segment to a better document, if the segment has a worse one; int64 [n, 1]."""
        groups, topology = source.link_groups, source.topology
        better = groups.group <= self.farthest_better  # [U]
        if self.farthest_better == 3:
            has_worse = groups.elsewhere() > 0  # [U]
        else:
            worse = topology.passage[groups.group == self.farthest_better + 1]
            has_worse = np.isin(topology.passage, worse)
        readable = _has_text(source, topology.target)
        return {self.name: np.flatnonzero(better & has_worse & readable)[:, None]}

    def read(
        self, source: ContrastSource, rows: NDArray[np.int64], draws: Draws
    ) -> Iterator[Contrast | None]:
        """The segment with the link's target, before n documents of the next group."""
        topology, groups = source.topology, source.link_groups
        for (place,), draw in zip(rows.tolist(), draws.tolist(), strict=True):
            segment, document = int(topology.passage[place]), int(topology.target[place])
            worse = groups.of_segment(segment)[self.farthest_better]  # the groups count from 1
            worse = worse[_has_text(source, worse)]
            if len(worse) == 0:
                yield None
                continue
            chosen = _draw(worse, self.negatives, np.random.default_rng(draw)).tolist()
            back = int(groups.back[place])
            evidence = {
                "link": source.link_evidence(int(topology.link[place])),
                "group": f"D{groups.group[place]}",
                **({"back": source.link_evidence(back)} if back >= 0 else {}),
                "worse": [source.document_id(other) for other in chosen],
            }
            others = tuple(_pair(source, segment, other) for other in chosen)
            yield Contrast(_pair(source, segment, document), others, self.name, evidence)

    def counts(self, source: ContrastSource) -> dict[str, Any]:
        """The number of passages with an anchor, and of the documents in their groups."""
        return source.link_groups.counts()

    def why_none(self, source: ContrastSource) -> str:
        """The links that are missing."""
        if source.missing_links:
            return source.missing_links
        counts = self.counts(source)
        groups = ", ".join(f"D{n} {counts[f'd{n}']:,}" for n in range(1, 5))
        return f"finds no passage {self.missing} (documents by group: {groups})"


class HyperlinkPrediction(PhpStage):
    """Stage 1: documents that the segment links to, before those that only its document links to."""

    name = "php-hp"
    summary = (
        "a passage with a document it links to, before those that its article links to elsewhere (PHP, 1)"
    )
    better_is = "a passage, with a document that it links to"
    worse_is = "the passage, with documents that only other passages of its document link to"
    farthest_better = 3
    missing = "with anchors to some of the documents that its document links to, but not to all"


class SymmetricHyperlinkPrediction(PhpStage):
    """Stage 2: documents that link back, before those that do not."""

    name = "php-shp"
    summary = "a passage with a document that links back, before those that do not (PHP, 2)"
    better_is = "a passage, with a document that it links to and that links back"
    worse_is = "the passage, with documents that it links to and that do not"
    farthest_better = 2
    missing = "with anchors both to a document that links back and to one that does not"


class MostRelevantDocumentSelection(PhpStage):
    """Stage 3: documents that link back from their first segment, before those that do so later."""

    name = "php-mrds"
    summary = "a passage with a document that links back early, before those that do so later (PHP, 3)"
    better_is = "a passage, with a document that it links to and that links back from its first passage"
    worse_is = "the passage, with documents that link back from a later one"
    farthest_better = 1
    missing = "with anchors both to a document whose first passage links back and to one that does so later"


def _has_text(source: ContrastSource, documents: NDArray[Any]) -> NDArray[np.bool_]:
    offsets = source.index.passages.offsets
    return np.asarray(offsets[documents + 1] > offsets[documents])


def _draw(documents: NDArray[np.int32], count: int, generator: np.random.Generator) -> NDArray[np.int32]:
    """`count` of some documents; if there are fewer, all in a random order, again and again."""
    rounds = -(-count // len(documents))
    return np.concatenate([generator.permutation(documents) for _ in range(rounds)])[:count]


def _pair(source: ContrastSource, segment: int, document: int) -> TextPair:
    """A segment with a document, and the anchors that lead to it."""
    graph = source.index.links
    spans: list[Span] = []
    for link in graph.from_passage(segment):
        start, end = int(graph.start[link]), int(graph.end[link])
        if graph.target[link] == document and start < end and (not spans or spans[-1][1] <= start):
            spans.append((start, end))
    return source.pair(source.text(segment), document, spans)
