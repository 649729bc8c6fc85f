"""Commands as users run them: in a process of their own."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
WITH_TESTS = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
"""The environment of a process that imports what tests share, such as `fake_encoder`."""

Done = subprocess.CompletedProcess[str]


def run(
    command: str, *arguments: object, cwd: Path = ROOT, limit: float = 240, package: str = "linkseek"
) -> Done:
    """Run `python -m PACKAGE COMMAND ARGUMENTS`, or a script: `python COMMAND ARGUMENTS`; no network."""
    program = [ROOT / command] if command.endswith(".py") else ["-m", package, command]
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=limit,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["sentence_transformers", "peft", "faiss", "pyarrow.compute", "pydantic"])


def run_forked(command: Sequence[str], limit: float = 500, cwd: Path = ROOT) -> Done:
    """Run `python COMMAND` in a process that has already imported the large libraries.

    Their import takes longer than most of what the tests run.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "stdout"), Path(folder, "stderr")
        process = _FORKS.Process(target=_run_here, args=(list(command), cwd, *files))
        process.start()
        process.join(limit)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, limit, *(file.read_bytes() for file in files))
        output, errors = (file.read_text("utf-8") for file in files)
        return subprocess.CompletedProcess(command, process.exitcode, output, errors)


def _run_here(command: list[str], cwd: Path, stdout: Path, stderr: Path) -> None:
    for number, file in ((1, stdout), (2, stderr)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(cwd)
    is_module = command[0] == "-m"
    sys.argv = command[1:] if is_module else command
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
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
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, stage, str(step), "linkseek", word, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        env=WITH_TESTS | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def two_ranks(script: str, *arguments: object) -> list[subprocess.Popen[str]]:
    """Start `python -c SCRIPT ARGUMENTS` as both of the processes that train together."""
    environment = WITH_TESTS | {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
    }
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env=environment | {"RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in "01"
    ]
