"""Inverse cloze task: a sentence -> its passage (Lee et al. 2019).

    query      a random sentence of a passage with at least two
    positive   the passage without the sentence; in one of ten pairs the whole passage
    negatives  none of its own

Example: "A moth flew in. It was the first bug." gives "It was the first bug." -> "A moth flew in."
"""

from __future__ import annotations

import numpy as np

from linkseek.retriever.links.source import LinkSource
from linkseek.retriever.links.topology import PassagePairs
from linkseek.retriever.objectives.base import PairObjective, PairTexts, pairs_without_query_link

KEEP_SHARE = 0.1
"""The share of pairs whose sentence stays in the passage (Lee et al. 2019, section 9.2)."""


class InverseCloze(PairObjective):
    """A sentence -> the rest of its passage."""

    name = "ict"
    summary = "a sentence and the passage it was cut out of (inverse cloze task)"
    query_is = "a sentence of a passage"
    positive_is = "the passage without it (with it in one of ten pairs)"
    needs_links = False

    def candidates(self, source: LinkSource) -> dict[str, PassagePairs]:
        """Every passage."""
        passages = np.arange(len(source.index.passages))
        return {self.name: pairs_without_query_link(passages, passages)}

    def texts(self, source: LinkSource, pairs: PassagePairs, i: int, draw: int) -> PairTexts | None:
        """A random sentence and the rest of its passage, or the whole passage."""
        text = source.text(int(pairs.positive[i]))
        sentences = source.sentences(text)
        if len(sentences) < 2:
            return None
        draw, place = divmod(draw, len(sentences))
        start, end = sentences[place]
        if draw % 1000 < KEEP_SHARE * 1000:
            return PairTexts(text[start:end], text)
        before, after = text[:start].rstrip(), text[end:].lstrip()
        return PairTexts(text[start:end], f"{before} {after}".strip())
