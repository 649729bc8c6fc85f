"""A bi-encoder as a re-ranker: a score is the dot product of the vectors of query and text.

It ranks candidates as a search over the vectors of all passages would, without storing vectors: the baseline
of re-rankers that read query and text together, and a way to re-rank any run with any encoder.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.batches import TokenRows, encode_texts
from indexer.encoding.encode import OnRows
from reranker.candidates import PairFormat, Readable
from reranker.models.cross_encoder import BLOCK_PAIRS
from retriever.models.biencoder import BiEncoder
from retriever.models.engine import Engine

BI_ENCODER_PREFIX = "bi-encoder:"
"""Marks the name of an encoder whose dot products are the scores."""


class BiEncoderScorer:
    """Dot products as the scores of pairs."""

    def __init__(self, encoder: BiEncoder) -> None:
        own = encoder.text_format
        self.text_format = PairFormat(own.title, own.passage_prompt, own.query_prompt, own.title_separator)
        self.identity = encoder.identity | {"name": BI_ENCODER_PREFIX + encoder.name}
        self._encoder = encoder
        self._readable = Readable(encoder.facts)

    def score(
        self, queries: Iterable[str], texts: Iterable[str], on_rows: OnRows = lambda rows: None
    ) -> NDArray[np.float32]:
        """As a cross-encoder's (`Scorer`). Each query of a block is encoded once."""
        pairs = zip(queries, map(self._readable.start, texts), strict=True)
        scores = [np.empty(0, np.float32)]
        while block := list(islice(pairs, BLOCK_PAIRS)):
            place = {query: n for n, query in enumerate(dict.fromkeys(query for query, _ in block))}
            distinct = self._encode(self._encoder.queries, [*place])  # [Q, d]
            of_queries = distinct[[place[query] for query, _ in block]]  # [b, d]
            passages = self._encode(self._encoder, [text for _, text in block], on_rows)  # [b, d]
            scores.append(np.einsum("bd,bd->b", of_queries, passages))
        return np.concatenate(scores)

    def windows(self, query: str, head: str, text: str) -> list[str]:
        """As a cross-encoder's (`Scorer`); the query takes no space of the text."""
        return self._readable.windows(head, text)

    def _encode(
        self, tower: Engine, texts: list[str], on_rows: OnRows = lambda rows: None
    ) -> NDArray[np.float32]:
        """Vectors [n, d]."""
        tokens = TokenRows.of(encoding.ids for encoding in tower.tokenizer.encode_batch_fast(texts))
        return encode_texts(tower, tokens, on_rows)
