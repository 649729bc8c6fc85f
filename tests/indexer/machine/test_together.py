"""Tasks at the same time: results in order, the first error once, and nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from linkseek.indexer.machine.together import ProcessPool, Stop, run_together
from linkseek.indexer.program.errors import InputError
from tests.support.command import WITH_TESTS, python


def test_results_come_in_the_order_of_the_tasks():
    both = threading.Barrier(2, timeout=60)  # passed only by two at the same time

    def task(name: str) -> str:
        both.wait()
        return name

    assert run_together([lambda: task("a"), lambda: task("b")], Stop()) == ["a", "b"]


def test_a_task_alone_runs_where_it_is_called():
    assert run_together([threading.current_thread], Stop()) == [threading.main_thread()]
    assert run_together([], Stop()) == []


def test_the_first_error_is_raised_once_the_others_have_ended():
    stop, ended = Stop(), []

    def works_on() -> None:
        try:
            for _ in range(10_000):
                stop.check()
                time.sleep(0.001)
        finally:
            time.sleep(0.05)
            ended.append("works on")
        raise AssertionError("it was not stopped")

    def fails() -> None:
        raise InputError("the first")

    def fails_later() -> None:
        try:
            works_on()
        finally:
            raise InputError("the second")

    with pytest.raises(InputError, match="the first"):
        run_together([works_on, fails, fails_later], stop)
    assert ended == ["works on"] * 2


_WAITS = """
import os, time
from linkseek.indexer.program.errors import exit_on_error
from linkseek.indexer.machine.together import Stop, run_together
stop = Stop()
def task():
    os.write(1, b"began\\n")  # whole, whatever the other thread writes
    while True:
        stop.check()
        time.sleep(0.01)
with exit_on_error("test", **{options}):
    run_together([task, task], stop)
"""


@pytest.mark.parametrize(
    ("number", "ctrl_c", "options", "more"),
    [
        (signal.SIGINT, signal.default_int_handler, {}, ""),
        (signal.SIGTERM, signal.default_int_handler, {"resumes": True}, "; run the same command to resume"),
        (signal.SIGTERM, signal.SIG_IGN, {}, ""),  # as what a shell starts in the background inherits it
    ],
)
def test_ctrl_c_and_sigterm_end_all(number, ctrl_c, options, more):
    process = subprocess.Popen(
        [sys.executable, "-c", _WAITS.format(options=options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=WITH_TESTS,
        preexec_fn=lambda: signal.signal(signal.SIGINT, ctrl_c),
    )
    assert process.stdout is not None
    for _ in range(2):
        assert process.stdout.readline() == "began\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert said.strip() == f"test: interrupted{more}"


_OFTEN = """
import random, signal, time
from linkseek.indexer.machine.together import Stop, run_together

draw = random.Random(0)

def press(*_):
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.setitimer(signal.ITIMER_REAL, 5e-4)  # not begun yet
    else:
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # of a shell's background it would be ignored
signal.signal(signal.SIGALRM, press)
for number in range(1_000):
    stop = Stop()
    def task():
        while True:
            stop.check()
            time.sleep(0.0005)
    signal.setitimer(signal.ITIMER_REAL, 2e-5 + draw.uniform(0, 0.0005))
    try:
        run_together([task, task], stop)
    except KeyboardInterrupt:
        print(number)
"""


def test_ctrl_c_is_never_lost_wherever_it_comes():
    said = python("-c", _OFTEN)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.split() == [str(number) for number in range(1_000)]


def test_sigterm_stays_with_a_program_that_handles_it_itself():
    came = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.set())

    def task() -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return came.wait(30)

    try:
        assert run_together([task, lambda: True], Stop()) == [True, True]
    finally:
        signal.signal(signal.SIGTERM, before)


# --- processes ------------------------------------------------------------------------------------


def after_ctrl_c(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return number


_IMPORTED = signal.pthread_sigmask(signal.SIG_BLOCK, [])


def blocked_at_import(_: int) -> bool:
    return signal.SIGINT in _IMPORTED


def test_processes_leave_ctrl_c_to_their_parent_from_the_beginning():
    with ProcessPool(2) as pool:
        assert list(pool.map(after_ctrl_c, range(4))) == [0, 1, 2, 3]
        assert all(pool.map(blocked_at_import, range(4)))
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def begin(value: int) -> None:
    os.environ["BEGUN"] = str(value)


def begun(_: int) -> str:
    return os.environ["BEGUN"]


def test_each_process_begins_as_told():
    with ProcessPool(2, begin, [7]) as pool:
        assert list(pool.map(begun, range(4))) == ["7"] * 4


class Deadly:
    """Kills the process that unpickles it."""

    def __reduce__(self) -> object:
        return os._exit, (1,)


@pytest.mark.timeout(60)
def test_a_process_that_dies_before_it_has_read_its_arguments_is_noticed():
    """While it starts a process, Python waits until all is read that the process inherits."""
    pool = ProcessPool(2, begin, [Deadly(), bytes(1 << 20)])
    with pytest.raises(BrokenProcessPool), pool:
        pool.submit(abs, 1).result()


SCRIPT = """
import __main__
from linkseek.indexer.machine.together import ProcessPool

print("begins")
with ProcessPool(1) as pool:
    print(pool.submit(abs, -3).result(), __main__.__file__, __main__.__spec__ and __main__.__spec__.name)
"""


@pytest.mark.parametrize("is_module", [False, True], ids=["script", "module"])
def test_a_program_is_not_run_again_in_its_processes(is_module, tmp_path):
    """Nobody should need `if __name__ == "__main__"` to build an index."""
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)
    words = ["-m", "program"] if is_module else [path]
    done = python(*words, PYTHONPATH=f"{WITH_TESTS['PYTHONPATH']}{os.pathsep}{tmp_path}")
    assert done.stdout == f"begins\n3 {path} {'program' if is_module else None}\n", done.stderr
