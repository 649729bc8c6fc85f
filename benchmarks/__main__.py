"""python -m benchmarks [--only NAME ...]: all benchmarks, or some, with their default settings.

Each is also a script of its own with options: python -m benchmarks.encoding --help.
"""

from __future__ import annotations

import argparse

from benchmarks import dense, encoding, lucene, memory, question
from benchmarks.harness import run
from indexer.errors import exit_on_error

ALL = {script.BENCHMARK.name: script.BENCHMARK for script in (encoding, dense, lucene, question, memory)}


def main() -> None:
    """Run the chosen ones, one after another."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", choices=ALL, default=list(ALL), metavar="NAME", help=", ".join(ALL)
    )
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args()
    for name in options.only:
        run(ALL[name], ["--no-record"] if options.no_record else [])


if __name__ == "__main__":
    with exit_on_error("benchmarks"):
        main()
