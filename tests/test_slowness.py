"""The automatic mark of slow tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from command import Forked, run
from slowness import LONGEST, ON_RAY, TESTS, longest_first, reaches_slow, unit_of


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
