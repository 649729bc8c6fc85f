"""Progressive hyperlink prediction: a segment -> a document more closely linked to it than others are (PHP).

    query      a segment s of a document d: a passage
    better     s with a document that d links to, from a nearer group (`reranker.objectives.groups`: D1 to D4)
    worse      s with n documents that d links to, from a farther group
    anchors    where s names the document; documents of D4 have none

    php-hp     hyperlink prediction             D1, D2, D3 before D4    what s itself links to
    php-shp    symmetric hyperlink prediction   D1, D2 before D3        what links back to d
    php-mrds   most relevant document selection D1 before D2            what does so from its first segment

The paper trains them one after another (one epoch, one epoch, two), each from the model before. Equation
3 sums over the better documents, so each of them is a contrast of its own. Where there are fewer than n
worse documents each is taken once, then they are drawn again (section 4.5.4 samples repeatedly).
Documents without text are left out of the contrasts, not of the groups. A document of one segment has no
D4, so it gives no php-hp.

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

from reranker.contrasts import Contrast, TextPair
from reranker.objectives.base import Objective
from reranker.objectives.groups import LinkGroups
from reranker.objectives.source import Source


@dataclass(frozen=True)
class Stage(Objective):
    """What the three stages share: a candidate is one of the topology's links, by its place."""

    negatives: int = 24
    """worse documents a contrast; 24 were best (section 4.5.4)"""
    min_for_processes: ClassVar[int] = 2000

    farthest_better: ClassVar[int]
    """The last group that is better; the next one is worse."""
    missing: ClassVar[str]
    """What a corpus without candidates has not."""

    def candidates(self, source: Source) -> NDArray[np.int64]:
        """Every link of a segment to a better document, if the segment has a worse one; int64 [n, 1]."""
        groups, topology = source.link_groups, source.topology
        better = groups.group <= self.farthest_better  # [U]
        if self.farthest_better == 3:
            has_worse = groups.elsewhere() > 0  # [U]
        else:
            worse = topology.passage[groups.group == self.farthest_better + 1]
            has_worse = np.isin(topology.passage, worse)
        readable = _has_text(source, topology.target)
        return np.flatnonzero(better & has_worse & readable)[:, None]

    def contrasts(
        self, source: Source, rows: NDArray[np.int64], draws: NDArray[np.int64]
    ) -> Iterator[Contrast | None]:
        """The segment with the link's target, before n documents of the group behind."""
        topology, groups = source.topology, source.link_groups
        for (place,), draw in zip(rows.tolist(), draws.tolist(), strict=True):
            segment, document = int(topology.passage[place]), int(topology.target[place])
            worse = groups.of_segment(segment)[self.farthest_better]  # the groups count from 1
            worse = worse[_has_text(source, worse)]
            if len(worse) == 0:
                yield None
                continue
            chosen = _draw(worse, self.negatives, np.random.default_rng(draw))
            yield Contrast(
                better=_pair(source, segment, document),
                worse=tuple(_pair(source, segment, other) for other in chosen.tolist()),
                objective=self.name,
                evidence=_evidence(source, place, chosen),
            )

    def documents(self, source: Source, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the segments."""
        return source.topology.source[rows[:, 0]].astype(np.int64)

    def counts(self, source: Source) -> dict[str, Any]:
        """How many passages have an anchor, and how many documents their groups have."""
        return source.link_groups.counts()

    def why_none(self, source: Source) -> str:
        """Which links are missing."""
        if source.missing_links:
            return source.missing_links
        counts = self.counts(source)
        found = ", ".join(f"D{n} {counts[f'd{n}']:,}" for n in range(1, 5))
        return f"finds no passage {self.missing} (documents by group: {found})"


class HyperlinkPrediction(Stage):
    """Stage 1: what the segment links to, before what only the rest of its document links to."""

    name = "php-hp"
    summary = "a passage with what it links to, before what its document links to elsewhere (PHP, stage 1)"
    farthest_better = 3
    missing = "with anchors to some of the documents that its document links to, but not to all"


class SymmetricHyperlinkPrediction(Stage):
    """Stage 2: what links back, before what does not."""

    name = "php-shp"
    summary = "a passage with what it links to and links back, before what does not (PHP, stage 2)"
    farthest_better = 2
    missing = "with anchors both to a document that links back and to one that does not"


class MostRelevantDocumentSelection(Stage):
    """Stage 3: what links back from its first segment, before what does so later."""

    name = "php-mrds"
    summary = "a passage with what links back at its beginning, before what does so later (PHP, stage 3)"
    farthest_better = 1
    missing = "with anchors both to a document whose first passage links back and to one that does so later"


def _has_text(source: Source, documents: NDArray[Any]) -> NDArray[np.bool_]:
    offsets = source.index.passages.offsets
    found: NDArray[np.bool_] = offsets[documents + 1] > offsets[documents]
    return found


def _draw(documents: NDArray[np.int32], count: int, generator: np.random.Generator) -> NDArray[np.int32]:
    """`count` of some documents; if there are fewer, all in a random order, again and again."""
    rounds = -(-count // len(documents))
    return np.concatenate([generator.permutation(documents) for _ in range(rounds)])[:count]


def _pair(source: Source, segment: int, document: int) -> TextPair:
    """A segment with a document, and where it names it."""
    graph = source.index.links
    spans: list[tuple[int, int]] = []
    for link in graph.from_passage(segment):
        start, end = int(graph.start[link]), int(graph.end[link])
        if graph.target[link] == document and start < end and (not spans or spans[-1][1] <= start):
            spans.append((start, end))
    return source.pair(source.text(segment), document, spans)


def _evidence(source: Source, place: int, worse: NDArray[np.int32]) -> dict[str, Any]:
    """The link, the group that it puts its target in, the link back if there is one, the worse documents."""
    groups: LinkGroups = source.link_groups
    back = int(groups.back[place])
    return {
        "link": source.link_evidence(int(source.topology.link[place])),
        "group": f"D{groups.group[place]}",
        **({"back": source.link_evidence(back)} if back >= 0 else {}),
        "worse": [source.document_id(document) for document in worse.tolist()],
    }
