"""Term weights: of each passage some terms of a model's vocabulary, each with its impact, a whole number.

Learned sparse models (Formal et al. 2021, "SPLADE") give a passage a weight for each term of a vocabulary,
most of which are 0. A weight is multiplied by the model's scale and rounded. An inverted index stores it in
the place of a word's frequency; the score of a passage is a sum of products with the weights of a question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.shards import Shard, TokenShards

IMPACTS = "impacts"
"""In place of a language: the texts that Lucene indexes are terms with their impacts."""

WIDTH = 5
"""Bytes of a code: the number of a term in three, its impact in two, both little-endian."""
MAX_TERMS = 1 << 24
_LARGEST = (1 << 16) - 1


def impact_codes(weights: NDArray[np.float32], scale: float) -> list[NDArray[np.uint8]]:
    """The codes of weights [B, V] >= 0, uint8 [terms, WIDTH] for each row, by term; without those that round
    to 0."""
    impacts = np.minimum(np.rint(weights * scale), _LARGEST).astype("<u2")  # [B, V]
    codes = []
    for own in impacts:
        terms = np.flatnonzero(own).astype("<u4")
        code = np.empty((len(terms), WIDTH), np.uint8)
        code[:, :3] = terms.view(np.uint8).reshape(-1, 4)[:, :3]
        code[:, 3:] = own[terms].view(np.uint8).reshape(-1, 2)
        codes.append(code)
    return codes


def terms_and_impacts(codes: NDArray[np.uint8], most: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The terms of a passage, ascending, and their impacts, int64 [n] each.

    most: the number of largest impacts to keep; among equal ones the first terms win; 0: all.
    """
    terms, impacts = codes[:, :3].astype(np.int64) @ (1, 1 << 8, 1 << 16), _impacts(codes)
    if 0 < most < len(terms):
        kept = np.sort(np.argsort(-impacts, kind="stable")[:most])
        return terms[kept], impacts[kept]
    return terms, impacts


def _impacts(codes: NDArray[np.uint8]) -> NDArray[np.int64]:
    return codes[:, 3:].astype(np.int64) @ (1, 1 << 8)


class ImpactTexts:
    """The text of each passage that Lucene indexes, such as "1037|12 2158|205". Read once, in order."""

    def __init__(self, shards: Sequence[Shard], most: int) -> None:
        """most: as in `terms_and_impacts`."""
        self._shards = shards
        self._most = most
        self._sums = np.zeros(2, np.int64)  # of the impacts that are kept, and of all

    def __iter__(self) -> Iterator[str]:
        for shard in self._shards:
            for codes in TokenShards([shard]).take(np.arange(shard.first_row, shard.first_row + shard.rows)):
                terms, impacts = terms_and_impacts(codes, self._most)
                self._sums += impacts.sum(), _impacts(codes).sum()
                pairs = zip(terms.tolist(), impacts.tolist(), strict=True)
                yield " ".join(f"{term}|{impact}" for term, impact in pairs)

    @property
    def kept(self) -> float:
        """The share of the impacts that were kept in the texts read so far."""
        return float(self._sums[0] / max(self._sums[1], 1))
