"""An encoder as the stages of a build see it, where the model itself is elsewhere or not needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import Parallel, Tokens
from linkseek.indexer.encoding.encode import Encoder


@dataclass(frozen=True)
class EncoderFacts:
    """The facts of an encoder; as an `Encoder`, it encodes by `parallel.elsewhere` alone."""

    identity: dict[str, Any]
    location: str
    execution: dict[str, Any]
    dimension: int
    token_budget: int
    shard_rows: int
    parallel: Parallel = field(default=Parallel(), compare=False)

    @property
    def name(self) -> str:
        """The encoder's name."""
        return str(self.identity["name"])

    @classmethod
    def of(cls, encoder: Encoder) -> EncoderFacts:
        """The facts of an open encoder."""
        return cls(
            encoder.identity,
            encoder.location,
            encoder.execution,
            encoder.dimension,
            encoder.token_budget,
            encoder.shard_rows,
        )

    def tokenize_passages(self, titles: Sequence[str], texts: Sequence[str]) -> Sequence[Tokens]:
        """Never called: the model is not here."""
        raise AssertionError("facts of an encoder tokenise nothing")

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Never called: the model is not here."""
        raise AssertionError("facts of an encoder encode nothing")

    def comparable(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Never called: the model is not here."""
        raise AssertionError("facts of an encoder compare nothing")

    def text_of(self, tokens: Tokens) -> str:
        """Never called: the model is not here."""
        raise AssertionError("facts of an encoder decode nothing")
