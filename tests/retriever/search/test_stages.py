"""Stage timing: what is recorded, and that nothing is where nobody asked."""

import threading
import time

import pytest

from linkseek.retriever.search.stages import recorded_stages, stage


def search():
    with stage("encode"):
        time.sleep(0.02)
    with stage("search"):
        time.sleep(0.01)


def test_seconds_by_stage_in_order():
    with recorded_stages() as seconds:
        search()
    assert list(seconds) == ["encode", "search"]
    assert 0.02 <= seconds["encode"] < 10
    assert 0.01 <= seconds["search"] < 10


def test_recording_ends_with_its_block_and_with_an_error():
    with pytest.raises(KeyError), recorded_stages() as seconds, stage("fails"):
        raise KeyError
    assert list(seconds) == ["fails"]
    search()
    assert list(seconds) == ["fails"]


def test_a_recording_inside_another_takes_over():
    with recorded_stages() as outer:
        with recorded_stages() as inner, stage("a"):
            pass
        with stage("b"):
            pass
    assert (list(inner), list(outer)) == (["a"], ["b"])


def test_threads_record_for_themselves():
    found = []

    def one():
        with recorded_stages() as seconds:
            search()
        found.append(seconds)

    with recorded_stages() as mine:
        threads = [threading.Thread(target=one) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert mine == {}
    assert [list(seconds) for seconds in found] == [["encode", "search"]] * 3
