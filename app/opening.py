"""The pipelines of an index that are open or being opened, each in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from linkseek.app.pipelines import Pipelines
from linkseek.indexer.index import Index
from linkseek.reranker.reranking import Reranking
from linkseek.retriever.ranking import Pipeline, Query

_log = logging.getLogger(__name__)

_THREADS = ThreadPoolExecutor(1_000, "opening")
"""For all indexes; more than are ever needed, so that a pipeline without a model waits for no model."""

_TRIES = 2
"""How often a pipeline is opened in the background."""


class OpenPipelines:
    """Opens pipelines for any number of threads, each once; what could not be opened can be tried again."""

    def __init__(self, index: Index, pipelines: Pipelines) -> None:
        self._index = index
        self._pipelines = pipelines
        self._opened: dict[str, Future[Pipeline]] = {}  # and those being opened; none that has failed
        self._lock = threading.Lock()

    def is_ready(self, name: str) -> bool:
        """Whether a pipeline is open, so that a search starts at once."""
        return name in self._opened and self._opened[name].done()

    def open(self, name: str) -> Pipeline:
        """A pipeline, ready to run. Raises whatever opening it raises."""
        return self.start(name).result()

    def start(self, name: str) -> Future[Pipeline]:
        """Open a pipeline in a thread, and its members in others, unless they are open or being opened."""
        with self._lock:  # two visitors must not load the same model twice
            for part in self._pipelines.parts(name):
                if part not in self._opened:
                    self._opened[part] = _THREADS.submit(self._open_and_run, part)
            return self._opened[name]

    def warm(self, names: Sequence[str]) -> None:
        """Open pipelines in the background. One that fails is logged and tried again."""
        for name in names:
            self._open_in_background(name, _TRIES)

    def _open_in_background(self, name: str, tries: int) -> None:
        self.start(name).add_done_callback(partial(self._try_again, name, tries - 1))

    def _try_again(self, name: str, tries: int, opened: Future[Pipeline]) -> None:
        if has_failed(opened):
            _log.warning("the pipeline %r could not be opened", name, exc_info=opened.exception())
            if tries:
                self._open_in_background(name, tries)

    def _open_and_run(self, name: str) -> Pipeline:
        """The first run of a pipeline is slower than the others; of one that re-ranks, a pair is enough."""
        try:
            pipeline = self._pipelines.open(name)
            passages = self._index.passages
            queries = [Query("first", passages[0].text[:100])] if len(passages) else []
            if isinstance(pipeline, Reranking):
                pipeline.rerank(queries, pipeline.first(queries, 1), 1)
            else:
                pipeline(queries, 1)
        except BaseException:
            with self._lock:  # before anybody sees the failure, and tries again
                self._opened.pop(name, None)
            raise
        return pipeline


def has_failed(opened: Future[Pipeline] | None) -> bool:
    """Whether a pipeline could not be opened; not for one that is being opened."""
    return opened is not None and opened.done() and opened.exception() is not None
