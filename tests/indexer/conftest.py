"""What the tests on a Ray cluster share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any

import pytest

from linkseek.indexer.base import cluster as clusters
from linkseek.indexer.base.cluster import connected


@pytest.fixture
def ray(cluster: str) -> Iterator[Any]:
    """Connected to the cluster."""
    with connected(cluster) as ray:
        yield ray


@pytest.fixture
def killed_at_random(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], AbstractContextManager[None]]:
    """Within killed_at_random(n), actors are killed at n random moments, while there are any.

    The first dies with its first task, so that one dies also where all is done at once.
    """
    monkeypatch.setattr(clusters, "ATTEMPTS", 20)
    made: list[clusters.Actors] = []
    begin = clusters.Actors.__init__

    def begin_and_note(actors: Any, *arguments: Any, **options: Any) -> None:
        begin(actors, *arguments, **options)
        made.append(actors)

    monkeypatch.setattr(clusters.Actors, "__init__", begin_and_note)

    @contextmanager
    def killed(count: int) -> Iterator[None]:
        random, ended, kills = Random(0), threading.Event(), list[Any]()
        answer, first = clusters.Actors._answer, threading.Lock()

        def answer_or_die(actors: Any, actor: Any, *arguments: Any) -> Any:
            if first.acquire(blocking=False):
                actors._ray.kill(actor)
                kills.append(actor)
            return answer(actors, actor, *arguments)

        def kill() -> None:
            while len(kills) < count and not ended.wait(random.uniform(0.05, 0.5)):
                busy = [actor for actors in made for actor in actors._all - {*actors._free}]
                for actor in random.sample(busy, min(len(busy), 1)):
                    made[-1]._ray.kill(actor)
                    kills.append(actor)

        killer = threading.Thread(target=kill)
        with monkeypatch.context() as patch:
            patch.setattr(clusters.Actors, "_answer", answer_or_die)
            killer.start()
            yield
        ended.set()
        killer.join()
        assert kills

    return killed
