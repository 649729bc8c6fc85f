"""Values that are made once, in any number of threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from linkseek.indexer.base.once import Once


def test_a_value_is_made_once_and_others_do_not_wait_for_it():
    made, go_on = [], threading.Event()

    def make(key):
        made.append(key)
        if key == "slow":
            assert go_on.wait(60)
        return object()

    once = Once(make)
    with ThreadPoolExecutor(3) as pool:
        slow = [pool.submit(once, "slow") for _ in range(2)]
        assert once("fast") is once("fast")
        go_on.set()
        assert slow[0].result(60) is slow[1].result(60)
    assert sorted(made) == ["fast", "slow"]


def test_a_value_that_could_not_be_made_is_tried_again():
    attempts = iter([ValueError("not yet"), "value"])

    def make():
        attempt = next(attempts)
        if isinstance(attempt, ValueError):
            raise attempt
        return attempt

    once = Once(make)
    with pytest.raises(ValueError, match="not yet"):
        once()
    assert once() == once() == "value"
