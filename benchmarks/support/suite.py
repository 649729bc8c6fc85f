"""The benchmarks by name, in the order in which they are run and reported."""

from __future__ import annotations

import ast
import importlib

from benchmarks.support.harness import ROOT, Benchmark, module_of

ON_CPU = (
    "parsing", "encoding", "static", "scoring", "dense", "lucene", "question", "serving", "partitions",
    "sessions", "mining", "training", "memory", "scale", "large",
)  # fmt: skip
ON_GPU = ("gpu_search", "gpu_encoding", "gpu_scoring", "gpu_training", "gpu_index")


def benchmark(name: str) -> Benchmark:
    """Import a script; each imports what it compares."""
    benchmark: Benchmark = importlib.import_module(module_of(name)).BENCHMARK
    return benchmark


def description(name: str) -> str:
    """The docstring of a script, without importing it."""
    source = (ROOT / f"{module_of(name).replace('.', '/')}.py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").strip()
