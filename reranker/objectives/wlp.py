"""Wiki link prediction for a cross-encoder: a passage that links to what the query is about against another.

    query    a random sentence of E's first section (`retriever.objectives.wlp`)
    better   a passage of another document with an anchor to E
    worse    a random passage of a third document, which may link to E as well

The baseline "Transformer_WLP" of PHP. The direction is that of HLP's figure 1; PROP and PHP describe it the
other way round. Example: E = "Warsaw covers 517 km2." gives that query with "The film was shot in [Warsaw]."
against any other passage.
"""

from __future__ import annotations

from dataclasses import dataclass

from reranker.objectives.from_pairs import FromPairs
from retriever.objectives.wlp import WikiLinkPrediction


@dataclass(frozen=True)
class WlpContrasts(FromPairs):
    """A passage that links to E against another."""

    name = "wlp"
    summary = "a sentence about a document with a passage that links to it, and with another"
    pairs = WikiLinkPrediction()
