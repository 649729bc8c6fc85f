"""Texts to token sequences, and these in batches through an encoder: the same for every model and machine.

The bits of a vector depend on the batch that it was computed in. Batches depend on the lengths of the
sequences and the token budget alone: sorted by (tokens, position), cut into batches of at most
`token_budget` padded tokens. The number of batches at the same time changes no bit.

A block of rows is tokenised ahead of the encoder, in a thread or in processes. A thread is enough with a CPU,
whose model takes a hundred times as long as its tokenizer. A GPU needs more tokens than one Python process
makes: the tokenizer itself runs on all cores without Python's lock, but converting its integers takes about
20 microseconds a passage under the lock, which the thread that feeds the GPU needs.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.machine.together import ProcessPool
from linkseek.indexer.program.errors import InputError, MachineError, log_line

Tokens = Sequence[int] | NDArray[np.int32]


class TokenRows(Sequence[Tokens]):
    """Token sequences back to back: four bytes a token, where a list of integers takes 36."""

    def __init__(self, ids: NDArray[np.int32], ends: NDArray[np.int64]) -> None:
        """ids: int32 [T], all tokens. ends: int64 [n], where each sequence ends."""
        self.ids = ids
        self.ends = ends

    @classmethod
    def of(cls, sequences: Iterable[Tokens]) -> TokenRows:
        """The same sequences, packed."""
        rows = [np.asarray(tokens, np.int32) for tokens in sequences]
        ends = np.cumsum([len(row) for row in rows], dtype=np.int64)  # [n]
        return cls(np.concatenate([*rows, np.empty(0, np.int32)]), ends)

    @classmethod
    def joined(cls, pieces: Sequence[TokenRows]) -> TokenRows:
        """The sequences of all pieces, in order."""
        shifts = np.cumsum([0, *(len(piece.ids) for piece in pieces)])
        return cls(
            np.concatenate([np.empty(0, np.int32), *(piece.ids for piece in pieces)]),
            np.concatenate(
                [np.empty(0, np.int64), *(p.ends + s for p, s in zip(pieces, shifts[:-1], strict=True))]
            ),
        )

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sequence, int64 [n]."""
        return np.diff(self.ends, prepend=0)

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, row: int) -> NDArray[np.int32]: ...
    @overload
    def __getitem__(self, row: slice) -> list[Tokens]: ...
    def __getitem__(self, row: int | slice) -> NDArray[np.int32] | list[Tokens]:
        if isinstance(row, slice):
            return [self[number] for number in range(len(self))[row]]
        row = range(len(self))[row]
        return self.ids[self.ends[row - 1] if row else 0 : self.ends[row]]


@dataclass(frozen=True)
class Parallel:
    """How much of an encoder's work runs at the same time.

    batches: threads that call `encode_tokens`. tokenizers: processes that call `tokenize_passages`, which
    must then be picklable; 0 for a thread. elsewhere: writes the shards of texts by number into a folder, in
    place of both (`indexer.encoding.on_ray`).
    """

    batches: int = 1
    tokenizers: int = 0
    elsewhere: Callable[[Any, Path, Sequence[int], Callable[[float], None]], None] | None = None


class BatchModel(Protocol):
    """A model that turns token sequences into rows of numbers: vectors, or one score."""

    @property
    def name(self) -> str:
        """The model's name, for messages."""

    @property
    def dimension(self) -> int:
        """The number of numbers in a row."""

    @property
    def token_budget(self) -> int:
        """The maximum number of padded tokens in a batch."""

    @property
    def parallel(self) -> Parallel:
        """How much may run at the same time."""

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """The rows of one batch, float32 [B, dimension]. May be called from any thread."""

    def text_of(self, tokens: Tokens) -> str:
        """About the text that was tokenised, for messages."""


def token_batches(lengths: Sequence[int] | NDArray[np.int64], token_budget: int) -> Iterator[list[int]]:
    """Positions sorted by (length, position), cut so that longest x count <= `token_budget`.

    A text longer than the budget is a batch of its own.
    """
    lengths = np.asarray(lengths, np.int64)
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    start = 0
    while start < len(order):
        # Lengths rise, so no later one fits where this one alone would fill the budget.
        limit = token_budget // int(ordered[start]) if ordered[start] else len(order)
        following = ordered[start : start + max(limit, 1)]
        padded = following * np.arange(1, len(following) + 1)
        end = start + max(1, int(np.searchsorted(padded, token_budget, "right")))
        yield order[start:end].tolist()
        start = end


def encoded_batches(
    model: BatchModel,
    tokens: Sequence[Tokens],
    on_rows: Callable[[float], None] = lambda rows: None,
    encode_batch: Callable[[Sequence[Tokens]], Any] | None = None,
) -> Iterator[tuple[list[int], Any]]:
    """(positions, their rows) of each batch; on_rows gets its size. encode_batch: in place of the model's."""
    rows_of = encode_batch or model.encode_tokens
    lengths = tokens.lengths if isinstance(tokens, TokenRows) else [len(t) for t in tokens]
    batches = list(token_batches(lengths, model.token_budget))

    def encode(batch: list[int]) -> Any:
        return rows_of([tokens[i] for i in batch])

    threads = ThreadPoolExecutor(model.parallel.batches, "encode")
    run = threads.map if min(model.parallel.batches, len(batches)) > 1 else map
    try:
        for batch, values in zip(batches, run(encode, batches), strict=True):
            yield batch, values
            on_rows(len(batch))
    finally:
        threads.shutdown(cancel_futures=True)  # after an error, the batches that have not begun


