"""Commands as users run them: each in a process of its own."""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkseek.__main__ import ALL
from linkseek.indexer.search import jvm
from linkseek.retriever.training.log import read_log

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext  # Windows has none

ROOT = Path(__file__).parents[2]
WITH_TESTS = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
"""The environment of a process that imports what tests share, such as `tests.support.tiny.encoder`."""

Done = subprocess.CompletedProcess[str]

QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
jvm._JAVA_OPTIONS = (*jvm._JAVA_OPTIONS, *QUICK_JAVA)
"""Java compiles quickly and once: no test asks it often enough that its better code would pay."""


@cache
def forks() -> ForkServerContext:
    """Processes that begin with the large libraries and all commands imported, without network.

    Their import takes longer than most of what the tests run.
    """
    libraries = "pytest sentence_transformers peft faiss lightgbm pyarrow.compute scipy.special".split()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*libraries, *(f"linkseek.{command.module}" for command in ALL.values())])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")  # which is read at the import
        context.Process().start()
    return context


class Forked:
    """`python COMMAND`, to be used as a `subprocess.Popen`, in a process that begins with all imports done.

    The modules are those of the tests, as in `WITH_TESTS`. The environment is that of now, or what is given.
    """

    def __init__(
        self, command: Sequence[object], cwd: Path = ROOT, env: Mapping[str, str] | None = None
    ) -> None:
        self.args = [str(word) for word in command]
        self._folder = tempfile.TemporaryDirectory()
        self._files = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        for file in self._files:
            file.touch()
        environment = {**(os.environ if env is None else env), "HF_HUB_OFFLINE": "1"}
        self._process = forks().Process(target=_run_here, args=(self.args, cwd, environment, *self._files))
        self._process.start()
        self.pid = self._process.pid
        atexit.register(self.kill)  # before multiprocessing waits for it

    def poll(self) -> int | None:
        """The exit code, or minus the number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    returncode = property(poll)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()

    def communicate(self, timeout: float = 500) -> tuple[str, str]:
        """Wait for its end; what it wrote to stdout and stderr. One that takes too long is killed."""
        self._process.join(timeout)
        late = self.poll() is None
        if late:
            self.kill()
            self._process.join()
        output, errors = (file.read_text("utf-8") for file in self._files)
        self._folder.cleanup()
        if late:
            raise subprocess.TimeoutExpired(self.args, timeout, output, errors)
        return output, errors


def run_forked(
    command: Sequence[object], limit: float = 500, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> Done:
    """Run `python COMMAND` to its end, see `Forked`."""
    process = Forked(command, cwd, env)
    output, errors = process.communicate(limit)
    return Done(process.args, process.returncode, output, errors)


def run(command: str, *arguments: object, cwd: Path = ROOT, package: str = "linkseek") -> Done:
    """Run `python -m PACKAGE COMMAND ARGUMENTS`, or a script: `python COMMAND ARGUMENTS`; no network."""
    program = [ROOT / command] if command.endswith(".py") else ["-m", package, command]
    return run_forked([*program, *arguments], cwd=cwd)


def python(*words: object, cwd: Path = ROOT, **environment: str) -> Done:
    """Run `python WORDS` in a process that imports everything itself, unlike `run_forked`.

    environment: variables that are added to those of now and of `WITH_TESTS`.
    """
    variables = os.environ | {"PYTHONPATH": WITH_TESTS["PYTHONPATH"]} | environment
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=500)


def tracked(*options: str) -> list[str]:
    """The names of this checkout's files that `git ls-files OPTIONS` lists."""
    listed = subprocess.run(["git", "ls-files", "-z", *options], cwd=ROOT, capture_output=True, check=True)
    return listed.stdout.decode().split("\0")[:-1]


