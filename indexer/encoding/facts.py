"""An encoder as the stages of a build see it, where the model itself is elsewhere or not needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from linkseek.indexer.encoding.batches import Parallel
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.store.manifests import Reading


@dataclass(frozen=True)
class EncoderFacts:
    """The facts of an encoder; as an `Encoder`, it encodes by `parallel.elsewhere` alone.

    reading: asks the model where it is.
    """

    identity: dict[str, Any]
    location: str
    execution: dict[str, Any]
    dimension: int
    token_budget: int
    shard_rows: int
    parallel: Parallel = field(default=Parallel(), compare=False)
    reading: Callable[[Sequence[str]], Reading] = field(default=lambda texts: Reading(), compare=False)

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

    def _absent(self, *_: object) -> NoReturn:
        """Never called: the model is not here."""
        raise AssertionError("facts of an encoder tokenise, encode, compare and decode nothing")

    tokenize_passages = encode_tokens = comparable = text_of = _absent
