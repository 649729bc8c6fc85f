"""Passages to vectors, a shard at a time: tokenised ahead, batched by a token budget, resumable.

The bits of a vector depend on the batch that it was computed in, so a shard's batches depend on
nothing but its own texts, the tokenizer and the token budget: rows sorted by (tokens, row), cut into
batches of at most `token_budget` padded tokens, never across shards. A build that was killed goes on
at the first shard that is missing and ends with the same bits on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.passages import PassageStore
from indexer.vectors import Shard, read_shard, shard_count, write_shard

Tokens = Sequence[int]


class Encoder(Protocol):
    """What turns texts into vectors. `retriever.biencoder.BiEncoder` is one."""

    @property
    def dimension(self) -> int:
        """d, the length of a vector."""

    @property
    def identity(self) -> dict[str, Any]:
        """What the vectors depend on: name, weights' hash, text format. Goes into the manifest."""

    @property
    def location(self) -> str:
        """By which name or path it can be opened again."""

    @property
    def execution(self) -> dict[str, Any]:
        """What their last bits depend on: backend, precision, threads, versions."""

    @property
    def token_budget(self) -> int:
        """Padded tokens in a batch."""

    @property
    def shard_rows(self) -> int:
        """Rows in a shard: about half a minute of work."""

    def tokenize_passages(self, titles: Sequence[str], texts: Sequence[str]) -> list[Tokens]:
        """Token ids of passages, cut to the model's length."""

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Vectors of one batch, float32 [B, d]."""


def token_batches(lengths: Sequence[int], token_budget: int) -> Iterator[list[int]]:
    """Positions sorted by (length, position), cut so that longest x count <= `token_budget`.

    A text longer than the budget is a batch of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    batch: list[int] = []
    for position in order:
        if batch and lengths[position] * (len(batch) + 1) > token_budget:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def encode_texts(
    encoder: Encoder,
    tokens: Sequence[Tokens],
    on_rows: Callable[[float], None] = lambda rows: None,
) -> NDArray[np.float32]:
    """Vectors of tokenised texts in their order, float32 [n, d]; on_rows gets the size of each batch."""
    vectors = np.empty((len(tokens), encoder.dimension), np.float32)  # [n, d]
    for batch in token_batches([len(t) for t in tokens], encoder.token_budget):
        vectors[batch] = encoder.encode_tokens([tokens[i] for i in batch])
        on_rows(len(batch))
    return vectors


def encode_passages(
    encoder: Encoder,
    passages: PassageStore,
    folder: Path,
    *,
    on_start: Callable[[int, int, int], None] = lambda finished, shards, rows: None,
    on_rows: Callable[[float], None] = lambda rows: None,
) -> list[Shard]:
    """Encode all passages into shards in `folder`, passing over those that are there and whole.

    on_start is told how many of how many shards were finished before, and their rows; on_rows how
    many rows were finished since the last call. Raises `InputError` if a vector is not finite.
    """
    size = encoder.shard_rows
    total = shard_count(len(passages), size)
    found = {number: read_shard(folder, number) for number in range(total)}
    finished = {
        number: shard
        for number, shard in found.items()
        if shard and shard.first_row == number * size and shard.rows == _rows(number, size, passages)
    }
    on_start(len(finished), total, sum(shard.rows for shard in finished.values()))
    missing = [number for number in range(total) if number not in finished]

    def tokenize(number: int) -> list[Tokens]:
        start = number * size
        titles = list(passages.table.column("title", start, start + size))
        texts = list(passages.table.column("text", start, start + size))
        return encoder.tokenize_passages(titles, texts)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenize") as ahead:
        waiting: Future[list[Tokens]] | None = None
        for place, number in enumerate(missing):
            tokens = waiting.result() if waiting else tokenize(number)
            following = missing[place + 1 : place + 2]
            waiting = ahead.submit(tokenize, following[0]) if following else None
            vectors = encode_texts(encoder, tokens, on_rows)  # [rows, d]
            finished[number] = write_shard(folder, number, number * size, vectors)
    return [finished[number] for number in range(total)]


def _rows(number: int, size: int, passages: PassageStore) -> int:
    return min(size, len(passages) - number * size)
