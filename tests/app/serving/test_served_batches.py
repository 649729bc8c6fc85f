"""Gathering: what shares a batch, what waits, what fails alone, and the counts of all processes."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from linkseek.app.serving.batches import BATCH, OverloadedError, RequestBatches
from linkseek.indexer.program.progress import progress
from tests.support.asynchronous import finished


class Slow:
    """Work that waits until it may go on, and notes its batches."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.may_end = threading.Event()

    def __call__(self, items: list[Any]) -> list[Any]:
        self.batches.append(items)
        assert self.may_end.wait(10)
        if "bad" in items:
            raise ValueError("bad")
        return [f"answer to {item}" for item in items]


async def until(is_so: Any) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


def run(test: Any) -> None:
    finished(test, 20)


def test_requests_gather_while_batches_run_and_each_gets_its_own() -> None:
    async def test() -> None:
        batches, work = RequestBatches(1000), Slow()
        first = [asyncio.create_task(batches.run("a", 0, [f"{n}"], work)) for n in range(2)]
        await until(lambda: len(work.batches) == 1)  # both had arrived
        more = [asyncio.create_task(batches.run("a", 0, [f"x{n}", f"y{n}"], work)) for n in range(5)]
        await until(lambda: len(work.batches) == 2)
        last = [asyncio.create_task(batches.run("a", 0, [f"z{n}"], work)) for n in range(4)]
        await asyncio.sleep(0.05)
        assert batches.waiting == 6 and len(work.batches) == 2
        work.may_end.set()
        assert await asyncio.gather(*first) == [["answer to 0"], ["answer to 1"]]
        assert (await asyncio.gather(*more))[3] == ["answer to x3", "answer to y3"]
        assert await asyncio.gather(*last) == [[f"answer to z{n}"] for n in range(4)]
        assert [len(batch) for batch in work.batches[:2]] == [2, 8]
        assert sum(map(len, work.batches)) == 16 and batches.waiting == 0
        batches.close()

    run(test())


def test_lanes_do_not_wait_for_each_other_and_kinds_do_not_mix() -> None:
    async def test() -> None:
        batches, slow, quick = RequestBatches(10_000), Slow(), Slow()
        quick.may_end.set()
        waiting = [asyncio.create_task(batches.run("slow", n, [n] * 2, slow)) for n in range(3)]
        assert await batches.run("quick", 0, list(range(3 * BATCH)), quick) == [
            f"answer to {n}" for n in range(3 * BATCH)
        ]
        assert max(map(len, quick.batches)) == BATCH  # they grow while they are fast
        slow.may_end.set()
        await asyncio.gather(*waiting)
        assert sorted(slow.batches) == [[n] * 2 for n in range(3)]
        assert await batches.run("slow", 0, [], slow) == []
        batches.close()

    run(test())


def test_a_small_request_does_not_wait_for_large_ones() -> None:
    async def test() -> None:
        batches, batch_of = RequestBatches(1_000_000), []

        def work(items: list[Any]) -> list[Any]:
            batch_of.append(set(items))
            time.sleep(0.02 * len(items))
            return items

        large = [asyncio.create_task(batches.run("a", 0, [n] * 10_000, work)) for n in range(5)]
        await until(lambda: len(batch_of) > 4)
        before = len(batch_of)
        assert await batches.run("a", 0, ["small"], work) == ["small"]
        [place] = [number for number, items in enumerate(batch_of) if "small" in items]
        assert place <= before + 3 and len(batch_of[place]) > 1  # two run, and one may just have begun
        assert all(one <= set(range(5)) | {"small"} for one in batch_of)
        assert max(map(len, batch_of[before:])) >= 5  # the large ones take turns
        for task in large:
            task.cancel()
        await until(lambda: batches.waiting == 0)
        batches.close()

    run(test())


def test_work_ends_when_nobody_waits_for_it() -> None:
    async def test() -> None:
        batches, reports = RequestBatches(100), []

        def work(items: list[Any]) -> list[Any]:
            with progress("working", 1000, "steps") as advance:
                for _ in range(1000):
                    advance(1)
                    reports.append(items)
                    time.sleep(0.01)
            return items

        given_up = asyncio.create_task(batches.run("a", 0, ["gone"] * 99, work))
        await until(lambda: reports)
        given_up.cancel()
        await until(lambda: not batches._lanes["a"].running)
        running = asyncio.create_task(batches.run("a", 0, ["closed"], work))
        await until(lambda: ["closed"] in reports)
        batches.close()
        assert len(reports) < 900 and batches.waiting == 0
        with pytest.raises(asyncio.CancelledError):
            await running

    run(test())


def test_an_error_is_that_of_its_request_alone() -> None:
    async def test() -> None:
        batches, work = RequestBatches(100), Slow()
        work.may_end.set()
        tasks = [asyncio.create_task(batches.run("a", 0, [item], work)) for item in ("good", "bad", "fine")]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[0] == ["answer to good"] and results[2] == ["answer to fine"]
        assert isinstance(results[1], ValueError)
        with pytest.raises(ValueError, match="0 results of 1 items"):
            await batches.run("b", 0, [1], lambda items: [])
        batches.close()

    run(test())


def test_what_is_too_much_is_refused_and_what_was_given_up_is_left_out() -> None:
    async def test() -> None:
        batches, work = RequestBatches(12), Slow()
        batches.check_room("a", 10_000)  # nobody waits
        running = []
        for n in range(2):
            running.append(asyncio.create_task(batches.run("a", 0, [n], work)))
            await until(lambda n=n: len(work.batches) == n + 1)
        waiting = [asyncio.create_task(batches.run("a", 0, ["gone"] * 99, work)) for _ in range(2)]
        await until(lambda: batches.waiting == 198)
        batches.check_room("a", 4)  # a third of the queue
        batches.check_room("b", 9)
        with pytest.raises(OverloadedError, match="2 requests are waiting"):
            batches.check_room("a", 5)
        for given_up in waiting:
            given_up.cancel()
        work.may_end.set()
        await asyncio.gather(*running)
        await until(lambda: batches.waiting == 0)
        assert all("gone" not in batch for batch in work.batches)
        batches.close()

    run(test())
