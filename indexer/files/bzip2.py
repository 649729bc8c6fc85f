"""bzip2 files of many streams, decompressed by several threads.

Wikipedia's `multistream` dumps are one stream for every hundred pages, in sequence. A stream begins with ten
bytes that hardly ever occur elsewhere; the bytes between two such places go to a thread (bzip2 releases
Python's lock). Where they are not a complete stream, because the ten bytes occurred by chance, the stream is
very large or the file is damaged, the caller decompresses them itself. One core decompresses some 20 MB/s,
which is less than a few parsing processes need. The package indexed_bzip2 was no faster on two cores, and it
reports truncated files as `std::exception`, without a place.
"""

from __future__ import annotations

import bz2
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

# The header of a stream, followed by the header of its first block, or by its end if it is empty.
_START = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_START_BYTES = 10
_MAX_COMPRESSED = 4 << 20
_MAX_CONTENT = 8 << 20  # of as many streams as are read ahead
_THREADS = 4


def decompress_ahead(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    """A bzip2 file in pieces: compressed, and decompressed if the piece is a complete stream.

    Closing it waits for no thread: Python may close it at any allocation, also while it starts a thread and
    holds the lock that waiting for another thread needs.
    """
    threads = min(os.cpu_count() or 1, _THREADS)
    working: deque[tuple[bytes, Future[bytes | None] | None]] = deque()
    pool = ThreadPoolExecutor(threads, "bzip2")
    try:
        for piece, candidate in _streams(chunks):
            working.append((piece, pool.submit(_decompress, piece) if candidate else None))
            if len(working) > 2 * threads:
                yield _finished(working)
        while working:
            yield _finished(working)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _finished(working: deque[tuple[bytes, Future[bytes | None] | None]]) -> tuple[bytes, bytes | None]:
    piece, future = working.popleft()
    return piece, future.result() if future else None


def _streams(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Pieces of a file, cut where a stream may begin, and whether each may be a complete stream."""
    piece, from_start = b"", True
    for chunk in chunks:
        searched = max(len(piece) - _START_BYTES + 1, 1)  # after the start of this piece
        piece += chunk
        starts = [0, *(match.start() for match in _START.finditer(piece, searched))]
        for start, end in pairwise(starts):
            yield piece[start:end], from_start
            from_start = True
        piece = piece[starts[-1] :]
        if len(piece) > _MAX_COMPRESSED:
            kept = 1 - _START_BYTES
            yield piece[:kept], False
            piece, from_start = piece[kept:], False
    if piece:
        yield piece, from_start


def _decompress(piece: bytes) -> bytes | None:
    """The content of a stream; None if it is incomplete, damaged or very large."""
    stream = bz2.BZ2Decompressor()
    try:
        content = stream.decompress(piece, _MAX_CONTENT)
    except OSError:
        return None
    return content if stream.eof and not stream.unused_data else None
