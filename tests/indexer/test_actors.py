"""How actors are waited for and replaced, with threads in place of a Ray cluster."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import SimpleNamespace
from typing import Any

import pytest

from linkseek.indexer.machine.cluster import Actors, ClusterQuestion
from linkseek.indexer.program.errors import MachineError


class LostError(Exception):
    """An actor died."""


class TaskFailedError(Exception):
    """A function raised."""


class LateError(Exception):
    """No answer yet."""


class Machines:
    """What `Actors` uses of Ray. Only the first `starting` actors ever begin."""

    exceptions = SimpleNamespace(
        RayActorError=LostError, RayTaskError=TaskFailedError, GetTimeoutError=LateError
    )

    def __init__(self, starting: int) -> None:
        self.starting = starting
        self.killed: list[Any] = []

    def remote(self, **options: Any) -> Any:
        return lambda kind: SimpleNamespace(remote=self._start)

    def _start(self, *_: Any) -> Any:
        self.starting -= 1
        return Actor(begins=self.starting >= 0)

    def wait(self, references: Sequence[Future[Any]], num_returns: int, timeout: float) -> Any:
        return wait(references, timeout, FIRST_COMPLETED)

    def get(self, reference: Future[Any], timeout: float) -> Any:
        try:
            return reference.result(timeout)
        except TimeoutError:
            raise LateError from None

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


class Actor:
    """It answers in a thread."""

    def __init__(self, begins: bool) -> None:
        begun: Future[None] = Future()
        if begins:
            begun.set_result(None)
        self.begin = SimpleNamespace(remote=lambda: begun)
        self.run = SimpleNamespace(remote=self._answer)

    def _answer(self, content: tuple[Any, Sequence[Any]]) -> Future[Any]:
        answer: Future[Any] = Future()

        def work() -> None:
            try:
                answer.set_result(content[0](*content[1]))
            except LostError as error:
                answer.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return answer


def die_once(died: list[int], number: int) -> int:
    if number == 1 and not died:
        died.append(number)
        raise LostError("the machine is gone")
    return number


def test_a_machine_that_is_gone_holds_up_no_work(capfd: pytest.CaptureFixture[str]) -> None:
    """Its actor is replaced by one that never begins, and the other actor does all the work."""
    died: list[int] = []
    with Actors(Machines(starting=2), 2) as actors:
        asked = [actors.submit(die_once, died, number) for number in range(8)]
        assert [answer.result(20) for answer in asked] == list(range(8)) and died
    assert "the actor of a task died (the machine is gone); trying again" in capfd.readouterr().err


def test_without_any_actor_work_ends_in_words() -> None:
    with Actors(Machines(starting=0), 1, patience=0.1) as actors:
        asked = actors.ask(ClusterQuestion(abs, [1]), "partition 00003", attempts=1)
        with pytest.raises(MachineError, match="partition 00003: its actor did not start in 0 s"):
            asked.result(20)


def hang(calls: list[int], times: int, ended: threading.Event) -> int:
    calls.append(1)
    if len(calls) <= times:
        ended.wait(20)
    return len(calls)


@pytest.mark.parametrize("times", [1, 3])
def test_an_actor_that_hangs_costs_one_attempt(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linkseek.indexer.machine.cluster._LOOK", 0.02)
    machines, ended = Machines(starting=9), threading.Event()
    with Actors(machines, 1, patience=0.05) as actors:
        asked = actors.submit(hang, [], times, ended)
        if times < 3:
            assert asked.result(20) == 2
        else:
            with pytest.raises(MachineError, match="a task: the last of its 3 actors gave no answer in"):
                asked.result(20)
        assert len(machines.killed) == times
    ended.set()


def test_the_first_work_may_take_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a function has returned once, nobody knows how long it takes."""
    monkeypatch.setattr("linkseek.indexer.machine.cluster._LOOK", 0.02)
    machines, calls, ended = Machines(starting=9), list[int](), threading.Event()
    with Actors(machines, 1, patience=0.05, any_first=True) as actors:
        asked = actors.submit(hang, calls, 1, ended)
        threading.Timer(0.5, ended.set).start()
        assert asked.result(20) == 1 and not machines.killed
