"""Lucene through Linkseek compared with raw Anserini, on the same passages and the same Java.

Building: ours reads passages from memory; `IndexCollection` reads existing JSONL files, one for each thread
(a thread reads one file). Searching: both read ids and scores; the peer is `SimpleSearcher` through pyjnius.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from benchmarks.support.harness import Benchmark, Measurement, compare, passages, run
from linkseek.indexer.search.jvm import java_threads
from linkseek.indexer.search.lucene_index import BM25, LuceneIndex
from linkseek.indexer.search.lucene_writer import build_lucene

Text = tuple[str, str, str]


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Seconds to build, milliseconds a query."""
    texts = [(p.id, p.title, p.text) for p in passages(options.corpus, options.passages)]
    with tempfile.TemporaryDirectory() as folder:
        return _measure(texts, Path(folder), options)


def _measure(texts: list[Text], folder: Path, options: argparse.Namespace) -> list[Measurement]:
    java_threads()
    _write_jsonl(texts, folder / "jsonl", options.threads)
    built, raw_built = folder / "ours", folder / "raw"

    def build_ours() -> None:
        shutil.rmtree(built, ignore_errors=True)
        build_lucene(texts, built, index_title=True, threads=options.threads)

    def build_raw() -> None:
        shutil.rmtree(raw_built, ignore_errors=True)
        _index_collection(folder / "jsonl", raw_built, options.threads)

    queries = _queries(texts, options.queries)
    figures = [compare(f"build, {len(texts):,} passages", "s", build_ours, build_raw, options.rounds)]

    ours, raw = LuceneIndex(built), _raw_searcher(built)
    same = [ours.search([q], 100, BM25())[0][0] == _raw_search(raw, q, 100)[0] for q in queries]
    assert all(same), f"{same.count(False)} of {len(same)} queries have other results"
    for k in (10, 100):
        figures.append(
            compare(
                f"one query, top {k}",
                "ms",
                partial(_each, lambda query, k: ours.search([query], k, BM25()), queries, k),
                partial(_each, partial(_raw_search, raw), queries, k),
                options.rounds,
                1000 / len(queries),
            )
        )
    figures.append(
        compare(
            "query of a batch, top 100",
            "ms",
            lambda: ours.search(queries, 100, BM25()),
            lambda: _raw_batch(raw, queries, 100, options.threads),
            options.rounds,
            1000 / len(queries),
        )
    )
    return figures


def _each(search: Callable[[str, int], Any], queries: list[str], k: int) -> None:
    for query in queries:
        search(query, k)


def _queries(texts: list[Text], number: int) -> list[str]:
    """Six words in a row of a random passage each."""
    chance = random.Random(7)
    queries = []
    for _ in range(number):
        words = chance.choice(texts)[2].split()
        start = chance.randrange(max(len(words) - 6, 1))
        queries.append(" ".join(words[start : start + 6]))
    return queries


def _write_jsonl(texts: list[Text], folder: Path, files: int) -> None:
    folder.mkdir()
    size = -(-len(texts) // files)
    for number in range(files):
        with (folder / f"part{number}.jsonl").open("wb") as stream:
            for id_, title, text in texts[number * size : (number + 1) * size]:
                stream.write(orjson.dumps({"id": id_, "contents": f"{title} {text}"}) + b"\n")


def _index_collection(jsonl: Path, folder: Path, threads: int) -> None:
    from jnius import autoclass

    arguments = autoclass("io.anserini.index.IndexCollection$Args")()
    arguments.collectionClass = "JsonCollection"
    arguments.input, arguments.index = str(jsonl), str(folder)
    arguments.threads, arguments.memoryBuffer, arguments.quiet = threads, 512, True
    autoclass("io.anserini.index.IndexCollection")(arguments).run()


def _raw_searcher(folder: Path) -> Any:
    from jnius import autoclass

    searcher = autoclass("io.anserini.search.SimpleSearcher")(str(folder))
    searcher.set_bm25(0.9, 0.4)
    return searcher


def _raw_search(searcher: Any, query: str, k: int) -> tuple[list[str], list[float]]:
    hits = searcher.search(query, k)
    return [hit.docid for hit in hits], [hit.score for hit in hits]


def _raw_batch(searcher: Any, queries: list[str], k: int, threads: int) -> list[Any]:
    from jnius import autoclass

    texts, ids = autoclass("java.util.ArrayList")(), autoclass("java.util.ArrayList")()
    for number, query in enumerate(queries):
        texts.add(query)
        ids.add(str(number))
    results = searcher.batch_search(texts, ids, k, threads)
    hits = [results.get(str(number)) for number in range(len(queries))]
    return [([hit.docid for hit in one], [hit.score for hit in one]) for one in hits]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--passages", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


BENCHMARK = Benchmark("lucene", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
