"""Representative document prediction: a sentence -> the page of its heavier anchor (HARP, 3.2.3).

    query    a sentence with anchors to several pages
    better   of two anchors drawn by the attentions of [CLS], with the page of the heavier one
    worse    with the page of the other

Two anchors per sentence, as the paper samples them (the released code takes all). Equation 10 is printed as
the attention of the anchor to [CLS]; the text, and equations 5 and 13, mean the attention of [CLS] to the
anchor. Equal anchors in a sentence count together and have the first one's page.
Example: "The [cat] chased a [mouse] home." with a [CLS] attending to cat gives the page of cat before mouse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linkseek.reranker.contrasts import Contrast
from linkseek.reranker.objectives.attentions import Attended
from linkseek.reranker.objectives.harp import (
    Harp,
    Mention,
    Plan,
    anchor_key,
    first_of_several,
    mentions_beginning_with,
    page_of,
    softmax,
)
from linkseek.reranker.objectives.source import ContrastSource


@dataclass(frozen=True)
class RepresentativeDocumentPrediction(Harp):
    """The page of the more important of two anchors."""

    name = "harp-rdp"
    summary = "a sentence with the page of its more important anchor, before another anchor's page (HARP)"
    better_is = "a sentence, with the page of an anchor in it that matters more"
    worse_is = "the sentence, with the page of one that matters less"

    def candidates(self, source: ContrastSource) -> dict[str, NDArray[np.int64]]:
        """Every link that may be the first of several in its sentence."""
        return {self.name: first_of_several(source)}

    def plan(self, source: ContrastSource, row: list[int], generator: np.random.Generator) -> Plan | None:
        """Two pages for the sentence."""
        mentions = mentions_beginning_with(source, row[0])
        if len({mention.target for mention in mentions}) < 2:
            return None

        def finish(attended: Attended) -> Contrast | None:
            drawn = self._draw_two(mentions, attended, generator)
            pages = [page_of(source, mention.target) for mention, _ in drawn]
            if not drawn or pages[0] is None or pages[1] is None:
                return None
            evidence = {
                side: source.link_evidence(mention.link) | {"share": share}
                for side, (mention, share) in zip(("better", "worse"), drawn, strict=True)
            }
            query = mentions[0].sentence
            return self.contrast((query, pages[0]), (query, pages[1]), evidence)

        return Plan([(mentions[0].sentence, None)], finish)

    def _draw_two(
        self, mentions: list[Mention], attended: Attended, generator: np.random.Generator
    ) -> list[tuple[Mention, float]]:
        """Two anchors to different pages with their shares (equation 11), the larger first; [] if equal."""
        shares = importance(mentions, attended, self.temperature)
        first, share = shares[generator.choice(len(shares), p=[share for _, share in shares])]
        others = [pair for pair in shares if pair[0].target != first.target]
        if not others:
            return []
        left = np.array([share for _, share in others])
        second = others[generator.choice(len(others), p=left / left.sum())]
        if second[1] == share:
            return []
        return sorted([(first, share), second], key=lambda pair: -pair[1])


def importance(
    mentions: list[Mention], attended: Attended, temperature: float
) -> list[tuple[Mention, float]]:
    """The first mention of each distinct anchor, with its share (equations 10 and 11)."""
    first: dict[str, Mention] = {}
    weight: dict[str, float] = {}
    for mention in mentions:
        key = anchor_key(mention.anchor)
        first.setdefault(key, mention)
        weight[key] = weight.get(key, 0.0) + attended.within(mention.start, mention.end)
    shares = softmax(list(weight.values()), temperature)
    return list(zip(first.values(), shares.tolist(), strict=True))
