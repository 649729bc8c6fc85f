"""Which tests are slow, by measurement: `make check` leaves them to `make test`.

`slow_tests.txt` names them; `make slow-tests` runs all tests and writes it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

ON_RAY = (
    "indexer/test_partition_actors.py",
    "indexer/encoding/test_on_ray.py",
    "indexer/machine/test_cluster.py",
    "benchmarks/test_partitions.py",
    "app/serving/test_served_ray.py",
    "retriever/mining/test_labels.py",
)
"""The files that use a Ray cluster: one after another and in one process, so that it starts once."""

LONGEST = (
    "end_to_end/test_docs.py",
    *ON_RAY,
    "benchmarks/test_benchmarks.py",
    "browser/test_index_page.py",
    "browser/test_search_page.py",
    "end_to_end/test_wheel.py",
    "end_to_end/test_realdata.py",
    "end_to_end/test_killed.py",
    "reranker/training/test_pretrain.py",
    "reranker/training/test_training_contract.py",
    "browser/test_evaluation_page.py",
    "reranker/models/test_opening_at_once.py",
    "end_to_end/test_notebooks.py",
    "reranker/training/test_finetune.py",
    "retriever/training/test_training_runs.py",
    "end_to_end/test_portable.py",
    "indexer/search/test_faiss.py",
    "indexer/search/test_lucene.py",
)
"""The files that take longest, which several processes take first, so that none works alone at the end."""

MEASURED = TESTS / "slow_tests.txt"
"""Functions, and files all of whose functions are slow."""

LIMIT = 0.1
"""Seconds that a test takes at most that is not slow, on an idle machine."""


class Measured:
    """Measures all tests and writes `MEASURED`."""

    def __init__(self) -> None:
        self._seconds = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what setting a test up, the test and tearing it down took."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the names without parameters: if one takes long, all are slow."""
        slow = {name_of(id_) for id_, seconds in self._seconds.items() if seconds > LIMIT}
        others = {name_of(id_).partition("::")[0] for id_ in self._seconds if name_of(id_) not in slow}
        names = {name if file in others else file for name in slow for file in [name.partition("::")[0]]}
        MEASURED.write_text("".join(f"{name}\n" for name in sorted(names)), "utf-8")


class Limited:
    """Fails a test that takes more seconds of processor time than a fast one may."""

    def __init__(self, maximum: float) -> None:
        self._maximum = maximum

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Measure the test without its fixtures, which others may share."""
        started = sum(os.times()[:4])
        result = yield
        seconds = sum(os.times()[:4]) - started
        assert seconds <= self._maximum, f"took {seconds:.1f} s: make slow-tests lists slow tests"
        return result


@cache
def measured() -> frozenset[str]:
    """The names in `MEASURED`."""
    return frozenset(MEASURED.read_text("utf-8").split())


def is_slow(nodeid: str) -> bool:
    """Whether a test was measured as slow, with any of its parameters."""
    name = name_of(nodeid)
    return not measured().isdisjoint((name, name.partition("::")[0]))


def name_of(nodeid: str) -> str:
    """The file and the function of a test."""
    return nodeid.partition("[")[0].removeprefix("tests/")


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files before all others, each file in its order."""
    place = {str(TESTS / name): number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(str(item.path), len(LONGEST)))


def unit_of(nodeid: str) -> str:
    """What a process of the suite takes at a time, of tests by their ids: a file, or all on Ray."""
    file = nodeid.partition("::")[0]
    return "on Ray" if file.endswith(ON_RAY) else file
