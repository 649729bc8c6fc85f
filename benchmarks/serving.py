"""Questions a second of `linkseek serve`, next to a server as Search-R1's reference is, and the search alone.

Clients ask one question after another over connections that stay open; every answer is compared with the
answer of a search in this process. The peer has a flat FAISS index in memory and sentence-transformers, and
works on one request at a time, with the vectors of the same encoder. Clients and servers share the machine.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.support.harness import (
    ROOT,
    Benchmark,
    Measurement,
    add_question_options,
    asked,
    check_index,
    percentiles,
    run,
)
from linkseek.app.pipelines.catalogue import Pipelines
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.program.bundled import own_command
from linkseek.indexer.program.errors import UsageError
from linkseek.retriever.ranking import Query

_K = 3
_PASSES = 4
"""over the questions; the first warms both processes"""
_PEER_PIPELINE = "dense"


class Load(NamedTuple):
    """Questions a second, milliseconds of each request, and answers that differ from the search alone."""

    rate: float
    taken: list[float]
    wrong: int


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """One client next to the search alone, each number of clients, and the largest next to the peer."""
    check_index(options.index)
    index = OpenIndex.open(options.index)
    texts = [query.text for query in asked(index, options.queries, options.questions)]
    yield Measurement("passages in the index", "", len(index.passages))
    expected: dict[str, list[list[str]]] = {}
    for name in options.pipeline:
        search = _search(index, name)
        expected[name] = [search(text) for text in texts]
        with _served(options.index, name) as (port, seconds, process):
            yield Measurement(f"{name}: from start to the first answer", "s", seconds)
            request, alone = _in_turn(port, search, texts)
            turn = f"{name}: a request, in turn with the search alone, p50"
            yield Measurement(turn, "ms", request, alone, request / alone)
            for clients in options.clients:
                load = _load(port, texts, expected[name], clients, 1, options.seconds)
                yield from _figures(f"{name}, {clients} clients", load)
            load = _load(port, texts, expected[name], 1, len(texts), options.seconds)
            yield from _figures(f"{name}, 1 client, {len(texts)} questions a request", load)
            yield Measurement(f"{name}: memory, mapped files not counted", "MB", _memory(process))
    if _PEER_PIPELINE in expected:
        most = max(options.clients)
        with _served(options.index, _PEER_PIPELINE) as (port, _, _):
            ours = _load(port, texts, expected[_PEER_PIPELINE], most, 1, options.seconds)
        with _peer(options.index) as (port, seconds, process):
            peer = _load(port, texts, expected[_PEER_PIPELINE], most, 1, options.seconds)
            yield Measurement("the peer: from start to the first answer", "s", seconds)
            yield Measurement("the peer: memory, mapped files not counted", "MB", _memory(process))
        name = f"{_PEER_PIPELINE}, {most} clients, next to the peer"
        yield Measurement(name, "questions/s", ours.rate, peer.rate, ours.rate / peer.rate)


def _figures(name: str, load: Load) -> Iterator[Measurement]:
    yield Measurement(f"{name}", "questions/s", load.rate)
    yield from percentiles(name, "ms", load.taken, (50, 95, 99))
    yield Measurement(f"{name}, wrong or missing answers", "", load.wrong)


def _search(index: OpenIndex, name: str) -> Callable[[str], list[str]]:
    """A search in this process: a question to the ids of its passages, whose texts are read."""
    pipeline = Pipelines(index).open(name)

    def search(text: str) -> list[str]:
        ranking = pipeline([Query("q", text)], _K)
        return [index.passages[row].id for row, _ in ranking.results(0)[:_K]]

    return search


def _in_turn(port: int, search: Callable[[str], list[str]], texts: list[str]) -> tuple[float, float]:
    """Median milliseconds of a request and of the search alone, once both processes are warm.

    All questions go to one, then to the other: if they alternated, each would find the processor's caches,
    and what Java has compiled, as the other process left them.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    taken: dict[Callable[[str], Any], list[float]] = {lambda text: _ask(connection, [text]): [], search: []}
    for _ in range(_PASSES):
        for ask, times in taken.items():
            for text in texts:
                began = time.perf_counter()
                ask(text)
                times.append(time.perf_counter() - began)
    connection.close()
    of_request, of_search = (
        1000 * float(np.median(times[-len(texts) * (_PASSES - 1) :])) for times in taken.values()
    )
    return of_request, of_search


def _ask(connection: http.client.HTTPConnection, texts: Sequence[str]) -> list[list[Any]]:
    """The lists of hits that a request gets; none if it is refused."""
    body = {"queries": texts, "topk": _K, "return_scores": True}
    connection.request("POST", "/retrieve", json.dumps(body), {"Content-Type": "application/json"})
    lists: list[list[Any]] = json.loads(connection.getresponse().read()).get("result", [])
    return lists


def _load(
    port: int, texts: list[str], expected: list[list[str]], clients: int, batch: int, seconds: float
) -> Load:
    """Clients that ask for `seconds`, each starting at another question."""
    taken: list[float] = []
    wrong: list[int] = []
    end = time.perf_counter() + seconds

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        at = number * 7
        while time.perf_counter() < end:
            places = [(at + n) % len(texts) for n in range(batch)]
            at += batch
            began = time.perf_counter()
            lists = _ask(connection, [texts[place] for place in places])
            taken.append(1000 * (time.perf_counter() - began))
            for place, hits in zip(places, lists, strict=False):
                # the best may change its place with the next, in a batch of another size
                ids = [hit["document"]["id"] for hit in hits]
                if not set(expected[place][:1]) <= set(ids):
                    wrong.append(place)
            wrong.extend([-1] * (len(places) - len(lists)))

    began = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = len(taken) * batch / (time.perf_counter() - began)
    return Load(rate, taken, len(wrong))


@contextmanager
def _served(index: Path, pipeline: str) -> Iterator[tuple[int, float, psutil.Process]]:
    options = ["--index", str(index), "--pipeline", pipeline, "--time-limit", "120"]
    with _server([*own_command("serve"), *options], "LINKSEEK_PORT") as started:
        yield started


@contextmanager
def _peer(index: Path) -> Iterator[tuple[int, float, psutil.Process]]:
    with _server(
        [sys.executable, "-m", "benchmarks.support.serving_peer", str(index)], "PEER_PORT"
    ) as started:
        yield started


@contextmanager
def _server(command: list[str], variable: str) -> Iterator[tuple[int, float, psutil.Process]]:
    """A server that has answered: its port, the seconds until then, and its process."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    began = time.perf_counter()
    # -P of our command would hide this checkout from its process
    command = [word for word in command if word != "-P"]
    environment = os.environ | {variable: str(port), "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not _answers(port):
            if process.poll() is not None:
                raise UsageError(f"{' '.join(command)}: ended with {process.returncode}", "Run it alone.")
            time.sleep(0.05)
        yield port, time.perf_counter() - began, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"queries": ["who wrote it"], "topk": 1, "return_scores": True})
    try:
        connection.request("POST", "/retrieve", body, {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _memory(process: psutil.Process) -> float:
    """Of the process and its children, in MB."""
    infos: list[Any] = [one.memory_info() for one in (process, *process.children(recursive=True))]
    return sum(info.rss - info.shared for info in infos) / (1 << 20)


def _options(parser: argparse.ArgumentParser) -> None:
    add_question_options(parser, questions=200)
    parser.add_argument("--pipeline", nargs="+", default=["bm25", _PEER_PIPELINE])
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--seconds", type=float, default=5.0)


BENCHMARK = Benchmark("serving", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
