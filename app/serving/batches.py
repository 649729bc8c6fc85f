"""Work of concurrent requests, cut into slices and gathered into batches.

Work on one thing, such as a pipeline of an index, waits in a lane. A lane that is idle starts at once, so a
single client waits for nobody; while its batches run, new requests gather for the next one, which makes
encoders and re-rankers several times faster. A batch takes a slice of each request in turn, and no more items
than take about `_SECONDS`, so a small request does not wait for a large one. A request that nobody waits for
any more gets no further slice, and the slice that runs for it ends at its next report of progress. A batch
never mixes kinds of work: each result is the same as for the item alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from linkseek.indexer.program.errors import LinkseekError
from linkseek.indexer.program.progress import part_of

Work = Callable[[list[Any]], Any]
"""Items to as many results, in their order."""

BATCH = 256
"""The maximum number of items in a batch."""
_SECONDS = 0.25
"""What a batch should take; the number of its items follows from the batches before."""
_AT_ONCE = 2
"""Batches of a lane that run at the same time: one is searched while another becomes JSON."""
_THREADS = 16
"""More than the lanes that are busy at the same time: a slow one should not keep a thread from a fast one."""


class OverloadedError(LinkseekError):
    """The queue is full."""


class _AbandonedError(Exception):
    """No request is waiting for the batch any more."""


@dataclass(eq=False)
class _Job:
    kind: Hashable
    items: Sequence[Any]
    work: Work
    done: asyncio.Future[Any]
    results: list[Any]
    begun: int = 0
    """items that have been given to a batch"""
    ended: int = 0


class _Slice(NamedTuple):
    job: _Job
    begin: int
    end: int


@dataclass
class _Lane:
    jobs: deque[_Job] = field(default_factory=deque)
    running: int = 0
    size: int = 8
    """the number of items in the next batch"""

    def next_batch(self) -> list[_Slice]:
        """A slice of each request of one kind, in turn; none of requests that nobody waits for."""
        self.jobs = deque(job for job in self.jobs if not job.done.done())
        kind = self.jobs[0].kind if self.jobs else None
        jobs = [job for job in self.jobs if job.kind == kind]
        batch: list[_Slice] = []
        free = self.size
        for number, job in enumerate(jobs):
            count = min(max(1, free // (len(jobs) - number)), len(job.items) - job.begun, free)
            if not count:
                break
            batch.append(_Slice(job, job.begun, job.begun + count))
            job.begun += count
            free -= count
            self.jobs.remove(job)
            if job.begun < len(job.items):
                self.jobs.append(job)
        return batch

    def adapt(self, items: int, seconds: float) -> None:
        """Choose the size of the next batches by the time that one has taken."""
        wanted = int(items * _SECONDS / max(seconds, 1e-6))
        if wanted < self.size or items >= self.size:
            self.size = min(max(1, wanted, self.size // 4), 4 * self.size, BATCH)


class RequestBatches:
    """The lanes of one process. All methods are for its event loop; the work runs in threads."""

    def __init__(self, limit: int, on_batch: Callable[[int], None] = lambda size: None) -> None:
        """limit: items that may wait in a lane. on_batch: gets the size of each batch."""
        self._limit = limit
        self._on_batch = on_batch
        self._lanes: dict[Hashable, _Lane] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "batch")
        self._is_over = False

    @property
    def waiting(self) -> int:
        """The number of items waiting for their batch."""
        return sum(len(job.items) - job.begun for lane in self._lanes.values() for job in lane.jobs)

    def check_room(self, lane: Hashable, items: int) -> None:
        """Raises `OverloadedError` for more items than an equal share of the queue of a lane.

        So a few large requests leave room for small ones. One that waits alone may have any size.
        """
        jobs = self._lanes[lane].jobs if lane in self._lanes else ()
        if jobs and items * (len(jobs) + 1) > self._limit:
            raise OverloadedError(
                f"{len(jobs):,} requests are waiting, with no room for one of this size",
                "Ask again in a second.",
            )

    async def run(self, lane: Hashable, kind: Hashable, items: Sequence[Any], work: Work) -> list[Any]:
        """The results of the items. Raises any error that the work raises for them.

        lane: the name of work that takes turns; there should be few. kind: the name of work that may share a
        batch, so equal kinds have equal work.
        """
        if not items:
            return []
        loop = asyncio.get_running_loop()
        job = _Job(kind, items, work, loop.create_future(), [None] * len(items))
        self._lanes.setdefault(lane, _Lane()).jobs.append(job)
        loop.call_soon(self._start, lane)  # after all requests that have arrived
        results: list[Any] = await job.done
        return results

    def _start(self, name: Hashable) -> None:
        lane = self._lanes[name]
        while lane.running < _AT_ONCE and not self._is_over and (batch := lane.next_batch()):
            lane.running += 1
            self._on_batch(sum(part.end - part.begin for part in batch))
            # straight back to the loop: a future of asyncio would cost a lone request one more round
            finish = partial(self._finish, lane, name, batch, time.monotonic())
            back = partial(_call_soon, asyncio.get_running_loop(), finish)
            self._threads.submit(self._results, batch).add_done_callback(back)

    def _finish(
        self, lane: _Lane, name: Hashable, batch: Sequence[_Slice], began: float, done: Future[list[Any]]
    ) -> None:
        lane.running -= 1
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        results = [error] * len(batch) if error else done.result()
        lane.adapt(sum(part.end - part.begin for part in batch), time.monotonic() - began)
        for part, result in zip(batch, results, strict=True):
            job = part.job
            if job.done.done():
                continue
            if isinstance(result, BaseException):
                job.done.set_exception(result)
                continue
            job.results[part.begin : part.end] = result
            job.ended += len(result)
            if job.ended == len(job.items):
                job.done.set_result(job.results)
        self._start(name)

    def _results(self, batch: Sequence[_Slice]) -> list[Any]:
        """The results of each slice, or its exception. Slices that fail together are tried one by one."""

        def check(units: float) -> None:
            if self._is_over or all(part.job.done.done() for part in batch):
                raise _AbandonedError

        items = [item for part in batch for item in part.job.items[part.begin : part.end]]
        try:
            with part_of(check, 1.0):  # no progress in the log; each report looks whether anybody waits
                results = list(batch[0].job.work(items))
            if len(results) != len(items):
                raise ValueError(f"{len(results)} results of {len(items)} items")
        except _AbandonedError:
            return [asyncio.CancelledError()] * len(batch)
        except Exception as error:
            return [error] if len(batch) == 1 else [self._results([part])[0] for part in batch]
        ends = list(accumulate(part.end - part.begin for part in batch))
        return [results[begin:end] for begin, end in pairwise([0, *ends])]

    def close(self) -> None:
        """End the threads when their batches have ended; no other begins."""
        self._is_over = True
        self._threads.shutdown(cancel_futures=True)


def _call_soon(
    loop: asyncio.AbstractEventLoop, finish: Callable[[Future[Any]], None], done: Future[Any]
) -> None:
    """Finish in the loop, unless it is over."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(finish, done)
