"""Inverse cloze task for a cross-encoder: a sentence with its passage against the sentence with another.

    query    a random sentence of a passage with at least two
    better   the passage without it; with it, once in ten times (`retriever.objectives.ict`)
    worse    a random passage of another document

The baseline "Transformer_ICT" of PROP and PHP. Example: "A moth flew in. It was the first bug." gives the
query "It was the first bug." with "A moth flew in." against any other passage.
"""

from __future__ import annotations

from dataclasses import dataclass

from reranker.objectives.from_pairs import FromPairs
from retriever.objectives.ict import InverseCloze


@dataclass(frozen=True)
class IctContrasts(FromPairs):
    """A sentence's own passage against another."""

    name = "ict"
    summary = "a sentence with the passage it was cut out of, and with another"
    needs_links = False
    pairs = InverseCloze()
