"""Building and opening an index of a synthetic wiki (`benchmarks.made_up`) of any size: does it stay
linear?

Three builds, each in its own process and each reusing the parts of the one before: documents, passages and
links; Lucene; vectors, by default of a trivial encoder with 16 dimensions, which shows the cost of a build
around a real encoder. With a real one, searches of each pipeline follow, for words of random passages.
Processor time is the sum over all processes, and is less disturbed by other programs than wall-clock time.
Memory excludes the pages of mapped files, which the system reclaims when needed, except in the rows that name
them. "Cold" means that the system was asked to drop the index's files from its cache. An article takes 3 kB
of the temporary folder (TMPDIR), and its vectors. With `--folder`, wiki and index stay there, and an
interrupted run resumes with the stage that it was in.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.made_up import SHORT, ArticleSize, write_wiki
from benchmarks.support.harness import Benchmark, Measurement, percentiles, run
from benchmarks.support.watch import BenchmarkWatch
from linkseek.indexer.building.builder import build_index
from linkseek.indexer.building.plan import BuildPlan
from linkseek.indexer.encoding.batches import Parallel, Tokens
from linkseek.indexer.encoding.encode import Encoder
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.store.manifest_files import read_index_manifest

_PASSAGES = 100
_QUESTIONS, _WARM_UP, _WORDS = 100, 10, 8
_TRIVIAL = "trivial"
_SPAWN = multiprocessing.get_context("spawn")


def measure(options: argparse.Namespace) -> Iterator[Measurement]:
    """Times and memory of each stage, then of opening, reading and searching."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        corpus, index = folder / "wiki.xml.zst", folder / "index"
        if not corpus.exists():
            started = time.perf_counter()
            write_wiki(corpus, options.articles, ArticleSize(tuple(options.words), tuple(options.links)))
            _say(f"{options.articles:,} articles written in {time.perf_counter() - started:.0f} s")
        yield from _stages(corpus, index, options)
        yield from _opening(index, options.rounds)
        if options.encoder != _TRIVIAL:
            yield from _searching(index)


