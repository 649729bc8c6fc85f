"""Token vectors, several for each passage, in codes of 4 or 2 bits a number.

A vector is rotated by fixed signs and a discrete cosine transform. After that its numbers are nearly normally
distributed with a variance of 1/d, whichever model made it, and each is replaced by the nearest of the 16 or
4 levels that lose least for this distribution (Max 1960, "Quantizing for minimum distortion", table I).
Nothing is learned from the passages, so that shards can be encoded in any order and on any machine, and their
codes stay as they are when passages are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEVELS = {
    2: (0.1175, (0.4528, 1.5104)),
    4: (0.009497, (0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0691, 2.7326)),
}
"""For the standard normal distribution, by bits: the distortion, and the positive half of the levels."""
_SEED = 1
_LENGTH = np.dtype("<f2")


@dataclass(frozen=True)
class TokenCodes:
    """Codes of the tokens of some passages, uint8 [T, c], and where each passage ends, int64 [n]."""

    codes: NDArray[np.uint8]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, row: int) -> NDArray[np.uint8]:
        """The codes of one passage, uint8 [tokens, c]."""
        return self.codes[self.ends[row - 1] if row else 0 : self.ends[row]]

    @classmethod
    def of(cls, passages: Sequence[NDArray[np.uint8]], width: int) -> TokenCodes:
        """From the codes of each passage; width: bytes per token."""
        ends = np.cumsum([len(codes) for codes in passages], dtype=np.int64)
        return cls(np.concatenate([np.empty((0, width), np.uint8), *passages]), ends)


class Quantizer:
    """Codes of vectors of one dimension.

    bits: bits per number. unit: whether all vectors have length 1; otherwise each code ends with the length,
    in float16.
    """

    def __init__(self, dimension: int, bits: int, *, unit: bool) -> None:
        self._numbers = -(-dimension // 4) * 4  # which fill whole bytes
        self._unit = unit
        distortion, levels = _LEVELS[bits]
        positive = np.array(levels, np.float32)
        self._levels = np.concatenate([-positive[::-1], positive])
        self._bounds = (self._levels[1:] + self._levels[:-1]) / 2
        self._shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)  # [numbers in a byte], high bits first
        in_byte = (np.arange(256)[:, None] >> self._shifts) & (2**bits - 1)
        # Divided by what levels lose of a vector's length, so that inner products are right on average.
        scale = (1 - distortion) * np.sqrt(self._numbers)
        self._table = (self._levels[in_byte] / scale).astype(np.float32)  # [256, numbers in a byte]
        signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], self._numbers)
        places = np.arange(self._numbers)
        lengths = np.sqrt(np.where(places, 2, 1) / self._numbers)
        cosines = np.cos(np.pi / self._numbers * np.outer(places + 0.5, places)) * lengths
        self._rotation = (signs[:, None] * cosines)[:dimension].astype(np.float32)  # [d, D]

    @property
    def width(self) -> int:
        """Bytes per token."""
        return self._numbers // len(self._shifts) + (0 if self._unit else _LENGTH.itemsize)

    def rotated(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors [T, d] as [T, D], with the vectors' inner products with decoded codes."""
        return np.asarray(vectors @ self._rotation, np.float32)

    def encode(self, vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
        """The codes of vectors [T, d], uint8 [T, width]."""
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)  # [T, 1]
        scale = np.sqrt(np.float32(self._numbers)) / np.maximum(lengths, 1e-12)
        numbers = np.searchsorted(self._bounds, self.rotated(vectors * scale)).astype(np.uint8)  # [T, D]
        parts = numbers.reshape(len(vectors), -1, len(self._shifts)) << self._shifts
        codes: NDArray[np.uint8] = np.bitwise_or.reduce(parts, axis=2)
        if not self._unit:
            codes = np.hstack([codes, lengths.astype(_LENGTH).view(np.uint8)])
        return codes

    def decode(self, codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Rotated vectors [T, D] of codes [T, width]."""
        # Every byte is in the table. Without numpy's check of that, this takes a third of the time.
        if self._unit:
            return np.asarray(self._table.take(codes, axis=0, mode="clip").reshape(len(codes), self._numbers))
        lengths = codes[:, -_LENGTH.itemsize :].copy().view(_LENGTH)  # [T, 1]
        numbers = self._table.take(codes[:, : -_LENGTH.itemsize], axis=0, mode="clip").reshape(
            len(codes), self._numbers
        )
        return np.asarray(numbers * lengths, np.float32)

    def products(self, query: NDArray[np.float32], codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The inner products of tokens with a query's tokens [L, d], float32 [T, L]."""
        return np.asarray(self.decode(codes) @ self.rotated(query).T, np.float32)

    def scores(
        self, queries: Sequence[NDArray[np.float32]], passages: TokenCodes, *, mean: bool
    ) -> NDArray[np.float32]:
        """MaxSim of the token vectors [L, d] of each query with passages, float32 [Q, n].

        Each token of a query counts with its largest inner product with a token of the passage (Khattab and
        Zaharia 2020, section 3.3). mean: their mean instead of their sum. 0 for a passage without tokens.
        """
        scores = np.zeros((len(queries), len(passages)), np.float32)
        starts = np.concatenate([[0], passages.ends[:-1]]).astype(np.int64)
        filled = starts < passages.ends
        if filled.any() and any(len(query) for query in queries):
            products = self.products(np.concatenate(queries), passages.codes)  # [T, L of all]
            best = np.maximum.reduceat(products, starts[filled])  # [filled, L of all]
            parts = np.split(best, np.cumsum([len(query) for query in queries])[:-1], axis=1)
            for own, part in zip(scores, parts, strict=True):
                own[filled] = part.sum(axis=1) / (max(part.shape[1], 1) if mean else 1)
        return scores

    @property
    def settings(self) -> dict[str, Any]:
        """Everything on which codes depend, for the identity of an encoder."""
        return {"bits": 8 // len(self._shifts), "rotation": f"dct-{_SEED}"}
