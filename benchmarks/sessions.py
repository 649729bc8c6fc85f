"""Questions from 1, 20 and 50 visitors at once, each with their own session in the running application.

Each visitor has their own connection, as a browser has, and asks through the address of the search page: bm25
and hybrid side by side, ten passages each. Times run from sending the question to the first column, and to
the complete page with the ranks compared. "At once": each visitor asks again as soon as the answer arrives,
so all cores are always busy, and the time includes waiting for the others. "Reading": each visitor pauses
before every question, for a random time with the same mean; measured for several visitors only. An error on a
page ends the benchmark.

"Fresh application": its process has just answered for the first time. Chromium opens a page with a question,
or the start page, and asks as soon as the box is there; models are loaded meanwhile, which are converted
already. "In the page": what sorting, filtering and folding sent to the server. "Sessions": the memory of the
application with all its processes, before and after that many visitors asked a question each and left. The
defaults take about seven minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil

from benchmarks.support.harness import QUESTIONS, ROOT, Benchmark, Measurement, check_index, percentiles, run
from linkseek.indexer.program.errors import MachineError
from linkseek.retriever.queries import read_queries

_STARTS_WITHIN = 120.0  # seconds
_ANSWERS_WITHIN = 300.0
_TOGETHER = 20  # of the sessions that come and go
_RANKING = ".ls-answer h3"


@contextmanager
def running_application(index: Path, *options: str, log: Any = subprocess.DEVNULL) -> Iterator[str]:
    """The application on a free port of this machine; its address, such as localhost:8502."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", address[10:]]
    process = subprocess.Popen(
        [*command, "--", "--index", str(index.resolve()), *options], cwd=ROOT, stdout=log, stderr=log
    )
    try:
        _wait_for(address, process)
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://{address}/_stcore/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise MachineError("the application did not start", "Start it by hand: streamlit run app/main.py.")


class Visitor:
    """One session: a connection of its own, as a browser tab has."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def ask(self, params: dict[str, Any]) -> tuple[float, float]:
        """Seconds to the first column of answers, and to the end of the page.

        Raises RuntimeError if there is a notice on the page, or the script failed.
        """
        from streamlit.proto.BackMsg_pb2 import BackMsg
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        message = BackMsg()
        message.rerun_script.query_string = urlencode(params, doseq=True)
        started, first = time.perf_counter(), None
        await self._connection.send(message.SerializeToString())
        while True:
            data = await asyncio.wait_for(self._connection.recv(), _ANSWERS_WITHIN)
            message = ForwardMsg.FromString(data)
            body = message.delta.new_element.html.body
            if 'class="ls-notice"' in body or message.delta.new_element.HasField("exception"):
                raise RuntimeError(f"the page says: {body or message.delta.new_element.exception.message}")
            if first is None and 'class="ls-answer"' in body:
                first = time.perf_counter() - started
            if message.HasField("script_finished"):
                complete = time.perf_counter() - started
                return (complete if first is None else first), complete


async def visit(
    address: str, visitors: int, questions: Sequence[str], each: int, reading: float
) -> list[tuple[float, float]]:
    """All visitors at the same time, with `each` questions of their own; seconds of every question.

    reading: mean seconds before a question. The first question of a session does not count: it opens it.
    """
    from websockets.asyncio.client import connect

    taken: list[tuple[float, float]] = []
    opened = asyncio.Barrier(visitors)

    async def one(number: int) -> None:
        draw = random.Random(number)
        async with connect(
            f"ws://{address}/_stcore/stream",
            subprotocols=["streamlit"],  # type: ignore[list-item]
            max_size=None,
            compression=None,
            open_timeout=None,
            ping_interval=None,  # a machine that is busy elsewhere answers late, and that counts
        ) as connection:
            visitor = Visitor(connection)
            await visitor.ask({})
            await opened.wait()
            for turn in range(each):
                if reading:
                    await asyncio.sleep(draw.uniform(0, 2 * reading))
                question = questions[(number + turn * visitors) % len(questions)]
                view = {"q": question, "pipelines": ["bm25", "hybrid-weighted"], "k": 10}
                taken.append(await visitor.ask(view))

    async with asyncio.TaskGroup() as group:
        for number in range(visitors):
            group.create_task(one(number))
    return taken


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Median and 95th percentile, in milliseconds, of both ways to visit."""
    check_index(options.index)
    questions = [query.text for query in read_queries(options.queries)]
    if options.starts:
        yield from in_browser(options.index, questions[0], options.starts)
    with running_application(options.index) as address:
        asyncio.run(visit(address, 2, questions, 5, 0))  # models are loaded, everything is warm
        before = resident(address)
        for reading in dict.fromkeys((0.0, options.reading)):
            for visitors in options.visitors:
                if reading and visitors == 1:
                    continue
                each = max(options.questions // visitors, 3)
                taken = asyncio.run(visit(address, visitors, questions, each, reading))
                way = f"{visitors} reading {reading:g} s" if reading else f"{visitors} at once"
                way = f"{way}, {len(taken)} questions"
                for name, column in (("first column", 0), ("page", 1)):
                    times = [1000 * seconds[column] for seconds in taken]
                    yield from percentiles(f"{way}: {name}", "ms", times)
        if options.sessions:
            for _ in range(0, options.sessions, _TOGETHER):
                asyncio.run(visit(address, _TOGETHER, questions, 1, 0))
            yield Measurement("memory before", "MB", before)
            yield Measurement(f"memory after {options.sessions:,} sessions more", "MB", resident(address))


def resident(address: str) -> float:
    """Megabytes of memory of the application at an address, which this process started."""
    port = address.rpartition(":")[2]
    started = [process for process in psutil.Process().children() if port in process.cmdline()]
    family = [child for process in started for child in (process, *process.children(recursive=True))]
    return sum(process.memory_info().rss for process in family) / 1e6


def in_browser(index: Path, question: str, starts: int) -> Iterator[Measurement]:
    """Medians of first results of fresh applications, and what a page asks the server for."""
    from playwright.sync_api import sync_playwright

    opened, asked, asked_best = [], [], []
    with sync_playwright() as playwright:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        args = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=args)
        for _ in range(starts):
            with running_application(index) as address:
                page = _new_page(browser)
                began = time.perf_counter()
                page.goto(f"http://{address}/?{urlencode({'q': question})}")
                page.wait_for_selector(_RANKING)
                opened.append(time.perf_counter() - began)
                page.close()
            with running_application(index) as address:
                page = _new_page(browser)
                page.goto(f"http://{address}")
                box = page.get_by_label("Question", exact=True)
                box.fill(question)
                began = time.perf_counter()
                box.press("Enter")
                page.wait_for_selector(_RANKING)
                asked.append(time.perf_counter() - began)
                page.wait_for_selector('[aria-label="Results of best"] h3')
                asked_best.append(time.perf_counter() - began)
                page.close()
        with running_application(index) as address:
            page = _new_page(browser)
            sent = _sent_by_page(page, f"http://{address}", question)
        browser.close()
    way = "fresh application"
    yield Measurement(f"{way}, page with a question: first results", "s", statistics.median(opened))
    yield Measurement(f"{way}, Enter: first results", "s", statistics.median(asked))
    yield Measurement(f"{way}, Enter: first stage of best", "s", statistics.median(asked_best))
    yield Measurement("in the page: requests of sorting, filtering and folding", "count", sent)


