"""Work of concurrent requests, gathered into batches.

Work of one kind (its key) waits in a lane. A lane that is idle starts at once, so a single client waits for
nobody; while its batches run, what arrives gathers for the next one, which makes encoders and re-rankers
several times faster. A batch never mixes kinds: each result is the same as for the question alone.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from linkseek.indexer.base.errors import LinkseekError

Work = Callable[[list[Any]], Any]
"""Items to as many results, in their order."""

BATCH = 256
"""Items of a batch, unless one request has more."""
_AT_ONCE = 2
"""Batches of a lane that run at the same time: one is searched while another becomes JSON."""


class OverloadedError(LinkseekError):
    """The queue is full."""


@dataclass(frozen=True)
class _Job:
    items: Sequence[Any]
    work: Work
    done: asyncio.Future[Any]


@dataclass
class _Lane:
    jobs: deque[_Job] = field(default_factory=deque)
    running: int = 0


class Batches:
    """The lanes of one process. All methods are for its event loop; the work runs in threads."""

    def __init__(self, limit: int, on_batch: Callable[[int], None] = lambda size: None) -> None:
        """limit: items that may wait. on_batch: gets the size of each batch."""
        self._limit = limit
        self._on_batch = on_batch
        self._lanes: dict[Hashable, _Lane] = {}
        self._threads = ThreadPoolExecutor(max(4, 2 * (os.cpu_count() or 1)), "batch")
        self.waiting = 0
        """Items that wait for their batch."""

    async def run(self, key: Hashable, items: Sequence[Any], work: Work) -> list[Any]:
        """The results of the items. key: of work that may share a batch, so equal keys have equal work.

        A request that ends before its batch starts is skipped. Raises `OverloadedError` if too many items
        wait already, and any error that the work raises for these items.
        """
        if not items:
            return []
        if self.waiting and self.waiting + len(items) > self._limit:
            raise OverloadedError(
                f"{self.waiting:,} questions are waiting, and the service takes no more",
                "Ask again in a second.",
            )
        loop = asyncio.get_running_loop()
        job = _Job(items, work, loop.create_future())
        self._lanes.setdefault(key, _Lane()).jobs.append(job)
        self.waiting += len(items)
        loop.call_soon(self._start, key)  # after all requests that have arrived
        results: list[Any] = await job.done
        return results

    def _start(self, key: Hashable) -> None:
        lane = self._lanes.get(key)
        while lane and lane.running < _AT_ONCE and (batch := self._next_batch(lane)):
            lane.running += 1
            self._on_batch(sum(len(job.items) for job in batch))
            # straight back to the loop: a future of asyncio would cost a lone request one more round
            back = partial(_call_soon, asyncio.get_running_loop(), partial(self._finish, key, batch))
            self._threads.submit(_run, batch).add_done_callback(back)
        if lane and not (lane.running or lane.jobs):
            del self._lanes[key]

    def _next_batch(self, lane: _Lane) -> list[_Job]:
        batch: list[_Job] = []
        size = 0
        while lane.jobs and (not batch or size + len(lane.jobs[0].items) <= BATCH):
            job = lane.jobs.popleft()
            self.waiting -= len(job.items)
            if not job.done.done():  # else its client has gone, or its time is over
                batch.append(job)
                size += len(job.items)
        return batch

    def _finish(self, key: Hashable, batch: Sequence[_Job], done: Future[list[Any]]) -> None:
        self._lanes[key].running -= 1
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        results = [error] * len(batch) if error else done.result()
        for job, result in zip(batch, results, strict=True):
            if job.done.done():
                continue
            if isinstance(result, BaseException):
                job.done.set_exception(result)
            else:
                job.done.set_result(result)
        self._start(key)

    def close(self) -> None:
        """End the threads when they have finished."""
        self._threads.shutdown(cancel_futures=True)


def _call_soon(
    loop: asyncio.AbstractEventLoop, finish: Callable[[Future[Any]], None], done: Future[Any]
) -> None:
    """Finish in the loop, unless it is over."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(finish, done)


def _run(batch: Sequence[_Job]) -> list[Any]:
    """The results of each job, or its exception. Jobs that fail together are tried one by one."""
    items = [item for job in batch for item in job.items]
    try:
        results = list(batch[0].work(items))
        if len(results) != len(items):
            raise ValueError(f"{len(results)} results of {len(items)} items")
    except Exception as error:
        return [error] if len(batch) == 1 else [_run([job])[0] for job in batch]
    parts, at = [], 0
    for job in batch:
        parts.append(results[at : at + len(job.items)])
        at += len(job.items)
    return parts
