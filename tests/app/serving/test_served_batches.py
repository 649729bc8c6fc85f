"""Gathering: what shares a batch, what waits, what fails alone, and the counts of all processes."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from asynchronous import finished

from linkseek.app.serving.batches import BATCH, Batches, OverloadedError
from linkseek.app.serving.metrics import Metrics


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
        batches, work = Batches(1000), Slow()
        first = [asyncio.create_task(batches.run("a", [f"{n}"], work)) for n in range(2)]
        await until(lambda: len(work.batches) == 1)  # both had arrived
        more = [asyncio.create_task(batches.run("a", [f"x{n}", f"y{n}"], work)) for n in range(5)]
        await until(lambda: len(work.batches) == 2)
        last = [asyncio.create_task(batches.run("a", [f"z{n}"], work)) for n in range(4)]
        await asyncio.sleep(0.05)
        assert batches.waiting == 4 and len(work.batches) == 2
        work.may_end.set()
        assert await asyncio.gather(*first) == [["answer to 0"], ["answer to 1"]]
        assert (await asyncio.gather(*more))[3] == ["answer to x3", "answer to y3"]
        assert await asyncio.gather(*last) == [[f"answer to z{n}"] for n in range(4)]
        assert [len(batch) for batch in work.batches] == [2, 10, 4] and batches.waiting == 0
        batches.close()

    run(test())


def test_another_key_has_a_lane_of_its_own_and_a_large_request_a_batch() -> None:
    async def test() -> None:
        batches, slow, quick = Batches(10_000), Slow(), Slow()
        quick.may_end.set()
        waiting = [asyncio.create_task(batches.run("slow", [n], slow)) for n in range(3)]
        assert await batches.run("quick", list(range(3 * BATCH)), quick) == [
            f"answer to {n}" for n in range(3 * BATCH)
        ]
        assert [len(batch) for batch in quick.batches] == [3 * BATCH]
        slow.may_end.set()
        await asyncio.gather(*waiting)
        assert await batches.run("slow", [], slow) == []
        batches.close()

    run(test())


def test_an_error_is_that_of_its_request_alone() -> None:
    async def test() -> None:
        batches, work = Batches(100), Slow()
        work.may_end.set()
        tasks = [asyncio.create_task(batches.run("a", [item], work)) for item in ("good", "bad", "fine")]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert results[0] == ["answer to good"] and results[2] == ["answer to fine"]
        assert isinstance(results[1], ValueError)
        with pytest.raises(ValueError, match="0 results of 1 items"):
            await batches.run("b", [1], lambda items: [])
        batches.close()

    run(test())


def test_what_is_too_much_is_refused_and_what_was_given_up_is_left_out() -> None:
    async def test() -> None:
        batches, work = Batches(3), Slow()
        running = []
        for n in range(2):
            running.append(asyncio.create_task(batches.run("a", [n], work)))
            await until(lambda n=n: len(work.batches) == n + 1)
        given_up = asyncio.create_task(batches.run("a", ["gone"] * 3, work))
        await until(lambda: batches.waiting == 3)
        with pytest.raises(OverloadedError, match="3 questions are waiting"):
            await batches.run("a", [1], work)
        given_up.cancel()
        work.may_end.set()
        await asyncio.gather(*running)
        await until(lambda: batches.waiting == 0)
        assert await batches.run("a", ["large"] * 9, work)  # nobody waits before it
        assert all("gone" not in batch for batch in work.batches)
        batches.close()

    run(test())


def test_the_counts_of_all_processes_are_added_up(tmp_path: Path) -> None:
    ours, other = Metrics(tmp_path), Metrics(tmp_path)
    other._file = tmp_path / "1.json"
    for metrics in (ours, other):
        metrics.add("linkseek_requests_total", route='/"x"\n', status=200)
        metrics.observe("linkseek_batch_size", 3)
    other.save()
    other.save()
    text = ours.text(waiting=7)
    assert 'linkseek_requests_total{route="/\\"x\\"\\n",status="200"} 2\n' in text
    assert 'linkseek_batch_size_bucket{le="2"}' not in text
    assert 'linkseek_batch_size_bucket{le="4"} 2\n' in text and "linkseek_batch_size_sum 6\n" in text
    assert text.index('le="64"') < text.index('le="128"') < text.index('le="+Inf"')
    assert "# TYPE linkseek_batch_size histogram\n" in text and "linkseek_waiting 7\n" in text
