"""Which tests are slow: those that reach a process, a training, a browser, a JVM or a real model.

A test is followed through its fixtures and the helpers of the tests to the names that it uses. What it
reaches decides, so a new test needs no mark of its own; a list has others that took long. `make check` runs
the rest.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import Forked

TESTS = Path(__file__).parent

ON_RAY = (
    "indexer/test_partition_actors.py",
    "indexer/test_on_ray.py",
    "indexer/test_cluster.py",
    "benchmarks/test_partitions.py",
    "app/serving/test_served_ray.py",
    "retriever/test_labels.py",
)
"""The files that use a Ray cluster: one after another and in one process, so that it starts once."""

LONGEST = (
    "end_to_end/test_docs.py",
    *ON_RAY,
    "benchmarks/test_benchmarks.py",
    "browser/test_index_page.py",
    "browser/test_search_page.py",
    "browser/test_first_visit.py",
    "end_to_end/test_wheel.py",
    "end_to_end/test_realdata.py",
    "end_to_end/test_killed.py",
    "reranker/test_pretrain.py",
    "browser/test_evaluation_page.py",
    "reranker/test_opening_at_once.py",
    "end_to_end/test_notebooks.py",
    "reranker/test_finetune.py",
    "retriever/test_training_runs.py",
    "end_to_end/test_portable.py",
    "indexer/test_faiss.py",
    "indexer/test_lucene.py",
    "end_to_end/test_damage_builds.py",
)
"""The files that take longest, which several processes take first, so that none works alone at the end."""

SLOW_MODULES = (
    "linkseek.app.evaluate",
    "linkseek.app.evaluation.runner",
    "concurrent.futures",
    "experiments.baselines",
    "experiments.tables.cells",
    "hypothesis",
    "linkseek.indexer.search.jvm",
    "linkseek.indexer.search.lucene_index",
    "multiprocessing",
    "openvino",
    "playwright",
    "linkseek.reranker.commands.finetune",
    "linkseek.reranker.models",
    "linkseek.reranker.commands.pretrain",
    "linkseek.reranker.training",
    "linkseek.retriever.commands.mlm",
    "linkseek.retriever.models.biencoder",
    "linkseek.retriever.models.engine",
    "linkseek.retriever.commands.train",
    "sentence_transformers",
    "signal",
    "streamlit.testing",
    "subprocess",
    "tracemalloc",
    "transformers",
    "uvicorn",
)
"""They start a process, server, JVM, page or model, train, evaluate, draw examples, or measure memory."""

MEASURED = TESTS / "slow_tests.txt"
"""Tests that take more than `LIMIT` seconds without any of these modules; `make slow-tests` writes them."""

LIMIT = 0.1


class Measured:
    """Measures the tests that are not slow by what they reach, and writes `MEASURED`.

    Those with random examples and those of a few modules are slow anyway.
    """

    def __init__(self) -> None:
        self._seconds = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what setting a test up, the test and tearing it down took."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the names without parameters: if one takes long, all are slow."""
        slow = {id_.partition("[")[0] for id_, seconds in self._seconds.items() if seconds > LIMIT}
        MEASURED.write_text("".join(f"{name.removeprefix('tests/')}\n" for name in sorted(slow)), "utf-8")


@cache
def measured() -> frozenset[str]:
    """The tests in `MEASURED`: a file and the name of a function."""
    return frozenset(MEASURED.read_text("utf-8").split())


def is_slow(item: pytest.Item, *, are_measured: bool = True) -> bool:
    """Whether a test, one of its fixtures, or what they call uses one of the slow modules, or took long.

    are_measured: count those that took long.
    """
    if not isinstance(item, pytest.Function):
        return False
    if hasattr(item.function, "hypothesis"):
        return True
    if are_measured and item.nodeid.partition("[")[0].removeprefix("tests/") in measured():
        return True
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    functions = [item.function, *(definition.func for group in fixtures for definition in group[-1:])]
    return any(reaches_slow(function) for function in functions)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files before all others, each file in its order."""
    place = {str(TESTS / name): number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(str(item.path), len(LONGEST)))


def unit_of(nodeid: str) -> str:
    """What a process of the suite takes at a time, of tests by their ids: a file, or all on Ray."""
    file = nodeid.partition("::")[0]
    return "on Ray" if file.endswith(ON_RAY) else file


@cache
def reaches_slow(function: Callable[..., Any]) -> bool:
    """Whether the code of a function of the tests uses a slow module, itself or through others."""
    seen: set[int] = set()
    open_functions = [function]
    while open_functions:
        for value in used(open_functions.pop()):
            if value is Forked or module_of(value).startswith(SLOW_MODULES):
                return True
            if isinstance(value, types.FunctionType) and id(value) not in seen and of_tests(value):
                seen.add(id(value))
                open_functions.append(value)
    return False


def used(function: Callable[..., Any]) -> Iterator[Any]:
    """What the names in a function, its inner functions and its closure refer to."""
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, types.FunctionType):
        return
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def module_of(value: Any) -> str:
    """The module that a value is, or comes from."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    return getattr(value, "__module__", None) or type(value).__module__


def of_tests(function: types.FunctionType) -> bool:
    """Whether a function is one of the tests' own."""
    return TESTS in Path(function.__code__.co_filename).parents