def _stages(corpus: Path, index: Path, options: argparse.Namespace) -> Iterator[Measurement]:
    """Figures of the stages that were not finished by an earlier run, and of the index."""
    encoding = f"encoding {options.encoder}"
    builds = (("documents", "passages", "links"), ("bm25",), (encoding, f"FAISS {options.encoder}"))
    for stages in builds:
        plan = BuildPlan(
            corpus,
            bm25="bm25" in stages,
            encoders=[options.encoder] if encoding in stages else [],
            passage_words=options.passage_words,
            processes=options.processes,
        )
        with _process(_build, index, plan) as (process, results), BenchmarkWatch(process.pid) as watch:
            began, done = results.recv()
            process.join()
        for stage in (stage for stage in stages if stage in done.times):
            start, end = (began + moment for moment in done.times[stage])
            scale = 1e6 / options.articles
            yield Measurement(f"{stage}: processor time an article", "us", watch.cpu(start, end) * scale)
            yield Measurement(f"{stage}: time an article", "us", (end - start) * scale)
            yield Measurement(f"{stage}: peak memory", "MB", watch.peak("main", start, end))
            if stage == "documents":
                peak = watch.peak("together", start, end)
                yield Measurement(f"{stage}: peak memory of all processes", "MB", peak)
        yield Measurement(f"{stages[-1]}: peak memory with mapped files", "MB", watch.mapped)
        _say(", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in done.seconds.items()))
    counts = read_index_manifest(index).counts
    for count in ("passages", "links", "redirects"):
        yield Measurement(count, "", getattr(counts, count))
    yield Measurement("size of the index", "MB", sum(p.stat().st_size for p in index.rglob("*")) / 1e6)


def _opening(index: Path, rounds: int) -> Iterator[Measurement]:
    for how, prepare in (("cold", _forget), ("warm", _read_all)):
        taken = []
        for seed in range(rounds):
            prepare(index)
            with _process(_open_and_read, index, seed) as (_, results):
                taken.append(results.recv())
        opening, reading, processor = map(statistics.median, zip(*taken, strict=True))
        yield Measurement(f"open, {how}", "s", opening)
        yield Measurement(f"{_PASSAGES} random passages, {how}", "ms", 1000 * reading)
        yield Measurement(f"{_PASSAGES} random passages, {how}: processor time", "ms", 1000 * processor)


def _build(results: Any, index: Path, plan: BuildPlan) -> None:
    began = time.perf_counter()
    built = build_index(index, plan, _open_encoder)
    results.send((began, built))


def _open_encoder(name: str, title: bool) -> Encoder:
    from linkseek.retriever.models.biencoder import open_biencoder

    return TrivialEncoder() if name == _TRIVIAL else open_biencoder(name, title=title)


def _searching(index: Path) -> Iterator[Measurement]:
    """Of pipelines without a re-ranker: the first answer of a cold process, then one question at a time."""
    passages = OpenIndex.open(index).passages
    rows = random.Random(0).sample(range(len(passages)), _QUESTIONS + _WARM_UP)
    questions = [" ".join(passages[row].text.split()[-_WORDS:]) for row in rows]
    for pipeline in ("bm25", "dense", "hybrid"):
        _forget(index)
        with (
            _process(_search, index, pipeline, questions) as (process, results),
            BenchmarkWatch(process.pid) as watch,
        ):
            first, taken = results.recv()
            process.join()
        yield Measurement(f"{pipeline}: first answer, cold", "s", first)
        yield from percentiles(f"{pipeline}: a question", "ms", taken)
        yield Measurement(f"{pipeline}: memory of searching", "MB", watch.peak("main"))


def _search(results: Any, index: Path, pipeline: str, questions: list[str]) -> None:
    """Sends (seconds from opening the index to the first answer, milliseconds of each further question)."""
    from linkseek.app.service import SearchService

    started = time.perf_counter()
    service = SearchService(index)
    service.search(questions[0], pipeline, 10)
    first = time.perf_counter() - started
    taken = []
    for question in questions[1:]:
        started = time.perf_counter()
        service.search(question, pipeline, 10)
        taken.append(1000 * (time.perf_counter() - started))
    results.send((first, taken[_WARM_UP - 1 :]))


def _open_and_read(results: Any, index: Path, seed: int) -> None:
    """Sends (seconds to open, seconds to read passages at random, processor seconds of that)."""
    started = time.perf_counter()
    opened = OpenIndex.open(index)
    opening = time.perf_counter() - started
    rows = random.Random(seed).sample(range(len(opened.passages)), _PASSAGES)
    started, used = time.perf_counter(), time.process_time()
    for row in rows:
        assert opened.passages[row].text
    results.send((opening, time.perf_counter() - started, time.process_time() - used))


@contextmanager
def _process(function: Callable[..., None], *arguments: Any) -> Iterator[tuple[Any, Any]]:
    """Run a function in a fresh process; it gets a pipe for its results, and the arguments."""
    results, sender = _SPAWN.Pipe(duplex=False)
    process = _SPAWN.Process(target=function, args=(sender, *arguments))
    process.start()
    sender.close()  # so that waiting for results ends if the process does
    yield process, results
    process.join()


def _forget(index: Path) -> None:
    """Ask the system to drop the files from its cache."""
    os.sync()
    for path in index.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_all(index: Path) -> None:
    for path in [*(index / "documents").iterdir(), *(index / "passages").iterdir()]:
        with path.open("rb") as file:
            while file.read(1 << 22):
                pass


class TrivialEncoder:
    """Vectors from the first bytes of a text; costs next to nothing."""

    name = "trivial"
    dimension = 16
    identity: ClassVar[dict[str, Any]] = {"name": "trivial"}
    execution: ClassVar[dict[str, Any]] = {"backend": "numpy"}
    location = "trivial"
    parallel = Parallel()
    token_budget = 65_536
    shard_rows = 65_536

    def tokenize_passages(self, titles: Sequence[str], texts: Sequence[str]) -> list[Tokens]:
        """The bytes of a text, 16 of them."""
        return [list(text.encode()[:16].ljust(16)) for text in texts]

    def encode_tokens(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Unit vectors, float32 [B, 16]."""
        vectors = np.array(list(batch), np.float32)  # [B, 16]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def text_of(self, tokens: Tokens) -> str:
        """The text that was read."""
        return bytes(tokens).decode(errors="replace")


def _say(text: str) -> None:
    print(text, flush=True)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--articles", type=int, default=20_000)
    parser.add_argument("--words", type=int, nargs=2, default=SHORT.words, help="the fewest and the most")
    parser.add_argument("--links", type=int, nargs=2, default=SHORT.links, help="the fewest and the most")
    parser.add_argument("--passage-words", type=int, default=100)
    parser.add_argument("--encoder", default=_TRIVIAL, help="name or path, default one that costs nothing")
    parser.add_argument("--folder", type=Path, help="where wiki and index stay; default a temporary one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)


BENCHMARK = Benchmark("scale", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
