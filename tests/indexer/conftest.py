"""What the tests on a Ray cluster share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from linkseek.indexer.machine import cluster as clusters
from linkseek.indexer.machine.cluster import Actors, connected
from tests.support.on_actors import WHEN_DONE, Dying


@pytest.fixture
def ray(cluster: str) -> Iterator[Any]:
    """Connected to the cluster."""
    with connected(cluster) as ray:
        yield ray


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[None]]:
    """Within dying(*moments), an actor dies at each of these moments of its work, by default when it is done.

    They die of every other question, or of those that call `function`, so that some answer in between.
    then: is called when all have died, before the last of this work is done again.
    """

    @contextmanager
    def dying(
        *moments: int, function: Any = None, then: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        waiting = list(moments or (WHEN_DONE,))
        count, asked, died = len(waiting), 0, list[str]()
        lock, answer = threading.Lock(), Actors._answer

        def answer_or_die(actors: Any, actor: Any, question: Any, patience: float) -> Any:
            nonlocal asked
            calls = None
            if function in (None, question.function):
                with lock:
                    asked += 1
                    calls = waiting.pop(0) if waiting and asked % 2 else None
            if calls is None:
                return answer(actors, actor, question, patience)
            doomed = replace(question, function=Dying(question.function, calls), reference=None)
            result, problem = answer(actors, actor, doomed, patience)
            with lock:
                died.append(problem.partition(" (")[0])
                if len(died) == count:
                    then()
            return result, problem

        with monkeypatch.context() as patch:
            patch.setattr(clusters, "ATTEMPTS", 10)
            patch.setattr(Actors, "_answer", answer_or_die)
            yield
        assert died == ["died"] * count

    return dying
