"""Peak memory of a build over growing parts of one corpus, each in its own process.

FAISS's vectors, the ids and the offsets may grow with the corpus. The row under each peak is the size of the
index's vectors in memory. The encoder "one-layer" is the default one truncated after its first layer: as
wide, and done in minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.support.harness import Benchmark, Measurement, run
from linkseek.indexer.documents import Document
from linkseek.indexer.index import OpenIndex
from linkseek.indexer.readers.formats import open_reader

_BUILD = Path(__file__).parents[1] / "indexer" / "build.py"


def measure(options: argparse.Namespace) -> list[Measurement]:
    """Megabytes at the peak (the largest process), for each share of the corpus."""
    documents = sum(isinstance(o, Document) for o in open_reader(options.corpus).documents())
    figures = []
    for share in options.shares:
        limit = max(1, round(documents * share))
        with tempfile.TemporaryDirectory() as folder:
            index = Path(folder) / "index"
            command = [sys.executable, str(_BUILD), "--corpus", str(options.corpus), "--index", str(index)]
            command += ["--limit", str(limit), "--encoder", options.encoder]
            peak = _peak_mb(command)
            opened = OpenIndex.open(index)
            passages = len(opened.passages)
            vectors = passages * opened.dense().index.d * 2 / 2**20
        figures.append(Measurement(f"peak at {share:g} ({passages:,} passages)", "MB", peak))
        figures.append(Measurement("  of which vectors in FAISS", "MB", vectors))
    return figures


def _peak_mb(command: list[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the build ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.5, 1.0])
    parser.add_argument(
        "--encoder", default="all-MiniLM-L6-v2", help="a smaller one of the same width is quicker"
    )


BENCHMARK = Benchmark("memory", __doc__.partition("\n")[0], measure, _options)

if __name__ == "__main__":
    run(BENCHMARK)
