"""Values that are made once, in any number of threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from linkseek.indexer.machine.once import Once, shared_property


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


def test_a_value_that_a_thread_makes_is_waited_for_and_its_error_is_that_of_all_who_wait():
    go_on, attempts = threading.Event(), []

    def make(key):
        attempts.append(key)
        assert go_on.wait(60)
        if len(attempts) == 1:
            raise ValueError("not yet")
        return key

    once = Once(make)
    with ThreadPoolExecutor(2) as pool:
        first = once.start(pool, "a")
        assert once.start(pool, "a") is first and not first.done() and not once.made
        waiting = pool.submit(once, "a")
        go_on.set()
        for failed in (first, waiting):
            with pytest.raises(ValueError, match="not yet"):
                failed.result(60)
        assert once.start(pool, "a").result(60) == once.start(pool, "a").result(0) == "a"
    assert attempts == ["a", "a"] and once.made == {("a",): "a"}


def test_a_value_of_an_executor_that_has_ended_is_no_wait_for_ever():
    once, pool = Once(lambda: "value"), ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError):
        once.start(pool).result(1)
    assert once() == "value"


class Shared:
    def __init__(self, go_on):
        self.go_on, self.computed = go_on, 0

    @shared_property
    def value(self):
        """What it says."""
        assert self.go_on.wait(60)
        self.computed += 1
        return object()


def test_a_shared_property_is_computed_once_and_other_objects_do_not_wait_for_it():
    slow, fast = Shared(threading.Event()), Shared(threading.Event())
    fast.go_on.set()
    with ThreadPoolExecutor(4) as pool:
        values = [pool.submit(getattr, slow, "value") for _ in range(4)]
        assert pool and fast.value is fast.value
        slow.go_on.set()
        assert len({id(value.result(60)) for value in values}) == 1
    assert (slow.computed, fast.computed) == (1, 1)
    assert Shared.value.__doc__ == "What it says." and vars(fast).keys() == {"go_on", "computed", "value"}