def _run_here(command: list[str], cwd: Path, environment: dict[str, str], stdout: Path, stderr: Path) -> None:
    for number, file in ((1, stdout), (2, stderr)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
    gc.freeze()  # what is imported, which each collection of garbage would go through
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    if threads := environment.get("OMP_NUM_THREADS"):  # which libraries read at their import
        sys.modules["torch"].set_num_threads(int(threads))
        sys.modules["faiss"].omp_set_num_threads(int(threads))
    kind = command[0]
    if kind == "-c":
        sys.argv = ["-c", *command[2:]]
        exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})
    elif kind == "-m":
        sys.argv = command[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(sys.argv[0], run_name="__main__")


_KILLED = """
import os, runpy, signal, sys
from linkseek.retriever.training.log import Log

stage, limit, *sys.argv = sys.argv[1:]
write_losses = Log.write_losses

def write_and_end(self, step, values):
    write_losses(self, step, values)
    if self._stage == stage and step >= int(limit):
        os.kill(os.getpid(), signal.SIGKILL)

Log.write_losses = write_and_end
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def kill_at(step: int, word: str, *arguments: object, stage: str = "") -> None:
    """Run the training `linkseek WORD ARGUMENTS`, which SIGKILL ends when it has logged a step."""
    command = ["-c", _KILLED, stage, step, "linkseek", word, *arguments]
    done = run_forked(command, env=WITH_TESTS | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == -signal.SIGKILL, done.stderr


def free_port() -> int:
    """A port of this machine that nobody listens at, below those that connections get meanwhile."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def two_ranks(script: str, *arguments: object) -> list[Forked]:
    """Start `python -c SCRIPT ARGUMENTS` as both of the processes that train together."""
    environment = WITH_TESTS | {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
    }
    return [
        Forked(["-c", script, *arguments], env=environment | {"RANK": rank, "LOCAL_RANK": rank})
        for rank in "01"
    ]


def with_settings(config: Path, settings: Iterable[str]) -> list[str]:
    """The arguments of a training command: a file of settings, and others one by one."""
    return [str(config), *(word for setting in settings for word in ("--set", setting))]


def train_here(main: Callable[[Sequence[str]], None], config: Path, *settings: str) -> Path:
    """Run a training command in this process; returns its folder `out` next to the file of settings."""
    main(with_settings(config, settings))
    return config.parent / "out"


def assert_same_run(out: Path, other: Path, *files: str) -> None:
    """Two trainings logged the same but for their speed, and some files of theirs are the same."""
    logs = [
        [{key: value for key, value in line.items() if "per_second" not in key} for line in read_log(path)]
        for path in (out / "log.jsonl", other / "log.jsonl")
    ]
    assert logs[0] == logs[1]
    for name in files or ("model.safetensors",):
        assert (out / name).read_bytes() == (other / name).read_bytes(), name


def train_by_one_and_two(
    module: str,
    write: Callable[[str], Path],
    variants: Mapping[str, Sequence[str]],
    *,
    steps: int,
    rel: float = 1e-4,
) -> list[tuple[Path, Path]]:
    """Train each of some variants in this process, and again in two; returns the folders of both models.

    Both log the same values at every step. write: writes a file of settings into a folder of that name.
    variants: further settings by name.
    """
    twins = {name: (write(f"{name}-1"), write(f"{name}-2")) for name in variants}
    script = (
        f"import json, sys; from {module} import main; [main(json.loads(words)) for words in sys.argv[1:]]"
    )
    ranks = two_ranks(
        script, *(json.dumps(with_settings(two, variants[name])) for name, (_, two) in twins.items())
    )
    main = importlib.import_module(module).main
    made = [
        (train_here(main, one, *variants[name]), two.parent / "out") for name, (one, two) in twins.items()
    ]
    said = [rank.communicate(timeout=500)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    for name, pair in zip(variants, made, strict=True):
        logs = [read_log(out / "log.jsonl") for out in pair]
        assert [len(log) for log in logs] == [steps, steps]
        for mine, theirs in zip(*logs, strict=True):
            for key, value in mine.items():
                same = value if isinstance(value, str) else pytest.approx(value, rel=rel, abs=1e-5)
                assert theirs[key] == same or key.endswith("_per_second"), (name, key)
    return made
