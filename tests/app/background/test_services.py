"""Open indexes of one process: models are shared, rebuilt indexes opened again, first stages do not wait."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from linkseek.app.background import services as services_module
from linkseek.app.background.services import MAX_OPEN, Services
from linkseek.app.page import context
from linkseek.app.page.context import AppOptions
from linkseek.app.pipelines.catalogue import RECOMMENDED
from linkseek.app.pipelines.open_models import Models
from linkseek.app.service import SearchService
from linkseek.indexer.search import lucene_index
from tests.support.asynchronous import wait_until
from tests.support.tiny.index import WordEncoder, WordScorer, build

NO_RESULTS = Path("none")


@pytest.fixture
def two_indexes(tmp_path):
    return [build(tmp_path / name) for name in ("one", "two")]


def test_an_encoder_is_opened_once_for_all_indexes(two_indexes, word_encoder):
    services = Services()
    for index in two_indexes:
        assert services.open(index, None, NO_RESULTS).search("river", "hybrid").hits
    assert word_encoder == ["words"]


def test_a_rebuilt_index_is_opened_again_and_the_old_one_is_closed(two_indexes, word_encoder):
    services, index = Services(), two_indexes[0]
    old = services.open(index, None, NO_RESULTS)
    assert services.open(index, None, NO_RESULTS) is old
    old.search("river", "bm25")
    lucene, reader = weakref.ref(old.index.lucene()), old.index.lucene()._reader
    build(index, [("1", "New", "Another river.", "")])
    new = services.open(index, None, NO_RESULTS)
    assert new is not old and [hit.title for hit in new.search("river", "bm25").hits] == ["New"]
    del old
    new.search("river", RECOMMENDED)  # every pipeline of the first visit is open
    gc.collect()
    assert lucene() is None
    new.search("river", "bm25")
    lucene_index.java_threads().submit(lambda: None).result()
    assert reader.getRefCount() == 0


def test_the_indexes_used_longest_ago_are_dropped_unless_in_use(tmp_path, word_encoder):
    services = Services()
    indexes = [build(tmp_path / str(number), encoders=()) for number in range(MAX_OPEN + 2)]
    used = services.open(indexes[1], None, NO_RESULTS)
    opened = []
    for index in [*indexes[:MAX_OPEN], indexes[0], *indexes[MAX_OPEN:]]:
        service = services.open(index, None, NO_RESULTS)
        for name in service.pipelines.first_visit:
            service.pipelines.open(name)
        opened.append(weakref.ref(service))
        del service
    gc.collect()
    dropped = [number for number, service in enumerate(opened) if service() is None]
    assert dropped == [2] and services.open(indexes[1], None, NO_RESULTS) is used


def test_an_index_that_opens_does_not_hold_up_another(two_indexes, monkeypatch):
    slow, quick = two_indexes
    services, opened, opening, go_on = Services(), [], threading.Event(), threading.Event()

    def open_slowly(index, *arguments):
        opened.append(index)
        if index == slow:
            opening.set()
            assert go_on.wait(60)
        return SearchService(index, *arguments)

    monkeypatch.setattr("linkseek.app.background.services.SearchService", open_slowly)
    with ThreadPoolExecutor() as threads:
        waiting = [threads.submit(services.open, slow, None, NO_RESULTS) for _ in range(2)]
        assert opening.wait(60)
        assert services.open(quick, None, NO_RESULTS).search("river", "bm25").hits
        assert not any(each.done() for each in waiting)
        go_on.set()
        assert waiting[0].result() is waiting[1].result()
    assert sorted(opened) == sorted([slow, quick])


def test_the_first_stage_does_not_wait_for_the_model(built_index):
    """Two re-rankers are opened at the same time, and each column shows BM25's order before."""
    both, ready = threading.Barrier(2), threading.Event()

    def open_scorer(*name):
        both.wait(60)
        assert ready.wait(60)
        return WordScorer()

    service = SearchService(built_index, None, Models(None, open_scorer))
    answers = service.answers("a river", ["bm25-prop", "bm25-harp", "bm25"], 3)
    first = [next(answers) for _ in range(3)]
    assert {(answer.pipeline, answer.waiting) for answer in first} == {
        ("bm25-prop", True),
        ("bm25-harp", True),
        ("bm25", False),
    }
    ready.set()
    assert {(answer.pipeline, answer.waiting) for answer in answers} == {
        ("bm25-prop", False),
        ("bm25-harp", False),
    }


@pytest.mark.parametrize("asked", ["answers", "warm"])
def test_words_are_ready_before_a_model_is_loaded(built_index, asked):
    """The model would slow them down, and is needed later in any case."""
    words = []

    def open_encoder(name):
        words.append(service.pipelines.is_ready("bm25"))
        return WordEncoder()

    service = SearchService(built_index, None, Models(open_encoder))
    if asked == "answers":
        assert [of.pipeline for of in service.answers("river", ["dense", "bm25"], 3)] == ["bm25", "dense"]
    else:
        service.pipelines.warm(["bm25", "dense"])
        wait_until(lambda: words)
    assert words == [True]


def test_a_first_visit_finds_its_pipelines_open(built_index, word_encoder, monkeypatch):
    services = Services()
    monkeypatch.setattr(services_module, "SERVICES", services)
    context.prepare(AppOptions(index=built_index))
    service = services.open(built_index.resolve(), None, Path("results"))
    wait_until(lambda: all(map(service.pipelines.is_ready, service.pipelines.first_visit)))
    assert word_encoder == ["words"]
    context.prepare(AppOptions(index=built_index / "none"))  # the page says so