def encode_texts(
    model: BatchModel,
    tokens: Sequence[Tokens],
    on_rows: Callable[[float], None] = lambda rows: None,
    first_passage: int | None = None,
) -> NDArray[np.float32]:
    """Rows of tokenised texts in their order, float32 [n, dimension]; on_rows gets the size of each batch.

    first_passage: the row of the first text, if they are passages, for messages. Every number of every model
    comes from here. Vectors of zeros are counted and logged. Raises `InputError` unless all are finite.
    """
    rows = np.empty((len(tokens), model.dimension), np.float32)  # [n, d]
    not_finite: list[int] = []
    zero: list[int] = []
    for batch, values in encoded_batches(model, tokens, on_rows):
        rows[batch] = values
        not_finite += np.array(batch)[~np.isfinite(values).all(axis=1)].tolist()
        if model.dimension > 1:  # a score may be 0
            zero += np.array(batch)[~values.any(axis=1)].tolist()

    def counted(places: list[int]) -> tuple[str, str]:
        first = min(places)
        passage = "" if first_passage is None else f"passage {first_passage + first:,}, "
        text = model.text_of(tokens[first])
        text = text if len(text) <= 80 else text[:77] + "..."
        return f"{len(places):,} of {len(tokens):,} texts", f"the first is {passage}{text!r}"

    if not_finite:
        count, example = counted(not_finite)
        raise InputError(
            f"{model.name}: its outputs for {count} are not finite; {example}",
            "Its weights are finite, so its outputs overflow: use another model, or train it again. If its "
            "outputs in sentence-transformers are finite, please report this as a bug in Linkseek.",
        )
    if zero:
        count, example = counted(zero)
        log_line(f"{model.name}: the vectors of {count} are 0, so they match nothing; {example}")
    return rows


Tokenize = Callable[[Sequence[str], Sequence[str]], Sequence[Tokens]]

CHUNK_ROWS = 8_192
"""Rows that are tokenised at a time; processes are started for more."""


class Texts(Protocol):
    """Titles and texts by row; picklable, if other processes are to tokenise them."""

    def __len__(self) -> int: ...

    def read(self, start: int, stop: int) -> tuple[Sequence[str], Sequence[str]]:
        """(titles, texts) of rows [start, stop)."""
        ...


class TokenizingAhead:
    """Tokenises blocks of rows, one ahead of the caller. Use as a context manager."""

    def __init__(self, tokenize: Tokenize, texts: Texts, processes: int = 0) -> None:
        self._arguments = (tokenize, texts)
        self._processes = processes if len(texts) > CHUNK_ROWS else 0

    def __enter__(self) -> TokenizingAhead:
        self._executor: Executor
        if self._processes:
            self._executor = ProcessPool(self._processes, _begin, self._arguments)
        else:
            self._executor = ThreadPoolExecutor(1, "tokenize")
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=not self._processes, cancel_futures=True)

    def blocks(self, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], TokenRows]]:
        """(range, the tokens of its rows) for each [start, stop) in order."""
        waiting: deque[tuple[tuple[int, int], list[Future[TokenRows]]]] = deque()
        for block in ranges:
            waiting.append((block, self._submit(*block)))
            if len(waiting) > 1:
                yield _gathered(*waiting.popleft())
        for block, chunks in waiting:
            yield _gathered(block, chunks)

    def _submit(self, start: int, stop: int) -> list[Future[TokenRows]]:
        size = max(min(CHUNK_ROWS, -(-(stop - start) // (self._processes or 1))), 1)
        chunks = [(low, min(low + size, stop)) for low in range(start, stop, size)]
        if self._processes:
            return [self._executor.submit(_tokenize_here, *chunk) for chunk in chunks]
        return [self._executor.submit(_tokenize, *self._arguments, *chunk) for chunk in chunks]


def _gathered(block: tuple[int, int], chunks: list[Future[TokenRows]]) -> tuple[tuple[int, int], TokenRows]:
    try:
        return block, TokenRows.joined([chunk.result() for chunk in chunks])
    except BrokenProcessPool:
        raise MachineError(
            "a tokenising process died (out of memory?)", "Run the same command: it resumes."
        ) from None


def _tokenize(tokenize: Tokenize, texts: Texts, start: int, stop: int) -> TokenRows:
    return TokenRows.of(tokenize(*texts.read(start, stop)))


_arguments: list[Any] = []  # of a tokenising process: (tokenize, texts)


def _begin(tokenize: Tokenize, texts: Texts) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there are as many processes as cores
    _arguments[:] = tokenize, texts


def _tokenize_here(start: int, stop: int) -> TokenRows:
    return _tokenize(_arguments[0], _arguments[1], start, stop)
