"""Late interaction: MaxSim of a question's token vectors with the stored codes of passages.

For the candidates of another pipeline, and as a search of its own, which compares every passage: exact, in
time that grows with the tokens of the index; the questions of a batch share most of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.errors import MismatchError
from linkseek.indexer.search.partitioned import merged
from linkseek.indexer.store.artifacts import LATE, LATE_PREFIX, encoder_of
from linkseek.retriever.models.prompts import text_form
from linkseek.retriever.ranking import Query, Ranking
from linkseek.retriever.search.explanation import Explanation, Part, place_of
from linkseek.retriever.search.stages import stage

if TYPE_CHECKING:
    from linkseek.retriever.models.late import LateEncoder

_BLOCK = 512
"""Passages whose codes are decoded together."""
_QUERIES = 16


class LateInteraction:
    """The token vectors of one encoder in an index."""

    def __init__(self, index: OpenIndex, name: str, open_encoder: Callable[..., LateEncoder]) -> None:
        """name: the name of an encoder whose token vectors are in the index. open_encoder: opens it by its
        location, with the title and prompts that it read passages with.

        Raises `UsageError` if the index has none, `MismatchError` for a model that did not make them.
        """
        self._index, self._part = index, index.codes_part(LATE, name)
        recorded = index.parts.late[encoder_of(self._part)].encoder
        self.encoder = open_encoder(LATE_PREFIX + recorded["location"], **text_form(recorded))
        self.identity: dict[str, Any] = self.encoder.identity | {"name": LATE_PREFIX + self.encoder.name}
        if any(recorded.get(key) != value for key, value in self.encoder.identity.items()):
            raise MismatchError(
                f"{recorded['location']}: not the model that made the index's token vectors",
                "Put that model back, or build the index again with --fresh.",
            )

    def __call__(self, queries: Sequence[Query], k: int) -> Ranking:
        """The k best of all passages for each query; equal scores by row."""
        waiting = iter(queries)
        found = [self._best(block, k) for block in iter(lambda: [*islice(waiting, _QUERIES)], [])]
        rows = np.concatenate([np.empty((0, k), np.int64), *(rows for rows, _ in found)])
        scores = np.concatenate([np.empty((0, k), np.float32), *(scores for _, scores in found)])
        return Ranking.of([query.id for query in queries], rows, scores)

    def scores(self, queries: Sequence[Query], rows: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
        """The scores of passages by their rows [Q, D], where -1 is empty and gets 0, for one query after
        another, float32 [D] each.
        """
        for query, own in zip(self._encoded(queries), rows, strict=True):
            scores, filled = np.zeros(len(own), np.float32), own >= 0
            codes = self._index.codes(self._part, own[filled])
            scores[filled] = self.encoder.quantizer.scores([query], codes, mean=self.encoder.mean)[0]
            yield scores

    def parts(self, query: Query, row: int) -> list[Part]:
        """Each word of the query, with the word of a passage that is nearest to it."""
        encoder, passage = self.encoder, self._index.passages[row]
        [vectors] = encoder.encode_queries([query.text])
        codes = self._index.codes(self._part, np.array([row])).codes
        words = encoder.passage_words(passage.title, passage.text)
        asked = encoder.query_words(query.text, len(vectors))
        if not words:
            return []
        products = encoder.quantizer.products(vectors, codes)  # [T, L]
        share = 1 / len(vectors) if encoder.mean else 1.0
        return [
            Part(f"{word} \N{RIGHTWARDS ARROW} {words[best]}", float(products[best, n]) * share)
            for n, (word, best) in enumerate(zip(asked, products.argmax(axis=0), strict=True))
        ]

    def explain(self, query: Query, row: int, k: int) -> Explanation | None:
        """What each word of the question adds to a score (`Explain`)."""
        place = place_of(self([query], k), row)
        return Explanation.of(place, self.parts(query, row)) if place else None

    def _encoded(self, queries: Sequence[Query]) -> list[NDArray[np.float32]]:
        with stage("encode question"):
            return self.encoder.encode_queries([query.text for query in queries])

    def _best(self, queries: Sequence[Query], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        vectors, count = self._encoded(queries), len(self._index.passages)
        best = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32)
        with stage("search vectors"):
            for start in range(0, count, _BLOCK):
                rows = np.arange(start, min(start + _BLOCK, count))
                codes = self._index.codes(self._part, rows)
                scores = self.encoder.quantizer.scores(vectors, codes, mean=self.encoder.mean)
                best = merged([best, (np.broadcast_to(rows, scores.shape), scores)], [0, 0], k)
        return best
