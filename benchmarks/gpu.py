"""python -m benchmarks.gpu: the benchmarks for a GPU, one after another; --list names the files they need.

They need torch, transformers and sentence-transformers, but neither a network nor anything else of this
project's dependencies, and each takes a few minutes. To run them on another machine:

    tar cf gpu.tar $(python -m benchmarks.gpu --list)          here
    python -m benchmarks.gpu --output results                  there, where gpu.tar was unpacked
    cat results/gpu_search.jsonl >> benchmarks/results/gpu_search.jsonl, the same of the others     here
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import gpu_encoding, gpu_scoring, gpu_search
from benchmarks.harness import RESULTS, run

_ROOT = Path(__file__).parents[1]
_LATER = ("linkseek.reranker.models.first_token",)
"""Modules that are imported when a model is opened."""


def main() -> None:
    """Run them, or list the files."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.gpu", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--list", action="store_true", help="name the files of this project that are needed")
    parser.add_argument("--tiny", action="store_true", help="with tiny sizes, to try the scripts out")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the folder of results")
    options = parser.parse_args()
    if options.list:
        print("\n".join(needed_files()))
        return
    for script, tiny in (
        (gpu_search, gpu_search.TINY_RUN),
        (gpu_scoring, gpu_encoding.TINY_RUN),
        (gpu_encoding, gpu_encoding.TINY_RUN),
    ):
        run(script.BENCHMARK, [*(tiny if options.tiny else []), "--output", str(options.output)])


def needed_files() -> list[str]:
    """The files of this project that the scripts import, relative to its folder."""
    for name in _LATER:
        import_module(name)
    paths = [Path(file) for module in sys.modules.values() if (file := getattr(module, "__file__", None))]
    inside = {path.resolve() for path in paths} | {Path(__file__).resolve()}
    ours = (
        path for path in inside if path.is_relative_to(_ROOT) and ".venv" not in path.parts and path.exists()
    )
    return sorted(str(path.relative_to(_ROOT)) for path in ours)


if __name__ == "__main__":
    main()
