"""Inverse cloze task: a sentence -> the passage that it stands in (Lee et al. 2019).

    query      a random sentence of a passage with at least two
    positive   the passage without it; with it, once in ten times
    negatives  none of its own

Example: "A moth flew in. It was the first bug." gives "It was the first bug." -> "A moth flew in."
"""

from __future__ import annotations

import numpy as np

from retriever.mining.topology import Pairs
from retriever.objectives import Asked, Objective, Source, pairs_without_query_link

KEPT = 0.1
"""How often the sentence stays in its passage (Lee et al. 2019, section 9.2)."""


class InverseCloze(Objective):
    """A sentence -> the rest of its passage."""

    name = "ict"
    summary = "a sentence and the passage it was cut out of (inverse cloze task)"
    needs_links = False

    def candidates(self, source: Source) -> dict[str, Pairs]:
        """Every passage."""
        passages = np.arange(len(source.index.passages))
        return {self.name: pairs_without_query_link(passages, passages)}

    def query(self, source: Source, pairs: Pairs, i: int, draw: int) -> Asked | None:
        """A random sentence, cut out or not."""
        text = source.text(int(pairs.positive[i]))
        sentences = source.sentences(text)
        if len(sentences) < 2:
            return None
        draw, which = divmod(draw, len(sentences))
        start, end = sentences[which]
        if draw % 1000 < KEPT * 1000:
            return Asked(text[start:end], text)
        before, behind = text[:start].rstrip(), text[end:].lstrip()
        return Asked(text[start:end], f"{before} {behind}".strip())