def _new_page(browser: Any) -> Any:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(_ANSWERS_WITHIN * 1000)
    return page


def _sent_by_page(page: Any, address: str, question: str) -> int:
    """How much a page sends while a list is sorted and filtered, and passages and times are unfolded."""
    sent: list[Any] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    page.on("request", lambda request: sent.append(request))
    names = ["bm25", "dense", "hlp"]
    count = 0
    for view, clicked in (
        ({"merged": 1}, (".ls-sorts button", ".ls-filters button")),
        ({}, (".ls-expand", ".ls-stages > summary")),
    ):
        page.goto(f"{address}/?{urlencode(view | {'q': question, 'pipelines': names}, doseq=True)}")
        page.wait_for_selector(clicked[1])
        page.wait_for_selector('.stApp[data-test-script-state="notRunning"]')
        page.wait_for_timeout(2_000)  # what the page still asks for by itself
        if not sent:
            raise MachineError(
                "the page's requests cannot be heard", "Install another version of Playwright."
            )
        sent.clear()
        for selector in clicked:
            for button in page.locator(selector).all()[:4]:
                button.click()
        page.wait_for_timeout(1_000)
        count += len(sent)
    return count


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", type=Path, default=ROOT / "index" / "sample")
    parser.add_argument("--queries", type=Path, default=QUESTIONS)
    parser.add_argument("--visitors", type=int, nargs="+", default=[1, 20, 50])
    parser.add_argument("--questions", type=int, default=50, help="of all visitors together, at least 3 each")
    parser.add_argument("--reading", type=float, default=10.0, help="mean seconds before a question")
    parser.add_argument("--starts", type=int, default=3, help="of a fresh application, in a browser; 0: none")
    parser.add_argument(
        "--sessions", type=int, default=1_000, help="before memory is measured again; 0: none"
    )


BENCHMARK = Benchmark("sessions", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
