"""python -m benchmarks [--only NAME ...]: all benchmarks, or some, with their default settings.

Each is also a script of its own with options: python -m benchmarks.encoding --help. Benchmarks for GPUs are
skipped on machines without a GPU.
"""

from __future__ import annotations

import argparse

from benchmarks.support.harness import run
from benchmarks.support.suite import ON_CPU, ON_GPU, benchmark
from linkseek.indexer.machine.devices import cuda_devices
from linkseek.indexer.program.errors import exit_on_error


def main() -> None:
    """Run the chosen ones, one after another."""
    names = [*ON_CPU, *ON_GPU]
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--no-record", action="store_true", help="print only")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each")
    options = parser.parse_args()
    chosen = options.only or [*ON_CPU, *(ON_GPU if cuda_devices("auto") else ())]
    flags = [f"--{flag.replace('_', '-')}" for flag in ("no_record", "json") if getattr(options, flag)]
    for name in chosen:
        run(benchmark(name), flags)


if __name__ == "__main__":
    with exit_on_error("benchmarks"):
        main()
