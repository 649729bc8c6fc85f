"""Passages to vectors, a shard at a time: tokenised ahead, batched by a token budget, resumable.

A shard is a fixed range of rows, and its batches (`indexer.encoding.batches`) depend only on its own texts,
the tokenizer and the token budget; none spans two shards. A killed build resumes at the first missing shard
and ends with the same bits on the same machine. For the same reason shards can be encoded anywhere
(`indexer.encoding.on_ray`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.encoding.batches import BatchModel, Parallel, Texts, TokenizingAhead, Tokens
from linkseek.indexer.encoding.shards import Shard, read_shard, shard_count, write_shard
from linkseek.indexer.encoding.token_codes import TokenCodes
from linkseek.indexer.program.errors import MachineError
from linkseek.indexer.store.manifests import Reading

if TYPE_CHECKING:
    from linkseek.indexer.passages import PassageStore
    from linkseek.indexer.store.tables import Table

OnRows = Callable[[float], None]


class Encoder(BatchModel, Protocol):
    """A model that turns texts into vectors, such as `retriever.models.biencoder.BiEncoder`."""

    @property
    def identity(self) -> dict[str, Any]:
        """Everything the vectors depend on: name, weights' hash, text format. Goes into the manifest."""

    @property
    def location(self) -> str:
        """The name or path to open it again."""

    @property
    def execution(self) -> dict[str, Any]:
        """Everything their last bits depend on: backend, precision, streams, versions."""

    @property
    def shard_rows(self) -> int:
        """Rows in a shard: about half a minute of work."""

    def tokenize_passages(self, titles: Sequence[str], texts: Sequence[str]) -> Sequence[Tokens]:
        """Token ids of passages, cut to the model's length."""

    def reading(self, texts: Sequence[str]) -> Reading:
        """Facts about how the encoder reads these texts."""

    def encode_rows(
        self, tokens: Sequence[Tokens], on_rows: OnRows, first_passage: int
    ) -> NDArray[np.float32] | TokenCodes:
        """What an index stores of passages: vectors [n, d] whose inner products are the model's own
        similarity, or the codes of their tokens. The arguments are those of `encode_texts`."""


@dataclass(frozen=True)
class PassageTexts:
    """Titles and texts of passages, for `indexer.encoding.batches`; `rows`: of these alone."""

    table: Table
    rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.table if self.rows is None else self.rows)

    def read(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        """(titles, texts) of rows [start, stop)."""
        if self.rows is not None:
            rows = self.rows[start:stop].tolist()
            titles, texts = ([self.table.value(name, row) for row in rows] for name in ("title", "text"))
            return titles, texts
        return list(self.table.column("title", start, stop)), list(self.table.column("text", start, stop))


def encode_passages(
    encoder: Encoder,
    passages: PassageStore,
    folder: Path,
    *,
    only: NDArray[np.int64] | None = None,
    on_start: Callable[[int, int, int], None] = lambda finished, shards, rows: None,
    on_rows: OnRows = lambda rows: None,
) -> list[Shard]:
    """Encode all passages into shards in `folder`, skipping those that are finished and intact.

    only: rows of passages, encoded as if there were no others. on_start: gets the number of shards that were
    finished before, of all shards, and the rows of the former; on_rows: the number of rows finished since the
    last call. Raises `InputError` if a vector is not finite, and the errors of `parallel.elsewhere`.
    """
    texts = PassageTexts(passages.table, only)
    size, rows = encoder.shard_rows, len(texts)
    numbers = range(shard_count(rows, size))
    finished = {}
    for number in numbers:
        shard = read_shard(folder, number)
        if shard and shard.first_row == number * size and shard.rows == min(size, rows - number * size):
            finished[number] = shard
    on_start(len(finished), len(numbers), sum(shard.rows for shard in finished.values()))
    missing = [number for number in numbers if number not in finished]
    if encoder.parallel.elsewhere:
        encoder.parallel.elsewhere(texts, folder, missing, on_rows)
    else:
        for shard in encode_shards(encoder, texts, folder, missing, on_rows):
            finished[shard.first_row // size] = shard
    for number in set(missing) - set(finished):  # made elsewhere
        made = read_shard(folder, number, verify=False)
        if made is None:
            raise MachineError(f"{folder}: shard {number} has disappeared", "Run the same command again.")
        finished[number] = made
    return [finished[number] for number in numbers]


def encode_shards(
    encoder: Encoder, texts: Texts, folder: Path, numbers: Sequence[int], on_rows: OnRows = lambda rows: None
) -> Iterator[Shard]:
    """Encode shards in turn; meanwhile the next one is tokenised, and the last one written."""
    writing, size = list[Future[Shard]](), encoder.shard_rows
    ranges = ((number * size, min(number * size + size, len(texts))) for number in numbers)
    with (
        ThreadPoolExecutor(1, "write") as writer,
        TokenizingAhead(encoder.tokenize_passages, texts, encoder.parallel.tokenizers) as ahead,
    ):
        for (start, _), tokens in ahead.blocks(ranges):
            vectors = encoder.encode_rows(tokens, on_rows, start)
            if writing:
                yield writing.pop().result()
            writing.append(writer.submit(write_shard, folder, start // size, start, vectors))
        for last in writing:
            yield last.result()


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
        return cls(**{field.name: getattr(encoder, field.name) for field in fields(cls) if field.compare})

    def _absent(self, *_: object) -> NoReturn:
        """Never called: the model is not here."""
        raise AssertionError("facts of an encoder tokenise, encode, compare and decode nothing")

    tokenize_passages = encode_tokens = encode_rows = text_of = _absent
