"""The automatic mark of slow tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from command import run
from slowness import reaches_slow


def uses_a_process() -> None:
    subprocess.run(["true"], check=True)


def helper() -> Callable[[], None]:
    return lambda: uses_a_process()


def goes_through_helpers() -> None:
    helper()()


def runs_a_command() -> None:
    run("app/search.py")


def recursive(depth: int) -> int:
    return recursive(depth - 1) if depth else len("fast")


def test_a_test_that_reaches_a_process_is_slow() -> None:
    assert all(map(reaches_slow, (uses_a_process, goes_through_helpers, runs_a_command)))


def test_others_are_not() -> None:
    assert not reaches_slow(recursive)
    assert not reaches_slow(test_others_are_not)
