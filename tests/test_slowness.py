"""The automatic mark of slow tests."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import slowness
from command import Forked, run
from slowness import LONGEST, ON_RAY, TESTS, Measured, longest_first, measured, reaches_slow, unit_of


def uses_a_process() -> None:
    subprocess.run(["true"], check=True)


def helper() -> Callable[[], None]:
    return lambda: uses_a_process()


def goes_through_helpers() -> None:
    helper()()


def runs_a_command() -> None:
    run("app/search.py")


def starts_a_command() -> None:
    Forked(["app/search.py"])


def recursive(depth: int) -> int:
    return recursive(depth - 1) if depth else len("fast")


def test_a_test_that_reaches_a_process_is_slow() -> None:
    for function in (uses_a_process, goes_through_helpers, runs_a_command, starts_a_command):
        assert reaches_slow(function)


def test_others_are_not() -> None:
    assert not reaches_slow(recursive)
    assert not reaches_slow(test_others_are_not)


def test_the_longest_files_come_first() -> None:
    assert all((TESTS / name).is_file() for name in LONGEST)
    names = ["test_slowness.py", LONGEST[1], LONGEST[0], "app/test_api.py"]
    items: list[Any] = [SimpleNamespace(path=TESTS / name) for name in names]
    longest_first(items)
    assert [item.path for item in items] == [TESTS / names[number] for number in (2, 1, 0, 3)]


def test_files_on_ray_are_taken_together_and_others_one_by_one() -> None:
    assert {unit_of(f"tests/{name}::test_a[b::c]") for name in ON_RAY} == {"on Ray"}
    assert unit_of("tests/app/test_api.py::test_a") == "tests/app/test_api.py"


def test_what_is_on_the_list_exists() -> None:
    names = [name.split("::") for name in measured()]
    texts = {file: (TESTS / file).read_text("utf-8") for file, *_ in names}
    lost = [name for name in names if not re.search(rf"\bdef {name[-1]}\(", texts[name[0]])]
    assert names and not lost, "make slow-tests"


def test_tests_that_take_long_are_put_on_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slowness, "MEASURED", tmp_path / "slow.txt")
    taken = Measured()
    for name, seconds in (("a[1]", 0.01), ("a[2]", 0.07), ("a[2]", 0.06), ("b", 0.09)):  # set up, then called
        report: Any = SimpleNamespace(nodeid=f"tests/app/test_x.py::{name}", duration=seconds)
        taken.pytest_runtest_logreport(report)
    taken.pytest_sessionfinish()
    assert (tmp_path / "slow.txt").read_text("utf-8") == "app/test_x.py::a\n"
