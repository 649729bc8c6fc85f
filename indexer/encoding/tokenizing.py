"""Texts to token sequences, a block of rows ahead of the encoder, in a thread or in processes.

A thread is enough with a CPU, whose model takes a hundred times as long as its tokenizer. A GPU needs more
tokens than one Python process makes: the tokenizer itself runs on all cores without Python's lock, but
converting its integers takes about 20 microseconds a passage under the lock, which the thread that feeds the
GPU needs.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from linkseek.indexer.encoding.batches import TokenRows, Tokens
from linkseek.indexer.machine.together import ProcessPool
from linkseek.indexer.program.errors import MachineError

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
        chunks = [(low, min(low + CHUNK_ROWS, stop)) for low in range(start, stop, CHUNK_ROWS)]
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
