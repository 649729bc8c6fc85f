"""An encoder without a model, for tests: a hashed bag of words with a fixed projection, numpy only."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import Parallel, Tokens, encode_texts
from linkseek.indexer.store.manifests import Reading

_VOCABULARY = 4096
_START = 0


class FakeEncoder:
    """Texts with the same words get close vectors, always the same ones.

    batch_noise: how much a vector depends on the batch that it is computed in, as with a real model in
    low precision. seconds_a_batch: how long a batch takes. on_batch is called before each.
    """

    note = ""

    def __init__(
        self,
        name: str = "fake-encoder",
        *,
        title: bool = True,
        dimension: int = 32,
        token_budget: int = 64,
        shard_rows: int = 8,
        max_tokens: int = 48,
        seed: int = 0,
        batch_noise: float = 0.0,
        seconds_a_batch: float = 0.0,
        on_batch: Callable[[], object] | None = None,
        parallel: Parallel | None = None,
    ) -> None:
        self.name = self.location = name
        self.title = title
        self.dimension = dimension
        self.token_budget = token_budget
        self.shard_rows = shard_rows
        self.max_tokens = max_tokens
        self.parallel = parallel or Parallel()
        self.batches: list[list[int]] = []
        self._seed = seed
        self._noise = batch_noise
        self._seconds = seconds_a_batch
        self._on_batch = on_batch

    @cached_property
    def _table(self) -> NDArray[np.float32]:  # [V, d]
        shape = _VOCABULARY, self.dimension
        return np.random.default_rng(self._seed).normal(size=shape).astype(np.float32)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sha256": f"{zlib.crc32(f'{self.name} {self._seed} {self.dimension}'.encode()):064x}",
            "dimension": self.dimension,
            "title": self.title,
        }

    @property
    def execution(self) -> dict[str, Any]:
        return {"backend": "numpy", "threads": 1}

    def reading(self, texts: Sequence[str]) -> Reading:
        return Reading()

    def tokenize_passages(self, titles: Sequence[str], texts: Sequence[str]) -> list[Tokens]:
        pairs = zip(titles, texts, strict=True)
        return [self._tokenize(f"{title} {text}" if self.title else text) for title, text in pairs]

    def _tokenize(self, text: str) -> Tokens:
        words = re.findall(r"\w+", text.lower())
        ids = [_START, *(1 + zlib.crc32(word.encode()) % (_VOCABULARY - 1) for word in words)]
        return ids[: self.max_tokens]

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        if self._on_batch is not None:
            self._on_batch()
        time.sleep(self._seconds)
        self.batches.append([len(tokens) for tokens in batch])
        vectors = np.stack([self._table[list(tokens)].sum(axis=0) for tokens in batch])  # [B, d]
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        padded = len(batch) * max(map(len, batch))
        return vectors * np.float32(1 + self._noise * padded)

    def text_of(self, tokens: Sequence[int]) -> str:
        return " ".join(map(str, tokens))

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return encode_texts(self, [self._tokenize(text) for text in texts])

    search_vectors = encode_queries

    encode_rows = encode_texts

    def comparable(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return vectors
