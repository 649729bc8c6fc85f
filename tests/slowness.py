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

MEASURED = TESTS / "slow_tests.txt"
"""Seconds of slow functions, with all of their parameters, and of files all of whose functions are slow."""

LIMIT = 0.05
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
        others = {file_of(id_) for id_ in self._seconds if name_of(id_) not in slow}
        taken = Counter[str]()
        for id_, seconds in self._seconds.items():
            if (name := name_of(id_)) in slow:
                taken[name if file_of(id_) in others else file_of(id_)] += seconds
        MEASURED.write_text("".join(f"{name} {taken[name]:.1f}\n" for name in sorted(taken)), "utf-8")


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
def measured() -> dict[str, float]:
    """The names in `MEASURED`, and the seconds of each."""
    lines = (line.split() for line in MEASURED.read_text("utf-8").splitlines())
    return {name: float(seconds) for name, seconds in lines}


def is_slow(nodeid: str) -> bool:
    """Whether a test was measured as slow, with any of its parameters."""
    return not measured().keys().isdisjoint((name_of(nodeid), file_of(nodeid)))


def name_of(nodeid: str) -> str:
    """The file and the function of a test."""
    return nodeid.partition("[")[0].removeprefix("tests/")


def file_of(nodeid: str) -> str:
    """The file of a test."""
    return name_of(nodeid).partition("::")[0]


def longest_first(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first, each file in its order, so that no process works alone at
    the end.
    """
    taken = Counter[str]()
    for name, seconds in measured().items():
        taken[unit_of(name)] += seconds
    items.sort(key=lambda item: -taken[unit_of(name_of(item.nodeid))])


def unit_of(nodeid: str) -> str:
    """What a process of the suite takes at a time, of tests by their ids: a file, or all on Ray."""
    file = nodeid.partition("::")[0]
    return "on Ray" if file.endswith(ON_RAY) else file
