"""The list of slow tests, the limit on the others, and the tests near a file."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import slowness
from tests.near import near
from tests.slowness import ON_RAY, TESTS, Limited, Measured, is_slow, longest_first, measured, unit_of


def test_files_on_ray_are_taken_together_and_others_one_by_one() -> None:
    assert {unit_of(f"tests/{name}::test_a[b::c]") for name in ON_RAY} == {"on Ray"}
    assert unit_of("tests/linkseek/test_api.py::test_a") == "tests/linkseek/test_api.py"


def test_what_is_on_the_list_exists() -> None:
    names = [name.partition("::") for name in measured()]
    texts = {file: (TESTS / file).read_text("utf-8") for file, *_ in names}
    lost = [name for name in names if not re.search(rf"\bdef {name[-1]}\w*\(", texts[name[0]])]
    assert names and not lost, "make slow-tests"


def test_tests_that_take_long_are_put_on_the_list_and_their_files_come_first(tmp_path, monkeypatch):
    monkeypatch.setattr(slowness, "MEASURED", tmp_path / "slow.txt")
    taken = Measured()
    times = (("x::a[1]", 0.01), ("x::a[2]", 0.04), ("x::a[2]", 0.02), ("x::b", 0.04), ("y::a", 2))
    for name, seconds in times:
        report: Any = SimpleNamespace(nodeid=f"tests/app/{name}", duration=seconds)
        taken.pytest_runtest_logreport(report)
    taken.pytest_sessionfinish()
    assert (tmp_path / "slow.txt").read_text("utf-8") == "app/x::a 0.1\napp/y 2.0\n"
    measured.cache_clear()
    try:
        assert [is_slow(f"tests/app/{name}") for name in ("x::a[3]", "x::b", "y::new")] == [True, False, True]
        items: list[Any] = [SimpleNamespace(nodeid=f"tests/app/{name}") for name in ("z::a", "x::b", "y::b")]
        longest_first(items)
        assert [item.nodeid[10] for item in items] == ["y", "x", "z"]
    finally:
        measured.cache_clear()


@pytest.mark.parametrize("seconds", [0.5, 1.5])
def test_a_test_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    times = iter([(1, 2, 3, 4, 0), (1, 2, 3 + seconds, 4, 9)])
    monkeypatch.setattr("tests.slowness.os.times", lambda: next(times))
    call = Limited(1).pytest_runtest_call()
    next(call)
    with pytest.raises(StopIteration if seconds < 1 else AssertionError):
        call.send(None)


def test_tests_near_a_file_are_those_that_import_it() -> None:
    code = near(TESTS.parent / "indexer/building/updating/mirror.py")
    assert TESTS / "indexer/building/test_mirror.py" in code
    assert TESTS / "app/evaluation/test_measures.py" not in code
    assert near(TESTS / "near.py") >= {Path(__file__)}
    with pytest.raises(ValueError, match="not a file of the code"):
        near(TESTS.parent / "indexer/none.py")
